/**
 * Searches the tables of a pipeline for rows near the vector of a query and for rows with the query's words. Fuses both
 * by rank. Between requests, the searcher keeps only estimates of how many rows a filter accepts. Statements are
 * prepared by their text, and every value of a request is a parameter.
 */
import type { Logger } from 'pino'
import type { DatabaseError } from '../../../wire/errors.ts'
import { Pool, type PoolFigures } from '../../postgres/pool.ts'
import { qualified } from '../../postgres/quote.ts'
import { transact } from '../../postgres/transact.ts'
import { unlessAborted } from '../../process/unless-aborted.ts'
import type { PipelineSettings } from '../configuration/types.ts'
import { RagError } from '../errors.ts'
import type { Filter } from '../request/filter.ts'
import { conditionOf } from './conditions.ts'
import { asRagError, didNotAnswer, isWorthRetrying, mayBeOfFilter } from './failures.ts'
import { filterSql } from './filter-condition.ts'
import { searchInTime } from './in-time.ts'
import type { Lexical } from './lexical-interface.ts'
import { Parameters } from './parameters.ts'
import { searchByBoth, searchByVector, type TableSearch } from './search.ts'
import { runOwn } from './session.ts'
import { Sizes } from './sizes.ts'
import { shownTable } from './table.ts'
import { type SearchableTable, Tables } from './tables.ts'
import type { FoundDocument, RunStatement, SearchedTable, SearchHealth, SearchRequest, SearchResult } from './types.ts'
import { mostUnindexed, type Size } from './vector-arm.ts'

type LexicalOptions = {
  readonly table: SearchedTable
  readonly run: RunStatement
  readonly logger: Logger
  readonly now: () => number
}

/** Called with the provider's token count of a search. */
export type OnTokens = (tokens: number) => void

/** Returns the best documents first, as indexes in `texts`. */
export type Rerank = (
  query: string,
  texts: readonly string[],
  signal: AbortSignal,
  onTokens: OnTokens,
) => Promise<readonly { readonly index: number; readonly score: number }[]>

export type SearchedPipeline = Pick<
  PipelineSettings,
  | 'name'
  | 'address'
  | 'poolSize'
  | 'tables'
  | 'hybridEnabled'
  | 'vectorWeight'
  | 'minSimilarity'
  | 'exactTimeoutMs'
  | 'rerank'
>

type Options = {
  readonly pipeline: SearchedPipeline
  readonly embed: (text: string, signal: AbortSignal, onTokens: OnTokens) => Promise<ArrayLike<number>>
  readonly rerank?: Rerank
  /** If absent, the search uses only vectors. */
  readonly makeLexical?: (options: LexicalOptions) => Lexical
  readonly logger: Logger
  readonly now: () => number
  /** For tests. */
  readonly limits?: { readonly readMs: number; readonly silenceMs: number }
}

const acquisitionTimeoutMs = 10_000
const maximumLifetimeMs = 1_800_000
const maximumIdleMs = 300_000

type Found = Omit<SearchResult, 'tokensUsed'>

/** The divisor of the request timeout. An exact scan must leave time for another search and for the answer. */
const exactShare = 4
const incompleteWarning =
  'a search exceeded search.exact_timeout and was answered from the vector index; other rows that its filter accepts may be nearer'

export class Searcher {
  readonly #options: Options
  readonly #pool: Pool
  readonly #tables: Tables<Lexical | undefined>
  readonly #sizes: Sizes
  readonly #hasVectors: boolean
  readonly #hasWords: boolean

  constructor(options: Options) {
    const { pipeline, logger, now, makeLexical, limits } = options
    this.#options = options
    this.#hasVectors = !pipeline.hybridEnabled || pipeline.vectorWeight > 0
    this.#hasWords = pipeline.hybridEnabled && pipeline.vectorWeight < 1
    const { address, poolSize } = pipeline
    const times = { acquisitionTimeoutMs, maximumLifetimeMs, maximumIdleMs }
    this.#pool = new Pool({ address, size: poolSize, ...times, ...(limits && { silenceMs: limits.silenceMs }) }, now)
    const run: RunStatement = (statement, signal) =>
      transact(this.#pool, signal, connection => runOwn(connection, statement))
    this.#sizes = new Sizes(run, now)
    this.#tables = new Tables({
      settings: pipeline.tables,
      run,
      makeLexical: table => (this.#hasWords ? makeLexical?.({ table, run, logger, now }) : undefined),
      logger,
      now,
      ...(limits && { readMs: limits.readMs }),
    })
  }

  get pool(): PoolFigures {
    return this.#pool.figures
  }

  /** @throws RagError; the signal's reason */
  async search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult> {
    let tokensUsed = 0
    const onTokens = (tokens: number) => {
      tokensUsed += tokens
    }
    const embedding = once(() => this.#options.embed(request.query, signal, onTokens))
    const searched = async () => ({
      ...(await this.#searchAndRerank(request, embedding, onTokens, signal)),
      tokensUsed,
    })
    try {
      return await searched()
    } catch (error) {
      await this.#refuseFilter(error, request.filter, signal)
      if (!isWorthRetrying(error) || signal.aborted) throw this.#failure(error, signal)
    }
    this.#tables.forget()
    try {
      return await searched()
    } catch (error) {
      throw this.#failure(error, signal)
    }
  }

  async health(signal: AbortSignal): Promise<SearchHealth> {
    try {
      const tables = await unlessAborted(this.#tables.read(), signal)
      return { reachable: true, warnings: await this.#warnings(tables, signal) }
    } catch (error) {
      const { message } = asRagError(error, signal) as Error // all errors thrown here have this type
      return { reachable: false, error: signal.aborted ? didNotAnswer : message, warnings: [] }
    }
  }

  close(): Promise<void> {
    this.#pool.close()
    return Promise.resolve()
  }

  async #searchAndRerank(
    request: SearchRequest,
    embedding: () => Promise<ArrayLike<number>>,
    onTokens: OnTokens,
    signal: AbortSignal,
  ): Promise<Found> {
    const { rerank } = this.#options
    const depth = rerank === undefined ? 0 : (this.#options.pipeline.rerank?.depth ?? 0)
    const found = await this.#search(request, Math.max(request.topN, depth), embedding, signal)
    const { documents, warnings } = found
    if (rerank === undefined || documents.length === 0) return { ...found, documents: documents.slice(0, request.topN) }
    try {
      const order = await rerank(
        request.query,
        documents.slice(0, depth).map(({ content }) => content),
        signal,
        onTokens,
      )
      return { ...found, documents: reordered(documents, order).slice(0, request.topN) }
    } catch (error) {
      if (signal.aborted) throw error
      this.#options.logger.warn({ err: error }, "reranking failed; documents are in the search's order")
      return { ...found, documents: documents.slice(0, request.topN), warnings: [...warnings, 'reranking failed'] }
    }
  }

  async #search(
    request: SearchRequest,
    wanted: number,
    embedding: () => Promise<ArrayLike<number>>,
    signal: AbortSignal,
  ): Promise<Found> {
    const tables = await this.#tables.get()
    // Refuses an invalid filter before requesting the embedding.
    for (const { described, filter } of tables) conditionOf(described.table, filter, request.filter, new Parameters())
    const [vector, sizes, lexical, warnings] = await Promise.all([
      this.#hasVectors ? embedding() : undefined,
      Promise.all(tables.map(table => this.#size(table, request.filter, signal))),
      Promise.all(tables.map(({ lexical: one }) => one?.prepare(request.query, signal))),
      this.#warnings(tables, signal),
    ])
    if (vector !== undefined) for (const table of tables) checkDimensions(table, vector)
    const { vectorWeight, minSimilarity, exactTimeoutMs } = this.#options.pipeline
    const search = {
      tables: tables.map((table, index): TableSearch => {
        const size = sizes[index] ?? { matching: 0, all: 0, isFiltered: false }
        return { table, size, lexical: lexical[index] }
      }),
      filter: request.filter,
      vector,
      vectorWeight,
      minSimilarity,
      wanted,
      sizes: this.#sizes,
    }
    const byVectorOnly = vector !== undefined && lexical.every(one => one === undefined)
    const exactMs = Math.min(exactTimeoutMs, Math.ceil((request.timeoutMs ?? Number.POSITIVE_INFINITY) / exactShare))
    const { documents, isIncomplete } = await searchInTime(search, exactMs, one =>
      transact(this.#pool, signal, connection =>
        byVectorOnly ? searchByVector(connection, one) : searchByBoth(connection, one),
      ),
    )
    return { documents, isIncomplete, warnings: isIncomplete ? [...warnings, incompleteWarning] : warnings }
  }

  async #size(
    { described, filter }: SearchableTable<unknown>,
    requested: Filter | undefined,
    signal: AbortSignal,
  ): Promise<Size> {
    const sizeWith = (configured: typeof filter, ofRequest: Filter | undefined) => {
      const parameters = new Parameters()
      const condition = conditionOf(described.table, configured, ofRequest, parameters)
      return this.#sizes.matching(described, condition, parameters, signal)
    }
    const all = await sizeWith(undefined, undefined)
    const isFiltered = filter !== undefined || requested !== undefined
    return { all, matching: isFiltered ? await sizeWith(filter, requested) : all, isFiltered }
  }

  async #warnings(
    tables: readonly SearchableTable<Lexical | undefined>[],
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const ofTables = tables.map(async ({ described, lexical }) => {
      const own = [...described.warnings, ...(lexical?.warnings ?? [])]
      if (!this.#hasVectors || described.vector.indexes.length > 0) return own
      const rows = await this.#sizes.matching(described, undefined, new Parameters(), signal)
      const name = shownTable(described.table)
      return rows <= mostUnindexed
        ? own
        : [
            ...own,
            `table ${name}: no valid index on column ${described.table.vectorColumn}; each search reads the whole table`,
          ]
    })
    return [...new Set((await Promise.all(ofTables)).flat())]
  }

  #failure(error: unknown, signal: AbortSignal): unknown {
    if (!(error instanceof RagError) && !signal.aborted) {
      this.#options.logger.error({ err: error }, 'a search failed')
    }
    return asRagError(error, signal)
  }

  /**
   * Runs each condition separately, to find a value that a column's type refuses.
   * @throws RagError INVALID_REQUEST if a condition caused the failure
   */
  async #refuseFilter(error: unknown, filter: Filter | undefined, signal: AbortSignal): Promise<void> {
    if (signal.aborted || filter === undefined || !mayBeOfFilter(error)) return
    // If another error occurs here, the first error is reported.
    const refusal = await this.#refusedCondition(filter, signal).catch(() => undefined)
    if (refusal !== undefined) throw refusal
  }

  async #refusedCondition(filter: Filter, signal: AbortSignal): Promise<RagError | undefined> {
    for (const { described } of await this.#tables.get()) {
      for (const [index, condition] of filter.conditions.entries()) {
        const parameters = new Parameters()
        const sql = filterSql({ conditions: [condition], logic: 'AND' }, described.table.columns, parameters)
        const text = `SELECT FROM ${qualified(described.table)} AS t WHERE ${sql} LIMIT 0`
        const refused = await this.#refusal({ text, values: parameters.values }, signal)
        if (refused === undefined) continue
        return new RagError(
          'INVALID_REQUEST',
          `filter.conditions[${index}]: column ${JSON.stringify(condition.column)} of ${shownTable(described.table)} cannot be compared by ${condition.operator} with this value: ${refused.message}`,
          refused,
        )
      }
    }
    return undefined
  }

  /** Returns Postgres's message about a statement, if Postgres refuses it. */
  async #refusal(
    statement: { readonly text: string; readonly values: readonly string[] },
    signal: AbortSignal,
  ): Promise<DatabaseError | undefined> {
    try {
      await transact(this.#pool, signal, connection => runOwn(connection, statement))
      return undefined
    } catch (error) {
      if (mayBeOfFilter(error)) return error
      throw error
    }
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

/** Returns the documents in the given order, then the remaining documents in their current order. */
function reordered(
  documents: readonly FoundDocument[],
  order: readonly { readonly index: number; readonly score: number }[],
): readonly FoundDocument[] {
  const named = order.flatMap(({ index, score }) => {
    const document = documents[index]
    return document === undefined ? [] : [{ ...document, score }]
  })
  const ranked = new Set(order.map(({ index }) => index))
  return [...named, ...documents.filter((_, index) => !ranked.has(index))]
}

function checkDimensions(
  { described: { vector, table } }: SearchableTable<unknown>,
  { length }: ArrayLike<number>,
): void {
  if (vector.dimensions === undefined || vector.dimensions === length) return
  throw new RagError(
    'EXECUTION_ERROR',
    `the embedding model returns vectors of ${length} dimensions, but column ${table.vectorColumn} of ${shownTable(table)} has ${vector.dimensions}`,
  )
}
