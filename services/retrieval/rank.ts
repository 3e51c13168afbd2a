/**
 * Selects passages from rows near a question. Ranks rows by their distances over all vector columns, and splits their
 * texts into chunks. Ranks chunks by shared words and by their row's rank. Selects as many different chunks as fit in
 * the budget.
 */
import { bm25 } from './bm25.ts'
import { chunks } from './chunk.ts'
import { byMarginalRelevance } from './mmr.ts'
import { estimateTokens } from './tokens.ts'
import { wordsOf } from './words.ts'

export type FoundRow = {
  /** The unique key of the row. */
  readonly key: string
  /** Distances by vector column; undefined if the row has no vector in the column. */
  readonly distances: readonly (number | undefined)[]
  readonly texts: readonly { readonly column: string; readonly text: string }[]
}

export type RankedRow = FoundRow & { readonly distance: number }

export type Passage = {
  readonly row: RankedRow
  readonly column: string
  readonly text: string
  readonly relevance: number
}

type Ranking = {
  readonly chunkTokens: number
  readonly lambda: number
  readonly maximumTokens: number
}

const overlapTokens = 25
/**
 * The maximum number of ranked chunks. Many rows with long texts have more chunks, but lower ranks would not be
 * selected.
 */
const maximumCandidates = 400
/** The share of vectors in a chunk's relevance. Vectors select the row, and words select the part of the row. */
const vectorShare = 0.5
const sameRow = { adjacent: 0.9, sameColumn: 0.6, otherColumn: 0.5 }
/** Tokens of a passage besides its text. */
const tokensAround = 40

/** Returns each row once, nearest first. A column in which a row has no vector does not count for this row. */
export function nearestRows(
  rows: readonly FoundRow[],
  weights: readonly number[],
  limit: number,
): readonly RankedRow[] {
  const byKey = new Map(rows.map(row => [row.key, row]))
  return [...byKey.values()]
    .map(row => ({ ...row, distance: weightedMean(row.distances, weights) }))
    .sort((one, other) => one.distance - other.distance || (one.key < other.key ? -1 : 1))
    .slice(0, limit)
}

function weightedMean(distances: readonly (number | undefined)[], weights: readonly number[]): number {
  let [sum, weight] = [0, 0]
  for (const [index, distance] of distances.entries()) {
    if (distance === undefined || Number.isNaN(distance)) continue
    sum += (weights[index] ?? 0) * distance
    weight += weights[index] ?? 0
  }
  return weight === 0 ? Number.POSITIVE_INFINITY : sum / weight
}

type Candidate = {
  readonly row: RankedRow
  readonly rank: number
  readonly column: string
  readonly index: number
  readonly text: string
  readonly words: ReadonlySet<string>
}

function similarity(one: Candidate, other: Candidate): number {
  if (one.rank === other.rank) {
    if (one.column !== other.column) return sameRow.otherColumn
    return Math.abs(one.index - other.index) === 1 ? sameRow.adjacent : sameRow.sameColumn
  }
  const shared = one.words.intersection(other.words).size
  const together = one.words.size + other.words.size - shared
  return together === 0 ? 0 : shared / together
}

/** Returns 1 for the nearest row, and 0 for the farthest. */
function nearness(rows: readonly RankedRow[]): (row: RankedRow) => number {
  const finite = rows.map(({ distance }) => distance).filter(Number.isFinite)
  const [least, most] = [Math.min(...finite), Math.max(...finite)]
  return ({ distance }) => {
    if (!Number.isFinite(distance)) return 0
    return most === least ? 1 : 1 - (distance - least) / (most - least)
  }
}

/** Returns at least one passage if there is any text, otherwise as many passages as fit in the budget, best first. */
export function passages(query: string, rows: readonly RankedRow[], ranking: Ranking): readonly Passage[] {
  const { chunkTokens, lambda, maximumTokens } = ranking
  const split = rows.flatMap((row, rank) =>
    row.texts.flatMap(({ column, text }) =>
      chunks(text, chunkTokens, Math.min(overlapTokens, chunkTokens / 4)).map(chunk => ({
        row,
        rank,
        column,
        ...chunk,
        list: wordsOf(chunk.text),
      })),
    ),
  )
  const near = nearness(rows)
  const scores = bm25(
    wordsOf(query),
    split.map(({ list }) => list),
  )
  const best = scores.reduce((most, one) => Math.max(most, one), 0)
  const candidates = split
    .map(({ list, ...chunk }, index) => ({
      ...chunk,
      words: new Set(list),
      relevance: vectorShare * near(chunk.row) + (best > 0 ? ((1 - vectorShare) * (scores[index] ?? 0)) / best : 0),
    }))
    .sort((one, other) => other.relevance - one.relevance)
    .slice(0, maximumCandidates)
  const taken: Passage[] = []
  let remaining = maximumTokens
  const order = byMarginalRelevance(
    candidates.map(({ relevance }) => relevance),
    lambda,
    (one, other) => {
      const [first, second] = [candidates[one], candidates[other]]
      return first === undefined || second === undefined ? 0 : similarity(first, second)
    },
  )
  for (const index of order) {
    const candidate = candidates[index]
    if (candidate === undefined) break
    remaining -= estimateTokens(candidate.text) + tokensAround
    if (remaining < 0 && taken.length > 0) break
    const { row, column, text, relevance } = candidate
    taken.push({ row, column, text, relevance })
  }
  return taken
}
