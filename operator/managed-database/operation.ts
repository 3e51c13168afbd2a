/** What a database and its Task say of an operation: whether it has ended, and whether its deadline has passed. */

import {
  askedBy,
  awaitedRotations,
  desiredHash,
  isEnded,
  type ManagedDatabase,
  type ManagedDatabaseStatus,
  type Task,
} from '../../crds/index.ts'
import type { AskedRotations } from '../endpoint/observed.ts'
import { conditionOf } from '../objects/conditions.ts'

export const isFinished = (task: Task | undefined): boolean => task !== undefined && isEnded(task)

/** Whether the operation has ended, and only its Task does not say so yet. */
export const hasEnded = (status: ManagedDatabaseStatus | undefined): boolean =>
  status?.operation !== undefined && conditionOf(status, 'Progressing')?.status === 'False'

/** Whether the deadline of what is requested has passed. A restart or rotation is not done after it. */
export function isOver({ status, ...database }: ManagedDatabase, now: number): boolean {
  const { operation } = status ?? {}
  return operation?.hash === desiredHash(askedBy(database)) && now >= Date.parse(operation.deadlineAt)
}

export const askedRotations = (database: ManagedDatabase, now: number): AskedRotations => ({
  asked: awaitedRotations(database),
  isGivenUp: isOver(database, now),
})
