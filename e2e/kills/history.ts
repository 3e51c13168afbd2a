/**
 * Records the writes to a database and their acknowledgements, over kills and restores in place, to compare them with a
 * copy. Step numbers are unique. A restore begins a new period of the database. A writer detects the new period by
 * missing rows. Pure.
 */

/**
 * One writer in one period. `initial`: the rows at the beginning of the period; `acknowledged`: later rows, in the
 * order of writing.
 */
type Period = { initial: ReadonlySet<number>; acknowledged: number[] }
export type History = { periods: [Period, ...Period[]]; attempted: number }
type Point = { period: number; acknowledged: number; attempted: number }
/** One position of each writer. */
export type Moment = readonly Point[]
/** `from`: before the copy was requested. `to`: after the copy existed. */
export type Window = { from: Moment; to: Moment }

export const newHistory = (): History => ({ periods: [{ initial: new Set(), acknowledged: [] }], attempted: 0 })
const lastOf = ({ periods }: History): Period => periods.at(-1) ?? periods[0]

export const acknowledge = (history: History, n: number): void => void lastOf(history).acknowledged.push(n)
export const beginPeriod = (history: History, present: Iterable<number>): void =>
  void history.periods.push({ initial: new Set(present), acknowledged: [] })
export const pointOf = (history: History): Point => ({
  period: history.periods.length - 1,
  acknowledged: lastOf(history).acknowledged.length,
  attempted: history.attempted,
})
export const acknowledgedIn = ({ periods }: History): number =>
  periods.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0)

/** The acknowledged rows of the current period that are missing. */
export function missingOf(history: History, present: ReadonlySet<number>): number[] {
  const { initial, acknowledged } = lastOf(history)
  return [...initial, ...acknowledged].filter(n => !present.has(n))
}

/**
 * Whether a copy is the state of one instant between the two positions. It may or may not contain unacknowledged rows.
 */
export function isOfWindow(history: History, present: ReadonlySet<number>, from: Point, to: Point): boolean {
  const everAcknowledged = new Set(history.periods.flatMap(({ acknowledged }) => acknowledged))
  return history.periods.some(({ initial, acknowledged }, period) => {
    // A writer may detect a new period only after the copy exists.
    if (period < from.period) return false
    const first = acknowledged.findIndex(n => !present.has(n))
    const count = first === -1 ? acknowledged.length : first
    const isComplete = [...initial].every(n => present.has(n)) && acknowledged.slice(count).every(n => !present.has(n))
    const isNewEnough = period > from.period || count >= from.acknowledged
    const ofPeriod = new Set(acknowledged.slice(0, count))
    const others = [...present].filter(n => !initial.has(n) && !ofPeriod.has(n))
    const isOldEnough = [...present].every(n => n <= to.attempted)
    return isComplete && isNewEnough && isOldEnough && others.every(n => !everAcknowledged.has(n))
  })
}

/** Rows that were acknowledged after a backup existed and before its restore was requested, but still exist. */
export function notUndone(history: History, present: ReadonlySet<number>, backup: Point, restore: Point): number[] {
  const { acknowledged } = history.periods[restore.period] ?? history.periods[0]
  return acknowledged.slice(0, restore.acknowledged).filter(n => n > backup.attempted && present.has(n))
}
