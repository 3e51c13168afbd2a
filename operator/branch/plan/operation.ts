/**
 * A branch's running operation: creation, deletion or move. It stays in the status until its Task has ended, or until a
 * deletion replaces it. Pure.
 */
import { annotatedOperation, type Branch, requestedMove } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { isFinished } from '../../owner/operation.ts'
import type { BranchStatus, Observed } from '../observed.ts'

type Operation = NonNullable<BranchStatus['operation']>

/**
 * Returns the running operation if it has this name. Otherwise returns the operation that the API requested, or a new
 * operation if another client requested the creation or deletion.
 */
export function operationOf(branch: Branch, name: 'create-branch' | 'delete-branch', now: number): Operation {
  const running = branch.status?.operation
  if (running?.name === name) return running
  const annotated = annotatedOperation(branch)
  const own = derivedId(`${branch.metadata.uid}/${name}`)
  return { taskId: annotated?.name === name ? annotated.taskId : own, name, startedAt: timestamp(now) }
}

/** The move to `spec.target`. Each change of this field by a client other than the API is a new operation. */
export const moveOperation = (branch: Branch, now: number): Operation => ({
  taskId: requestedMove(branch) ?? derivedId(`${branch.metadata.uid}/move-branch/${branch.metadata.generation}`),
  name: 'move-branch',
  startedAt: timestamp(now),
})

/** The operation in the status; undefined once its Task has ended. */
export const endedOperation = ({ branch, task }: Observed): Operation | undefined =>
  isFinished(task) ? undefined : branch.status?.operation
