/** The running operation of a branch: its creation or its deletion. It stays in the status until its Task has ended. Pure. */
import { annotatedOperation, type Branch } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { isFinished } from '../../owner/operation.ts'
import type { BranchStatus, Observed } from '../observed.ts'

type Operation = NonNullable<BranchStatus['operation']>

/** The operation that the API requested, or one of the operator's own for a change without the API. */
export function operationOf(branch: Branch, name: Operation['name'], now: number): Operation {
  const running = branch.status?.operation
  if (running?.name === name) return running
  const annotated = annotatedOperation(branch)
  const own = derivedId(`${branch.metadata.uid}/${name}`)
  return { taskId: annotated?.name === name ? annotated.taskId : own, name, startedAt: timestamp(now) }
}

/** What the status keeps of an operation that has ended: nothing, once its Task has ended as well. */
export const endedOperation = ({ branch, task }: Observed): Operation | undefined =>
  isFinished(task) ? undefined : branch.status?.operation
