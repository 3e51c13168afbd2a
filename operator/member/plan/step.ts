/** The current step of a member whose Postgres has not answered yet. */
import type { ObservedMember } from '../observed.ts'
import { isOutOfDate } from '../pod/plan/out-of-date.ts'
import { presentAnswer } from '../postgres/answer.ts'
import { unprovisionedMessage } from '../storage/plan/unprovisioned.ts'
import type { DesiredMember } from './desired.ts'

type MemberStep = { step: 'Starting' | 'Connecting'; reason: string; message: string }

const at = (step: MemberStep['step'], message: string): MemberStep => ({ step, reason: step, message })

export function memberStep(
  observed: ObservedMember,
  desired: Pick<DesiredMember, 'size' | 'restarts'>,
): MemberStep | undefined {
  const { pod } = observed
  const notProvisioned = unprovisionedMessage(observed)
  if (notProvisioned !== undefined) return at('Starting', notProvisioned)
  if (pod === undefined) return at('Starting', 'waiting for the pod')
  if (pod.terminating || isOutOfDate(observed, desired, pod)) return at('Starting', 'restarting Postgres')
  if (pod.address === undefined) return at('Starting', pod.problem?.message ?? 'starting the instance')
  const answer = presentAnswer(observed)
  return answer?.state === 'answered'
    ? undefined
    : at('Connecting', answer?.message ?? 'waiting for Postgres to answer')
}
