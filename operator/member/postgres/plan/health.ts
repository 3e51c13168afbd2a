/** The health of Postgres by its answers and its pod. Slow answers are no sign of a failure. */

import { conditionOf } from '../../../objects/conditions.ts'
import type { ChecksumFailures } from '../../../postgres/administrator.ts'
import type { ObservedMember } from '../../observed.ts'
import { presentAnswer } from '../answer.ts'

/**
 * Whether the condition Ready stays True although nothing is known of the present run of Postgres: the operator has not
 * probed since it started, or the probes have timed out.
 */
export function isStillReady({ instance, pod, postgres }: ObservedMember): boolean {
  const isUnknown = postgres === undefined || (postgres.run === pod?.run && postgres.answer === undefined)
  return isUnknown && conditionOf(instance.status, 'Ready')?.status === 'True'
}

/** Whether Postgres was probed since its pod's readiness last changed. */
const isProbed = ({ pod, postgres }: ObservedMember): boolean =>
  postgres?.run === pod?.run && postgres?.ready === pod?.ready

/** Postgres answered, since its pod last changed, that its disk is full. */
export function isFull(observed: ObservedMember): boolean {
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' && !answer.hasFreeSpace && isProbed(observed)
}

/**
 * A small write to its WAL has not reached the disk: reported by the pod's own probe, or by the operator's if the pod
 * has none. The pod's probe fails on a full disk too; the operator's probe distinguishes that, and nothing is reported
 * before it.
 */
export function writeHangs(observed: ObservedMember): boolean {
  const answer = presentAnswer(observed)
  if (answer?.state === 'answered' && answer.walHangs) return true
  return observed.pod?.writeHangs === true && isProbed(observed) && !isFull(observed)
}

export const writeHangsMessage =
  'a small write to WAL has hung for 20 s or more: commits wait for the disk; Postgres is not restarted'

/** The message for damaged data that are still served: the user decides what to do. */
export function checksumMessage({ count, databases, lastAt }: ChecksumFailures): string {
  const last = lastAt === null ? '' : `, last at ${lastAt}`
  return (
    `data on the disk are damaged: Postgres read a page with a wrong checksum ${count} times${last}, in ` +
    `${databases.join(', ')}. Postgres still serves what it can read: dump that with pg_dump, find the affected relations ` +
    'in its log, and check the storage'
  )
}
