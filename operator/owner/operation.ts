/** The operation in an owner's status, and its Task. */
import { type Branch, isEnded, type ManagedDatabase, type Task } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'

export const isFinished = (task: Task | undefined): boolean => task !== undefined && isEnded(task)

/** Whether the operation has ended, but its Task does not report that yet. */
export const hasEnded = (status: ManagedDatabase['status'] | Branch['status']): boolean =>
  status?.operation !== undefined && conditionOf(status, 'Progressing')?.status === 'False'
