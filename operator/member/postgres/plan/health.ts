/** The health of Postgres, from its answers and its pod. A slow answer is no sign of a failure. */

import { conditionOf } from '../../../objects/conditions.ts'
import type { ChecksumFailures } from '../../../postgres/administrator.ts'
import type { ObservedMember } from '../../observed.ts'
import { presentAnswer } from '../answer.ts'

/**
 * Whether the condition Ready stays True although nothing is known about the current run of Postgres. Either the
 * operator has not probed Postgres since the operator's start, or the probes have timed out.
 */
export function isStillReady({ instance, pod, postgres }: ObservedMember): boolean {
  const isUnknown = postgres === undefined || (postgres.run === pod?.run && postgres.answer === undefined)
  return isUnknown && conditionOf(instance.status, 'Ready')?.status === 'True'
}

/** Whether Postgres was probed after its pod's readiness last changed. */
const isProbed = ({ pod, postgres }: ObservedMember): boolean =>
  postgres?.run === pod?.run && postgres?.ready === pod?.ready

/** Whether Postgres reported a full disk after the pod's readiness last changed. */
export function isFull(observed: ObservedMember): boolean {
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' && !answer.hasFreeSpace && isProbed(observed)
}

/**
 * Whether a small write to WAL does not reach the disk. The pod's WAL probe reports this. If the pod has no WAL probe,
 * the operator's probe reports it. The WAL probe also fails on a full disk, so the operator's probe must first exclude
 * a full disk.
 */
export function writeHangs(observed: ObservedMember): boolean {
  const answer = presentAnswer(observed)
  if (answer?.state === 'answered' && answer.walHangs) return true
  return observed.pod?.writeHangs === true && isProbed(observed) && !isFull(observed)
}

export const writeHangsMessage =
  'a small write to WAL has hung for 20 s or more: commits wait for the disk. The operator does not restart Postgres'

/** The message for damaged data that Postgres still serves. The user decides what to do. */
export function checksumMessage({ count, databases, lastAt }: ChecksumFailures): string {
  const last = lastAt === null ? '' : `, last at ${lastAt}`
  return (
    `data on the disk are damaged: Postgres read a page with a wrong checksum ${count} times${last}, in ` +
    `${databases.join(', ')}. Postgres still serves what it can read: dump that with pg_dump, find the affected relations ` +
    'in its log, and check the storage'
  )
}
