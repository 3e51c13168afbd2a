/** What Postgres's answers, and its pod, say of its health. Slowness says nothing. */

import { conditionOf } from '../../../objects/conditions.ts'
import type { ChecksumFailures } from '../../../postgres/administrator.ts'
import type { ObservedMember } from '../../observed.ts'
import { presentAnswer } from '../answer.ts'

/**
 * Whether the condition Ready stays True although nothing is known of the present run of Postgres: the operator has not probed since
 * it started, or Postgres has been too slow to answer.
 */
export function isStillReady({ instance, pod, postgres }: ObservedMember): boolean {
  const isUnknown = postgres === undefined || (postgres.run === pod?.run && postgres.answer === undefined)
  return isUnknown && conditionOf(instance.status, 'Ready')?.status === 'True'
}

/** Whether Postgres was looked at since its pod is as ready, or not, as it is now. */
const isLookedAt = ({ pod, postgres }: ObservedMember): boolean =>
  postgres?.run === pod?.run && postgres?.ready === pod?.ready

/** Postgres answered, since its pod is what it is now, that there is no room on its disk for more. */
export function isFull(observed: ObservedMember): boolean {
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' && !answer.hasRoom && isLookedAt(observed)
}

/**
 * A small write to its WAL has not come to rest on the disk: the pod's own probe says so, or a look, where it has none. That
 * probe fails on a full disk as well, which a look tells apart: nothing is said before it.
 */
export function writeHangs(observed: ObservedMember): boolean {
  const answer = presentAnswer(observed)
  if (answer?.state === 'answered' && answer.walHangs) return true
  return observed.pod?.writeHangs === true && isLookedAt(observed) && !isFull(observed)
}

export const writeHangsMessage =
  'a small write to WAL has hung for 20 s or more: whoever commits waits for the disk; Postgres is left running'

/** Said of data that still serve: what to do is the user's to decide. */
export function checksumMessage({ count, databases, lastAt }: ChecksumFailures): string {
  const last = lastAt === null ? '' : `, last at ${lastAt}`
  return (
    `data on the disk are damaged: ${count} times Postgres read a page that does not match its checksum${last}, in ` +
    `${databases.join(', ')}. Postgres goes on serving what it can read: dump that (pg_dump), find the relations ` +
    'concerned in its log, and look after the storage'
  )
}
