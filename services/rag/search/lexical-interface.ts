/** The interface between the search and its lexical arm, which finds rows by words. */
import type { Parameters } from './parameters.ts'
import type { ArmQuery, FilterCondition } from './types.ts'

/** Builds the statement of a prepared query. `matching`: how many rows the condition accepts, if known. */
export type LexicalSearch = (
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
  matching: number | undefined,
) => ArmQuery

/**
 * `prepare` returns undefined if the query has no words, or if the table cannot be searched by words. `warnings` has
 * the reason.
 */
export type Lexical = {
  readonly warnings: readonly string[]
  prepare(query: string, signal: AbortSignal): Promise<LexicalSearch | undefined>
}
