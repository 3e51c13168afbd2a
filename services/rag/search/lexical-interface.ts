/** What searching needs of the lexical arm. */
import type { Parameters } from './parameters.ts'
import type { ArmQuery, FilterCondition } from './types.ts'

/** Makes the query for what was prepared. `matching`: how many rows the condition accepts, as far as that is known. */
export type LexicalSearch = (
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
  matching: number | undefined,
) => ArmQuery

/** undefined: it cannot search this table, and `warnings` says why; or the query has no words. */
export type Lexical = {
  readonly warnings: readonly string[]
  prepare(query: string, signal: AbortSignal): Promise<LexicalSearch | undefined>
}
