/** Whether the deadline of a database's operation has passed, and what ends with it. */

import { awaitedRotations, desiredHash, desiredStateOf, type ManagedDatabase } from '../../crds/index.ts'
import type { RequestedRotations } from '../endpoint/observed.ts'

/** Whether the deadline of what is requested has passed. A restart or rotation is not done after it. */
export function isPastDeadline({ status, ...database }: ManagedDatabase, now: number): boolean {
  const { operation } = status ?? {}
  return operation?.hash === desiredHash(desiredStateOf(database)) && now >= Date.parse(operation.deadlineAt)
}

export const requestedRotations = (database: ManagedDatabase, now: number): RequestedRotations => ({
  requested: awaitedRotations(database),
  isGivenUp: isPastDeadline(database, now),
})
