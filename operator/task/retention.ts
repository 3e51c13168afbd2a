/** How long ended Tasks are kept: 30 days at most, and of one subject the newest 100. Pure. */
import { isEnded, type Task } from '../../crds/index.ts'

const keptMs = 30 * 24 * 3600_000
/** Ended Tasks kept of one subject. */
const keptOfSubject = 100

/** When it ended. One that does not say so, which is not ours, counts from when it was made. */
const endOf = ({ metadata, status }: Task): string => status?.finishedAt ?? metadata.creationTimestamp ?? ''

/** Whether a Task has been kept long enough. */
export const isOutdated = (task: Task, now: number): boolean => isEnded(task) && now - Date.parse(endOf(task)) >= keptMs

/** By their end, and by name where that is the same. */
const compareByEnd = (left: Task, right: Task): number =>
  Date.parse(endOf(left)) - Date.parse(endOf(right)) || (left.metadata.name < right.metadata.name ? -1 : 1)

/** Of one subject's Tasks those that are too many, the oldest first. */
export function surplusOf(tasks: readonly Task[]): Task[] {
  const ended = tasks.filter(isEnded)
  if (!isTooMany(ended.length)) return []
  const ordered = ended.toSorted(compareByEnd)
  return ordered.slice(0, ended.length - keptOfSubject)
}

/** Whether so many ended Tasks are more than are kept of one subject. */
export const isTooMany = (ended: number): boolean => ended > keptOfSubject
