/** Deeds that are asked for, such as a restart: until when they are done. */
import { askedBy, awaitedRotations, desiredHash, type ManagedDatabase } from '../../../crds/index.ts'
import type { AskedRotations } from '../../workload/observed.ts'

/** What could not be done in time is not done when nobody counts on it any more. */
export function isOver({ status, ...database }: ManagedDatabase, now: number): boolean {
  const { operation } = status ?? {}
  return operation?.hash === desiredHash(askedBy(database)) && now >= Date.parse(operation.deadlineAt)
}

export const askedRotations = (database: ManagedDatabase, now: number): AskedRotations => ({
  asked: awaitedRotations(database),
  isGivenUp: isOver(database, now),
})
