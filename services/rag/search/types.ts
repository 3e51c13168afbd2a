/** Input and output of a table's search, both by words and by vectors. */
import type { NamedRows, OwnStatement } from '../../postgres/cells.ts'
import type { Filter } from '../request/filter.ts'
import type { FilterColumns } from './filter-condition.ts'

/** A table as the database describes it, with everything that statements need. Names are as in the catalog. */
export type SearchedTable = {
  readonly schema: string
  readonly name: string
  /** pg_class.relkind: r, p, v, m or f. */
  readonly kind: string
  readonly oid: number
  readonly textColumn: string
  readonly vectorColumn: string
  /**
   * An SQL expression over the alias `t`: a row's id as text. Uses the id column, otherwise the primary key, otherwise
   * tableoid and ctid.
   */
  readonly idExpression: string
  /** An SQL expression over the alias `t`: a text that is unique among the table's rows within one snapshot. */
  readonly rowExpression: string
  readonly columns: FilterColumns
}

/** Runs one of this server's statements on a connection of the pipeline, read-only and with a time limit. */
export type RunStatement = (statement: OwnStatement, signal: AbortSignal) => Promise<NamedRows>

/**
 * The part of one table's search by words or by vectors. The SQL query returns the columns `row_key` (text, the value
 * of `rowExpression`) and `score` (double precision, higher is better), best first, with at most the requested number
 * of rows. Its parameters are in the Parameters object that it was built with.
 */
export type ArmQuery = { readonly sql: string }

/** The restrictions of request and configuration, as SQL over the alias `t`. undefined: all rows. */
export type FilterCondition = string | undefined

export type SearchRequest = {
  readonly query: string
  readonly filter: Filter | undefined
  readonly topN: number
  /** How long the request may take, if it has a timeout. */
  readonly timeoutMs?: number
}

export type FoundDocument = {
  /** The table as `schema.table`. */
  readonly table: string
  readonly id: string
  readonly content: string
  /**
   * Higher is better. A search by words and vectors has the sum of reciprocal ranks, other searches their own score.
   */
  readonly score: number
}

/** `warnings`: limitations of the search, such as a table without an index. */
export type SearchResult = {
  readonly documents: readonly FoundDocument[]
  readonly warnings: readonly string[]
  /** Whether rows that the filters accept may be missing, because an exact scan took too long. */
  readonly isIncomplete: boolean
  /** The tokens of the models that embedded the query and reranked the documents. */
  readonly tokensUsed: number
}

export type SearchHealth = {
  readonly reachable: boolean
  readonly error?: string
  readonly warnings: readonly string[]
}
