/** Decides which indexes find the rows of a search, and how many rows are read. */
import type { Budget } from './candidates.ts'

/**
 * `by`: the indexes that find the rows. `condition`: the condition's index. `words`: the words' index. `planner`:
 * Postgres chooses one or both.
 */
export type Access = {
  readonly by: 'condition' | 'words' | 'planner'
  /** The budget for rows that words find. */
  readonly budget: Budget
  /** The maximum number of rows to score, even if the budget is wrong. */
  readonly mostScored: number
}

export type Reading = {
  /** False if each row's vector must be computed from its text, which takes ten times as long. */
  readonly isStored: boolean
  readonly rows: number
  readonly averageLength: number
  readonly isFiltered: boolean
  /** The number of rows that the condition accepts, if known. */
  readonly matching: number | undefined
}

type Cost = {
  readonly scored: number
  /** The budget for reading the index. */
  readonly microseconds: number
  readonly mostScored: number
  readonly mostByCondition: number
}

const usual: Cost = { scored: 600, microseconds: 2_000, mostScored: 1_200, mostByCondition: 1_000 }
/**
 * Postgres stores long vectors out of line, so reading them costs four times as much. In a small table, scoring only
 * half of the rows would omit good rows.
 */
const long: Cost = { ...usual, scored: 300, mostScored: 600 }
const [longLexemes, smallTable] = [60, 50_000]
/** Only few rows are scored. Index scans select them, one scan for each term. */
const computed: Cost = { scored: 600, microseconds: 500, mostScored: 300, mostByCondition: 100 }

/**
 * How many rows words may find for each row that the condition accepts: the maximum, and the value if the number of
 * accepted rows is unknown.
 */
const [mostInVain, usualInVain] = [10, 4]
/**
 * If the condition accepts a smaller share of the table, reading its index is worthwhile. Then few rows are read, even
 * if many rows have the words.
 */
const smallPart = 0.02
const mostFound = 200_000

/** Like `computed`, but for scans that read more: in a large table, or with a filter. */
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
