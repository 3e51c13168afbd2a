/** The interface of the lexical arm for the search. */
import type { Parameters } from './parameters.ts'
import type { ArmQuery, FilterCondition } from './types.ts'

/** Builds the statement for a prepared query. `matching`: how many rows the condition accepts, if known. */
export type LexicalSearch = (
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
  matching: number | undefined,
) => ArmQuery

/** undefined: it cannot search this table, with the reason in `warnings`; or the query has no words. */
export type Lexical = {
  readonly warnings: readonly string[]
  prepare(query: string, signal: AbortSignal): Promise<LexicalSearch | undefined>
}
