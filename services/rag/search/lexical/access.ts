/** Decides by which indexes the rows of a search are found, and how many are read. Pure. */
import type { Budget } from './candidates.ts'

/** `by`: whose indexes find the rows: the condition's, the words', or those that Postgres chooses, also both. */
export type Access = {
  readonly by: 'condition' | 'words' | 'planner'
  /** For what the words find. */
  readonly budget: Budget
  /** Rows to score at most, should the budget turn out wrong. */
  readonly mostScored: number
}

export type Reading = {
  /** False: the vector of each row that is read is computed from its text, which takes ten times as long. */
  readonly isStored: boolean
  readonly rows: number
  readonly averageLength: number
  readonly isFiltered: boolean
  /** Rows that the condition accepts, as far as that is known. */
  readonly matching: number | undefined
}

type Cost = {
  readonly scored: number
  /** For reading the index. */
  readonly microseconds: number
  readonly mostScored: number
  readonly mostByCondition: number
}

const usual: Cost = { scored: 600, microseconds: 2_000, mostScored: 1_200, mostByCondition: 1_000 }
/** Long vectors are stored apart from their rows, and cost four times as much to read. In a small table, half of the rows would leave out good ones. */
const long: Cost = { ...usual, scored: 300, mostScored: 600 }
const [longLexemes, smallTable] = [60, 50_000]
/** Few of them are scored; they are chosen by scans of the index, one for each term. */
const computed: Cost = { scored: 600, microseconds: 500, mostScored: 300, mostByCondition: 100 }

/** Rows that the words find for one that the condition accepts: at most, and where nothing is known of it. */
const [mostInVain, usualInVain] = [10, 4]
/** Where the condition accepts less of the table, an index for it is worth reading. Then few rows are read, whatever the words find. */
const smallPart = 0.02
const mostFound = 200_000

/** As `computed`, where the scans read more: of a large table, or with a filter. */
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
