/**
 * Divides time into steps of the interval, counted from the epoch, and computes the values of one step from its
 * samples.
 */
import type { Window } from './window.ts'

export type Cell = number | null
export type Series = { name: string; columns: string[]; values: (string | Cell)[][] }

/** The values of one process at one time. null: the value is unknown. */
export type Sampled = { at: number; values: Readonly<Record<string, Cell>> }

/** Two consecutive samples. */
type Pair = { before: Sampled; after: Sampled }
export type Step = { at: number; samples: Sampled[]; pairs: Pair[] }

/** Returns the increase of a counter. A smaller value means a reset to zero. Returns null if a value is unknown. */
function growth(measure: string, { before, after }: Pair): Cell {
  const [from = null, to = null] = [before.values[measure], after.values[measure]]
  if (from === null || to === null) return null
  return to >= from ? to - from : to
}

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
export const known = (values: readonly Cell[]): number[] => values.filter(value => value !== null)

/** Returns the increase in a step; null if unknown. */
export function grownBy(measure: string, { pairs }: Step): Cell {
  const grown = known(pairs.map(pair => growth(measure, pair)))
  return grown.length > 0 ? sum(grown) : null
}

export function perSecond(measure: string, { pairs }: Step): Cell {
  const grown = pairs.flatMap(pair => {
    const by = growth(measure, pair)
    return by === null ? [] : [{ by, ms: pair.after.at - pair.before.at }]
  })
  const ms = sum(grown.map(each => each.ms))
  return ms > 0 ? (sum(grown.map(({ by }) => by)) * 1000) / ms : null
}

export function meanOf(measure: string, { samples }: Step): Cell {
  const values = known(samples.map(({ values: all }) => all[measure] ?? null))
  return values.length > 0 ? sum(values) / values.length : null
}

export const lastOf = (measure: string, { samples }: Step): Cell =>
  known(samples.map(({ values }) => values[measure] ?? null)).at(-1) ?? null

/** Returns the steps with data, in order. A pair of samples belongs to the step of its second sample. */
export function stepsOf(samples: readonly Sampled[], { startMs, endMs, intervalMs }: Window): Step[] {
  const inOrder = [...samples].sort((left, right) => left.at - right.at)
  const steps = new Map<number, Step>()
  for (const [index, after] of inOrder.entries()) {
    if (after.at < startMs || after.at >= endMs) continue
    const at = Math.floor(after.at / intervalMs) * intervalMs
    const step = steps.get(at) ?? { at, samples: [], pairs: [] }
    steps.set(at, step)
    step.samples.push(after)
    const before = inOrder[index - 1]
    if (before !== undefined && before.at < after.at) step.pairs.push({ before, after })
  }
  return [...steps.values()]
}
