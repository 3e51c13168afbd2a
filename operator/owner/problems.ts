/**
 * Conditions for the problems of actions. Progressing reports a problem of the complete work while an operation runs.
 * Such a problem never changes the outcome of an ended operation. If no operation runs and clients are served,
 * ChildrenApplied reports it: an object does not have its desired state, and no other condition would report that.
 */
import type { Condition } from '../../crds/index.ts'
import { conditionOf, no, yes } from '../objects/conditions.ts'
import type { InstanceCondition, InstanceFindings } from '../workload/plan/findings.ts'

/**
 * A temporary problem of an action that the operator did not cause. A condition reports it, and the operator retries
 * the action.
 */
export type Problem = { condition: InstanceCondition; reason: string; message: string }

/** `next`: returns the conditions of the owner's kind after these findings. */
export function withProblems(
  before: readonly Condition[],
  problems: readonly Problem[],
  next: (conditions: readonly Condition[], findings: InstanceFindings) => Condition[],
): Condition[] {
  let conditions = [...before]
  for (const { condition, reason, message } of problems) {
    const runs = conditionOf({ conditions }, 'Progressing')?.status === 'True'
    const isServing = conditionOf({ conditions }, 'Ready')?.status === 'True'
    const known = conditions
    const updated = next(known, {
      ...(runs ? { Progressing: yes(reason, message) } : {}),
      ...(condition !== 'Progressing' ? { [condition]: no(reason, message) } : {}),
      ...(condition === 'Progressing' && isServing && !runs ? { ChildrenApplied: no(reason, message) } : {}),
      ...(isServing ? {} : { Ready: no(reason, message) }),
    })
    // A problem does not replace this pass's findings.
    conditions = [...updated, ...known.filter(({ type }) => updated.every(other => other.type !== type))]
  }
  return conditions
}
