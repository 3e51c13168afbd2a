/**
 * Selects the rows to score. A row can be among the best if it has a rare term, or two terms that are rare together. A
 * row that shares only a frequent term with the query cannot be among the best. Frequent terms alone would select the
 * whole table.
 */
import type { Clause } from './tsquery.ts'

export type WeightedTerm = {
  readonly lexeme: string
  /** The number of rows that contain the term. */
  readonly rows: number
  /** The term's inverse document frequency. */
  readonly weight: number
}

export type Budget = {
  /** The maximum number of rows to read, as the frequencies predict it. */
  readonly rows: number
  /** The budget for reading the index, in microseconds. */
  readonly microseconds: number
}

/** Words of one text occur together more often than by chance, by this factor. */
const correlation = 2
/** Measured with Postgres 16: the time per posting that drives the scan, and per posting that is only decoded. */
const [drivenMicroseconds, decodedMicroseconds] = [0.15, 0.006]

/** The share of the budget with which the best rows are found. */
const enough = 1 / 6

type Pair = { readonly rarer: WeightedTerm; readonly other: WeightedTerm; readonly rows: number }

/**
 * First returns the rarest terms, each as its own clause, up to half of the rows. Then adds pairs of the other terms by
 * descending weight while they fit the budget. If the rows are still few, adds further single terms. If every term is
 * too frequent for this, returns one clause with the rarest terms: as many as needed to stay below the budget.
 */
export function chooseClauses(terms: readonly WeightedTerm[], totalRows: number, budget: Budget): readonly Clause[] {
  const ascending = terms.filter(({ rows }) => rows > 0).toSorted((one, other) => one.rows - other.rows)
  const clauses: Clause[] = []
  let rows = 0
  for (const term of ascending) {
    if (rows + term.rows > budget.rows / 2) break
    rows += term.rows
    clauses.push([term.lexeme])
  }
  const alone = clauses.length
  const costs = new Costs(budget.microseconds)
  for (const pair of pairsOf(ascending.slice(alone), totalRows)) {
    if (rows + pair.rows > budget.rows) break
    if (!costs.admit(pair)) continue
    rows += pair.rows
    clauses.push([pair.rarer.lexeme, pair.other.lexeme])
  }
  for (const term of ascending.slice(alone)) {
    if (rows >= budget.rows * enough || rows + term.rows > budget.rows) break
    rows += term.rows
    clauses.push([term.lexeme])
  }
  return clauses.length > 0 ? clauses : rarestTogether(ascending, totalRows, budget.rows)
}

/** Returns pairs by descending weight. `ascending`: terms by ascending number of rows. */
function pairsOf(ascending: readonly WeightedTerm[], totalRows: number): readonly Pair[] {
  return ascending
    .flatMap((rarer, index) =>
      ascending.slice(index + 1).map(other => ({
        rarer,
        other,
        weight: rarer.weight + other.weight,
        rows: Math.min(rarer.rows, (correlation * rarer.rows * other.rows) / Math.max(1, totalRows)),
      })),
    )
    .toSorted((one, other) => other.weight - one.weight || one.rows - other.rows)
}

/** The cost of reading the postings of pairs. The postings of a term are read once for all its pairs. */
class Costs {
  #remaining: number
  readonly #read = new Map<WeightedTerm, number>()

  constructor(microseconds: number) {
    this.#remaining = microseconds
  }

  admit({ rarer, other }: Pair): boolean {
    const costs = [
      [rarer, rarer.rows * drivenMicroseconds],
      [other, other.rows * decodedMicroseconds],
    ] as const
    const more = costs.reduce((sum, [term, cost]) => sum + Math.max(0, cost - (this.#read.get(term) ?? 0)), 0)
    if (more > this.#remaining) return false
    this.#remaining -= more
    for (const [term, cost] of costs) this.#read.set(term, Math.max(cost, this.#read.get(term) ?? 0))
    return true
  }
}

function rarestTogether(ascending: readonly WeightedTerm[], totalRows: number, most: number): readonly Clause[] {
  const together: string[] = []
  let expected = totalRows
  for (const { lexeme, rows } of ascending) {
    if (together.length > 0 && expected <= most) break
    expected *= rows / Math.max(1, totalRows)
    together.push(lexeme)
  }
  return together.length === 0 ? [] : [together]
}
