/** Input and output of a table's search, for both arms. */
import type { NamedRows, OwnStatement } from '../../postgres/cells.ts'
import type { Filter } from '../request/filter.ts'
import type { FilterColumns } from './filter-condition.ts'

/** A table as the database describes it, with everything that statements need; names as in the catalog. */
export type SearchedTable = {
  readonly schema: string
  readonly name: string
  /** pg_class.relkind: r, p, v, m or f. */
  readonly kind: string
  readonly oid: number
  readonly textColumn: string
  readonly vectorColumn: string
  /**
   * An SQL expression over the alias `t`: the id of a row as text. The id column, else the primary key, else tableoid
   * and ctid.
   */
  readonly idExpression: string
  /** An SQL expression over the alias `t`: a text that is unique among the table's rows, in one snapshot. */
  readonly rowExpression: string
  readonly columns: FilterColumns
}

/** Runs a statement of this server on a connection of the pipeline, read-only and with a time limit. */
export type RunStatement = (statement: OwnStatement, signal: AbortSignal) => Promise<NamedRows>

/**
 * One arm's part of a search of one table: an SQL query of the columns `row_key` (text, of `rowExpression`) and `score`
 * (double precision, higher is better), best first, with at most the requested number of rows. Its parameters are in
 * the Parameters that it was built with.
 */
export type ArmQuery = { readonly sql: string }

/** The restrictions of request and configuration, as SQL over the alias `t`; undefined: all rows. */
export type FilterCondition = string | undefined

export type SearchRequest = {
  readonly query: string
  readonly filter: Filter | undefined
  readonly topN: number
  /** Signal of the request, if it has a timeout. */
  readonly timeoutMs?: number
}

export type FoundDocument = {
  /** As `schema.table`. */
  readonly table: string
  readonly id: string
  readonly content: string
  /** Higher is better. With both arms the sum of reciprocal ranks, with one arm its score. */
  readonly score: number
}

/** `warnings`: limitations of the search, such as a table without an index. */
export type SearchResult = {
  readonly documents: readonly FoundDocument[]
  readonly warnings: readonly string[]
  /** Rows that the filters accept may be missing: an exact scan took too long. */
  readonly isIncomplete: boolean
  /** Tokens of the models that embedded the query and reranked the documents. */
  readonly tokensUsed: number
}

export type SearchHealth = {
  readonly reachable: boolean
  readonly error?: string
  readonly warnings: readonly string[]
}
