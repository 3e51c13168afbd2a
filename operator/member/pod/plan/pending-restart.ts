/** What waits for a restart, and since when: nothing of it is urgent, and nothing of it happens by itself. */

import { timestamp } from '../../../../values/time.ts'
import { type Finding, yes } from '../../../objects/conditions.ts'
import type { Instance, PendingRestart } from '../../../objects/instance.ts'
import type { ObservedMember } from '../../observed.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import type { Newest } from './restart-marks.ts'

type Reason = 'Image' | 'PodTemplate' | 'Settings' | 'Configuration'
type Found = { reason: Reason; message: string }

/** What the pod was made from and would not be made from any more. */
function ofTemplate({ pod }: ObservedMember, { newestTemplate, image }: Newest): Found[] {
  if (pod === undefined || newestTemplate === undefined || pod.template === newestTemplate) return []
  if (pod.image !== undefined && image !== undefined && pod.image !== image)
    return [{ reason: 'Image', message: `the pod runs ${pod.image}; ${image} is what a new one runs` }]
  return [{ reason: 'PodTemplate', message: 'the pod was made from an older template' }]
}

/** What Postgres itself says; undefined where it has not been asked in its present run. */
function ofSettings(observed: ObservedMember, { configurationDigest }: Newest): Found[] | undefined {
  const answer = presentAnswer(observed)
  if (answer?.state !== 'answered') return undefined
  const { pendingRestart, isMounted, refused, inForce } = answer.configuration
  const found: Found[] = []
  if (pendingRestart.length > 0)
    found.push({ reason: 'Settings', message: `changed, and taken at a start only: ${pendingRestart.join(', ')}` })
  if (!isMounted && refused === null && configurationDigest !== undefined && inForce !== configurationDigest)
    found.push({
      reason: 'Configuration',
      message: 'the pod is from before configuration was reloaded: it has copies, made as it started',
    })
  return found
}

/** What is on record of what Postgres itself says. */
const toldBefore = ({ status }: Instance): PendingRestart[] =>
  (status?.pendingRestart ?? []).filter(({ reason }) => reason === 'Settings' || reason === 'Configuration')

/**
 * Whether a restart would bring anything: undefined where only the record says so. That may be of another time, out of a backup
 * of the cluster, so Postgres is asked first.
 */
export function isWorthRestart(observed: ObservedMember, newest: Newest): boolean | undefined {
  if (observed.pod === undefined || ofTemplate(observed, newest).length > 0) return true
  const found = ofSettings(observed, newest)
  if (found !== undefined) return found.length > 0
  return toldBefore(observed.instance).length > 0 ? undefined : false
}

export function pendingRestarts(observed: ObservedMember, desired: Newest, now: number): PendingRestart[] {
  const { pod, instance } = observed
  const before = instance.status?.pendingRestart ?? []
  if (pod === undefined || pod.terminating || instance.spec.suspended) return []
  const found = [...ofTemplate(observed, desired), ...(ofSettings(observed, desired) ?? toldBefore(instance))]
  return found.map(({ reason, message }) => ({
    reason,
    message: message.slice(0, 1000),
    since: before.find(entry => entry.reason === reason)?.since ?? timestamp(now),
  }))
}

export function restartFinding(pending: readonly PendingRestart[]): Finding | undefined {
  const [first] = pending
  if (first === undefined) return undefined
  return yes(
    first.reason,
    `${pending.map(({ message }) => message).join('; ')}. It comes into force at the next restart`,
  )
}
