/** Decides which indexes find the rows of a search, and how many are read. Pure. */
import type { Budget } from './candidates.ts'

/** `by`: which indexes find the rows: the condition's, the words', or those that Postgres chooses, possibly both. */
export type Access = {
  readonly by: 'condition' | 'words' | 'planner'
  /** Budget of the rows found by words. */
  readonly budget: Budget
  /** The most rows to score, if the budget turns out wrong. */
  readonly mostScored: number
}

export type Reading = {
  /** False: the vector of each row is computed from its text, which takes ten times as long. */
  readonly isStored: boolean
  readonly rows: number
  readonly averageLength: number
  readonly isFiltered: boolean
  /** Rows that the condition accepts, if known. */
  readonly matching: number | undefined
}

type Cost = {
  readonly scored: number
  /** Budget for reading the index. */
  readonly microseconds: number
  readonly mostScored: number
  readonly mostByCondition: number
}

const usual: Cost = { scored: 600, microseconds: 2_000, mostScored: 1_200, mostByCondition: 1_000 }
/**
 * Long vectors are stored out of line, and cost four times as much to read. In a small table, half of the rows would
 * omit good ones.
 */
const long: Cost = { ...usual, scored: 300, mostScored: 600 }
const [longLexemes, smallTable] = [60, 50_000]
/** Few of them are scored; they are selected by scans of the index, one for each term. */
const computed: Cost = { scored: 600, microseconds: 500, mostScored: 300, mostByCondition: 100 }

/** Rows found by words for each one that the condition accepts: the maximum, also used if unknown. */
const [mostInVain, usualInVain] = [10, 4]
/**
 * If the condition accepts a smaller part of the table, reading its index is worthwhile. Then few rows are read,
 * however many have the words.
 */
const smallPart = 0.02
const mostFound = 200_000

/** As `computed`, if the scans read more: in a large table, or with a filter. */
const computedFewer: Cost = { ...computed, scored: 400 }

function costOf({ isStored, rows, averageLength, isFiltered }: Reading): Cost {
  const isLarge = rows > smallTable
  if (isStored) return isLarge && averageLength > longLexemes ? long : usual
  return isLarge || isFiltered ? computedFewer : computed
}

export function accessTo(reading: Reading): Access {
  const { rows, isFiltered, matching } = reading
  const { scored, microseconds, mostScored, mostByCondition } = costOf(reading)
  if (!isFiltered) return { by: 'planner', budget: { rows: scored, microseconds }, mostScored }
  if (matching === undefined) {
    return { by: 'planner', budget: { rows: usualInVain * scored, microseconds: 2 * microseconds }, mostScored }
  }
  const inVain = Math.max(1, rows / Math.max(1, matching))
  if (matching <= mostByCondition) {
    return { by: 'condition', budget: { rows: inVain * scored, microseconds: Number.POSITIVE_INFINITY }, mostScored }
  }
  if (matching <= smallPart * rows) {
    const found = Math.min(mostFound, inVain * scored)
    return { by: 'planner', budget: { rows: found, microseconds: 5 * microseconds }, mostScored }
  }
  const factor = Math.min(mostInVain, inVain)
  return {
    by: 'words',
    budget: { rows: factor * scored, microseconds: Math.min(2, factor) * microseconds },
    mostScored,
  }
}
