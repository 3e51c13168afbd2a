/**
 * How long ended Tasks are kept: 30 days at most, and of one subject the newest 100. What is too much goes little by
 * little, oldest first: a month of it, met at once, must not become a burst of deletes.
 */
import { type Informer, keyOf } from '../../cluster/informer/index.ts'
import type { Task } from '../../crds/index.ts'

const keptMs = 30 * 24 * 3600_000
/** Ended Tasks kept of one subject. */
const keptOfSubject = 100
/** Most that one look over everything lets go: with one in 10 minutes, 288,000 a day. */
const goingAtOnce = 2_000
/** Most that the end of one Task lets go of its subject's older ones. */
const goingWithOne = 10

/** With the index `ended`: see `endedOf`. */
type CachedTasks = { tasks: Pick<Informer<'Task'>, 'byIndex' | 'list'> }

/** Whether a Task has been kept long enough. */
export const isOutdated = (task: Task, now: number): boolean =>
  task.status?.finishedAt !== undefined && now - Date.parse(task.status.finishedAt) >= keptMs

/** Whose ended Tasks are counted together; undefined for a Task that has not ended. */
export const endedOf = ({ metadata, spec, status }: Task): string | undefined =>
  status?.finishedAt === undefined ? undefined : `${metadata.namespace}/${spec.subject.kind}/${spec.subject.id}`

/** By their end, and by name where that is the same. One format, in UTC: as text they order as they do in time. */
const placeOf = ({ metadata, status }: Task): string => `${status?.finishedAt} ${metadata.name}`

/** Whether as many of its subject's Tasks as are kept ended after this one. */
export function isSurplus(caches: CachedTasks, task: Task): boolean {
  const subject = endedOf(task)
  if (subject === undefined) return false
  const ended = caches.tasks.byIndex('ended', subject)
  if (ended.length <= keptOfSubject) return false
  const place = placeOf(task)
  let later = 0
  // Of the oldest, which are those that are asked about, nearly every other one is later: this ends soon.
  return ended.some(other => placeOf(other) > place && ++later >= keptOfSubject)
}

const surplusOf = (ended: readonly Task[]): Task[] =>
  ended.length <= keptOfSubject
    ? []
    : ended.toSorted((left, right) => (placeOf(left) < placeOf(right) ? -1 : 1)).slice(0, ended.length - keptOfSubject)

/** Keys of Tasks that the end of this one makes too many. */
export function surplusBeside(caches: CachedTasks, task: Task): string[] {
  const subject = endedOf(task)
  if (subject === undefined) return []
  return surplusOf(caches.tasks.byIndex('ended', subject)).slice(0, goingWithOne).map(keyOf)
}

/** Keys of Tasks that have been kept long enough or are too many. */
export function expired(caches: CachedTasks, now: number): string[] {
  const bySubject = Map.groupBy(
    caches.tasks.list().filter(task => endedOf(task) !== undefined),
    endedOf,
  )
  const all = [...bySubject.values()].flatMap(ended => {
    const surplus = new Set(surplusOf(ended))
    return ended.filter(task => surplus.has(task) || isOutdated(task, now))
  })
  return all.slice(0, goingAtOnce).map(keyOf)
}
