/** Which operation of a branch runs: its creation or its deletion. It stays in the status until its Task has ended. Pure. */
import { annotatedOperation, type Branch } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { isFinished } from '../../owner/operation.ts'
import type { BranchStatus, Observed } from '../observed.ts'

type Operation = NonNullable<BranchStatus['operation']>

/** The operation as the API asked for it, or one of our own for what was asked for without it. */
export function operationOf(branch: Branch, name: Operation['name'], now: number): Operation {
  const running = branch.status?.operation
  if (running?.name === name) return running
  const annotated = annotatedOperation(branch)
  const own = derivedId(`${branch.metadata.uid}/${name}`)
  return { taskId: annotated?.name === name ? annotated.taskId : own, name, startedAt: timestamp(now) }
}

/** What is left of an operation that has come to its end: nothing, once its Task says so as well. */
export const endedOperation = ({ branch, task }: Observed): Operation | undefined =>
  isFinished(task) ? undefined : branch.status?.operation
