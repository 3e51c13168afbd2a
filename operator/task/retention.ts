/** How long ended Tasks are kept: at most 30 days, and the newest 100 of each subject. Pure. */
import { isEnded, type Task } from '../../crds/index.ts'

const retentionMs = 30 * 24 * 3600_000
/** How many ended Tasks are kept per subject. */
const retainedOfSubject = 100

/** When a Task ended. A Task without an end time, which another client created, counts from its creation. */
const endOf = ({ metadata, status }: Task): string => status?.finishedAt ?? metadata.creationTimestamp ?? ''

/** Whether a Task has reached its retention age. */
export const isOutdated = (task: Task, now: number): boolean =>
  isEnded(task) && now - Date.parse(endOf(task)) >= retentionMs

/** Ordered by end, then by name. */
const compareByEnd = (left: Task, right: Task): number =>
  Date.parse(endOf(left)) - Date.parse(endOf(right)) || (left.metadata.name < right.metadata.name ? -1 : 1)

/** The Tasks of one subject that are too many, oldest first. */
export function surplusOf(tasks: readonly Task[]): Task[] {
  const ended = tasks.filter(isEnded)
  if (!isTooMany(ended.length)) return []
  const ordered = ended.toSorted(compareByEnd)
  return ordered.slice(0, ended.length - retainedOfSubject)
}

/** Whether one subject has more ended Tasks than are kept. */
export const isTooMany = (ended: number): boolean => ended > retainedOfSubject
