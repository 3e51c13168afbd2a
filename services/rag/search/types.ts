/** What searching a table takes and gives, for both arms. */
import type { Filter } from '../request/filter.ts'

/** A table as the database describes it, with all that statements need; names are as the catalog has them. */
export type SearchedTable = {
  readonly schema: string
  readonly name: string
  /** pg_class.relkind: r, p, v, m or f. */
  readonly kind: string
  readonly oid: number
  readonly textColumn: string
  readonly vectorColumn: string
  /** An SQL expression over the alias `t` that gives the id of a row as text: the id column, else the primary key, else tableoid and ctid. */
  readonly idExpression: string
  /** An SQL expression over the alias `t` that gives a text which no other row of the table has, in one snapshot. */
  readonly rowExpression: string
  /** Columns that filters may use, with their types as SQL names them. */
  readonly columns: ReadonlyMap<string, string>
}

/**
 * One arm's part of a search of one table: an SQL query of the columns `row_key` (text, of `rowExpression`) and `score` (double precision, more is better), the best first, at
 * most as many rows as were asked for. Its parameters are in the Parameters that it was made with, so that it can stand beside others in one statement.
 */
export type ArmQuery = { readonly sql: string }

/** What a request and the configuration let through, as SQL over the alias `t`; undefined: all rows. */
export type FilterCondition = string | undefined

export type SearchRequest = {
  readonly query: string
  readonly filter: Filter | undefined
  readonly topN: number
}

export type FoundDocument = {
  /** As `schema.table`. */
  readonly table: string
  readonly id: string
  readonly content: string
  /** More is better. With both arms by reciprocal ranks, with one the score of that arm. */
  readonly score: number
}

/** `warnings`: what was not searched as it should be, such as a table without an index. */
export type SearchResult = { readonly documents: readonly FoundDocument[]; readonly warnings: readonly string[] }
