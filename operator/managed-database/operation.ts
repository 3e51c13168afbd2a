/** The deadline of a database's operation. After it, the operator does no requested restart and no rotation. */
import { awaitedRotations, desiredHash, desiredStateOf, type ManagedDatabase } from '../../crds/index.ts'
import type { RequestedRotations } from '../endpoint/observed.ts'

/** Whether the operation for the current request is past its deadline. */
export function isPastDeadline({ status, ...database }: ManagedDatabase, now: number): boolean {
  const { operation } = status ?? {}
  return operation?.hash === desiredHash(desiredStateOf(database)) && now >= Date.parse(operation.deadlineAt)
}

export const requestedRotations = (database: ManagedDatabase, now: number): RequestedRotations => ({
  requested: awaitedRotations(database),
  isGivenUp: isPastDeadline(database, now),
})
