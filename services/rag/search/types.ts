/** What searching a table takes and gives, for both arms. */
import type { NamedRows, OwnStatement } from '../../postgres/cells.ts'
import type { Filter } from '../request/filter.ts'
import type { FilterColumns } from './filter-condition.ts'

/** A table as the database describes it, with all that statements need; names are as the catalog has them. */
export type SearchedTable = {
  readonly schema: string
  readonly name: string
  /** pg_class.relkind: r, p, v, m or f. */
  readonly kind: string
  readonly oid: number
  readonly textColumn: string
  readonly vectorColumn: string
  /** An SQL expression over the alias `t`: the id of a row as text. The id column, else the primary key, else tableoid and ctid. */
  readonly idExpression: string
  /** An SQL expression over the alias `t`: a text which no other row of the table has, in one snapshot. */
  readonly rowExpression: string
  readonly columns: FilterColumns
}

/** Runs a statement of this server on a connection of the pipeline, read-only and with a time limit. */
export type RunStatement = (statement: OwnStatement, signal: AbortSignal) => Promise<NamedRows>

/**
 * One arm's part of a search of one table: an SQL query of the columns `row_key` (text, of `rowExpression`) and `score` (double precision, more is better), the best first, at
 * most as many rows as were requested. Its parameters are in the Parameters that it was made with.
 */
export type ArmQuery = { readonly sql: string }

/** What a request and the configuration accept, as SQL over the alias `t`; undefined: all rows. */
export type FilterCondition = string | undefined

export type SearchRequest = {
  readonly query: string
  readonly filter: Filter | undefined
  readonly topN: number
  /** Of the request that the search is part of, if it has a time limit. */
  readonly timeoutMs?: number
}

export type FoundDocument = {
  /** As `schema.table`. */
  readonly table: string
  readonly id: string
  readonly content: string
  /** More is better. With both arms the sum of reciprocal ranks, with one arm the score of that arm. */
  readonly score: number
}

/** `warnings`: what was not searched as it should be, such as a table without an index. */
export type SearchResult = {
  readonly documents: readonly FoundDocument[]
  readonly warnings: readonly string[]
  /** Rows that the filters accept may have been missed: an exact scan took too long. */
  readonly isIncomplete: boolean
  /** Of the models that embedded the query and reranked the documents. */
  readonly tokensUsed: number
}

export type SearchHealth = {
  readonly reachable: boolean
  readonly error?: string
  readonly warnings: readonly string[]
}
