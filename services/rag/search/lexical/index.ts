/**
 * The lexical arm: ranks the rows of one table by the words that they share with a query, with BM25, without reading
 * the whole table. Memory is limited. Only data about the table is cached. Filters are part of each statement, so no
 * result contains a row outside its request's filter.
 */
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { cellsOf, type OwnStatement } from '../../../postgres/cells.ts'
import { CachedValue } from '../cached-value.ts'
import type { Parameters } from '../parameters.ts'
import type { ArmQuery, FilterCondition, RunStatement, SearchedTable } from '../types.ts'
import { accessTo } from './access.ts'
import { weightOf } from './bm25.ts'
import { chooseClauses, type WeightedTerm } from './candidates.ts'
import { Frequencies } from './frequencies.ts'
import {
  adviceFor,
  type InvertedIndex,
  indexesStatement,
  isSecured,
  type LexicalIndex,
  lexicalIndexOf,
  policiesWarning,
} from './indexes.ts'
import { paradeSql, rankedSql, termsStatement, textsearchSql } from './statements.ts'
import { readStatistics, type TableStatistics } from './statistics.ts'

/** How to search for a query in the table's current state. */
type LexicalPlan =
  | {
      readonly kind: 'ranked'
      readonly index: InvertedIndex
      readonly statistics: TableStatistics
      readonly terms: readonly WeightedTerm[]
    }
  | { readonly kind: 'extension'; readonly index: Exclude<LexicalIndex, InvertedIndex>; readonly query: string }

/** The cached data about the table. */
type Known =
  | { readonly kind: 'none'; readonly warning: string }
  | { readonly kind: 'extension'; readonly index: Exclude<LexicalIndex, InvertedIndex> }
  | {
      readonly kind: 'inverted'
      readonly index: InvertedIndex
      readonly statistics: TableStatistics
      readonly frequencies: Frequencies
    }

const refreshMs = 30_000
const readMs = 15_000
/** If the table has grown by a larger share, frequencies are counted again. */
const maximumGrowth = 0.1
/**
 * With row-level security, Postgres does not use the index and reads the table. So larger tables are not searched by
 * words.
 */
const mostRead = 10_000
const mostQueries = 1_000
/** The maximum size of all cached queries, in characters. */
const mostQueryText = 2_000_000
/** The maximum number of terms in one query. */
const mostTerms = 64

export class LexicalArm {
  readonly #table: SearchedTable
  readonly #run: RunStatement
  readonly #logger: Logger
  readonly #now: () => number
  readonly #queries: LRUCache<string, readonly string[]>
  readonly #known: CachedValue<Known>
  #warned: string | undefined

  constructor({
    table,
    run,
    logger,
    now,
  }: { table: SearchedTable; run: RunStatement; logger: Logger; now: () => number }) {
    this.#table = table
    this.#run = run
    this.#logger = logger
    this.#now = now
    this.#known = new CachedValue({
      read: before => this.#read(before),
      ...{ lifetimeMs: refreshMs, now },
      onFailure: error => logger.warn({ table: this.#name, err: error }, 'reading the statistics of a table failed'),
    })
    this.#queries = new LRUCache({
      max: mostQueries,
      maxSize: mostQueryText,
      sizeCalculation: (_, query) => query.length + 1,
    })
  }

  /** Problems of searching the table by words, at the last check. */
  get warnings(): readonly string[] {
    return this.#warned === undefined ? [] : [this.#warned]
  }

  /** Returns undefined if there is no suitable index, or if the query has no words. */
  async prepare(query: string, signal: AbortSignal): Promise<LexicalPlan | undefined> {
    const known = await this.#known.get()
    // Postgres does not accept NUL in a text.
    const text = query.replaceAll('\0', ' ')
    switch (known.kind) {
      case 'none':
        return undefined
      case 'extension':
        return { kind: 'extension', index: known.index, query: text }
      case 'inverted': {
        const terms = await this.#terms(text, known, signal)
        return terms.length === 0
          ? undefined
          : { kind: 'ranked', index: known.index, statistics: known.statistics, terms }
      }
    }
  }

  /** Returns the ranked rows. `matching`: how many rows the condition accepts, if known. */
  query(
    plan: LexicalPlan,
    condition: FilterCondition,
    parameters: Parameters,
    limit: number,
    matching?: number,
  ): ArmQuery {
    if (plan.kind === 'extension') return { sql: this.#extensionSql(plan, condition, parameters, limit) }
    const { index, statistics, terms } = plan
    const { by, budget, mostScored } = accessTo({
      ...index,
      ...statistics,
      isFiltered: condition !== undefined,
      matching,
    })
    const ranking = {
      clauses: chooseClauses(terms, statistics.rows, budget),
      by,
      terms,
      totalRows: statistics.rows,
      averageLength: statistics.averageLength,
      mostScored: Math.max(mostScored, limit),
    }
    return { sql: rankedSql(this.#table, index, ranking, condition, parameters, limit) }
  }

  #extensionSql(
    { index, query }: LexicalPlan & { kind: 'extension' },
    condition: FilterCondition,
    parameters: Parameters,
    limit: number,
  ): string {
    return index.kind === 'pg_textsearch'
      ? textsearchSql(this.#table, index, query, condition, parameters, limit)
      : paradeSql(this.#table, index, query, condition, parameters, limit)
  }

  /** Returns the terms that occur in the table, with their weights. */
  async #terms(
    query: string,
    known: Known & { kind: 'inverted' },
    signal: AbortSignal,
  ): Promise<readonly WeightedTerm[]> {
    const run = (statement: OwnStatement) => this.#run(statement, signal)
    const { index, statistics, frequencies } = known
    let lexemes = this.#queries.get(`${index.configuration} ${query}`)
    if (lexemes === undefined) {
      lexemes = cellsOf(await run(termsStatement(index.configuration, query, mostTerms))).map(cells =>
        cells.text('lexeme'),
      )
      this.#queries.set(`${index.configuration} ${query}`, lexemes)
    }
    const rows = await frequencies.of(lexemes, statistics, run)
    return lexemes
      .map((lexeme, position) => ({
        lexeme,
        rows: rows[position] ?? 0,
        weight: weightOf(rows[position] ?? 0, statistics.rows),
      }))
      .filter(term => term.rows > 0)
  }

  async #read(before: Known | undefined): Promise<Known> {
    const signal = AbortSignal.timeout(readMs)
    const run = (statement: OwnStatement) => this.#run(statement, signal)
    const indexes = await run(indexesStatement(this.#table))
    const known = await this.#knownOf(lexicalIndexOf(indexes, this.#table), isSecured(indexes), run, before)
    this.#warn(known)
    return known
  }

  async #knownOf(
    index: LexicalIndex | undefined,
    isBehindPolicies: boolean,
    run: (statement: OwnStatement) => ReturnType<RunStatement>,
    before: Known | undefined,
  ): Promise<Known> {
    if (index === undefined) return { kind: 'none', warning: adviceFor(this.#table) }
    if (index.kind !== 'inverted') return { kind: 'extension', index }
    const statistics = await readStatistics(this.#table, index, run)
    if (isBehindPolicies && statistics.rows > mostRead) return { kind: 'none', warning: policiesWarning(this.#table) }
    const isSame =
      before?.kind === 'inverted' &&
      JSON.stringify(before.index) === JSON.stringify(index) &&
      Math.abs(statistics.rows - before.statistics.rows) <= maximumGrowth * statistics.rows
    const frequencies = isSame ? before.frequencies : new Frequencies(this.#table, index, this.#now)
    return { kind: 'inverted', index, statistics, frequencies }
  }

  get #name(): string {
    return `${this.#table.schema}.${this.#table.name}`
  }

  #warn(known: Known): void {
    const warning = warningOf(known, this.#table)
    if (warning === this.#warned) return
    this.#warned = warning
    if (warning !== undefined) this.#logger.warn({ table: this.#name }, warning)
  }
}

function warningOf(known: Known, table: SearchedTable): string | undefined {
  if (known.kind === 'none') return known.warning
  if (known.kind === 'inverted' && !known.statistics.hasPositions) {
    return `table ${table.schema}.${table.name}: ${known.index.vector.replace(/^t\./, '')} has no positions, so words are not ranked; do not use strip()`
  }
  return undefined
}
