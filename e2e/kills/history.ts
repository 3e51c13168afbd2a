/**
 * What writers wrote to a database and what was acknowledged, over kills and restores in place, to compare a copy with. No step has a
 * number twice. A restore begins a new life of the database: a writer notices by what it no longer finds. Pure.
 */

/** One writer in one life. `kept`: what the life began with; `acknowledged`: in the order in which it was written since. */
type Life = { kept: ReadonlySet<number>; acknowledged: number[] }
export type Trail = { lives: [Life, ...Life[]]; attempted: number }
type Point = { life: number; acknowledged: number; attempted: number }
/** One point for each writer. */
export type Moment = readonly Point[]
/** `from`: before the copy was asked for; `to`: after it was there. */
export type Window = { from: Moment; to: Moment }

export const newTrail = (): Trail => ({ lives: [{ kept: new Set(), acknowledged: [] }], attempted: 0 })
const lastOf = ({ lives }: Trail): Life => lives.at(-1) ?? lives[0]

export const acknowledge = (trail: Trail, n: number): void => void lastOf(trail).acknowledged.push(n)
export const beginLife = (trail: Trail, present: Iterable<number>): void =>
  void trail.lives.push({ kept: new Set(present), acknowledged: [] })
export const pointOf = (trail: Trail): Point => ({
  life: trail.lives.length - 1,
  acknowledged: lastOf(trail).acknowledged.length,
  attempted: trail.attempted,
})
export const acknowledgedIn = ({ lives }: Trail): number =>
  lives.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0)

/** What was acknowledged in the present life and is not there. */
export function missingOf(trail: Trail, present: ReadonlySet<number>): number[] {
  const { kept, acknowledged } = lastOf(trail)
  return [...kept, ...acknowledged].filter(n => !present.has(n))
}

/** Whether a copy is of one instant between the two points. What was not acknowledged may be in it or not. */
export function isOfWindow(trail: Trail, present: ReadonlySet<number>, from: Point, to: Point): boolean {
  const everAcknowledged = new Set(trail.lives.flatMap(({ acknowledged }) => acknowledged))
  return trail.lives.some(({ kept, acknowledged }, life) => {
    // A writer may notice a new life only after the copy was there.
    if (life < from.life) return false
    const first = acknowledged.findIndex(n => !present.has(n))
    const count = first === -1 ? acknowledged.length : first
    const isWhole = [...kept].every(n => present.has(n)) && acknowledged.slice(count).every(n => !present.has(n))
    const isNewEnough = life > from.life || count >= from.acknowledged
    const ofLife = new Set(acknowledged.slice(0, count))
    const others = [...present].filter(n => !kept.has(n) && !ofLife.has(n))
    const isOldEnough = [...present].every(n => n <= to.attempted)
    return isWhole && isNewEnough && isOldEnough && others.every(n => !everAcknowledged.has(n))
  })
}

/** What was acknowledged after a backup was there and before its restore was asked for, and is there all the same. */
export function notUndone(trail: Trail, present: ReadonlySet<number>, backup: Point, restore: Point): number[] {
  const { acknowledged } = trail.lives[restore.life] ?? trail.lives[0]
  return acknowledged.slice(0, restore.acknowledged).filter(n => n > backup.attempted && present.has(n))
}
