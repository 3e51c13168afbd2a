/**
 * Facts of a database's catalogue that decisions on statements depend on. Read by `services/mcp/database/catalogue.ts`.
 */

import type { GuardCondition } from './guarded.ts'

export type VolatileFunction = {
  readonly schema: string
  readonly name: string
  /** The allowed numbers of arguments of a call. */
  readonly fewest: number
  readonly most: number
  /** The extension that it belongs to. */
  readonly extension: string | null
  /** Whether its first argument can be a row, so that `t.f` may be a call of it. */
  readonly takesRow: boolean
}

export type CatalogueFacts = {
  /** The search path. */
  readonly searchPath: readonly string[]
  /** Names of all functions. */
  readonly functions: ReadonlySet<string>
  /** Volatile functions, and aggregates with volatile parts, by name. */
  readonly volatile: ReadonlyMap<string, readonly VolatileFunction[]>
  /** Operators outside of pg_catalog whose function is volatile, by name, with their schemas. */
  readonly operators: ReadonlyMap<string, readonly string[]>
  /** Names of operators of pg_catalog. */
  readonly ownOperators: ReadonlySet<string>
  /** Types that a volatile function casts to, by name, with their schemas. */
  readonly casts: ReadonlyMap<string, readonly string[]>
  /** Names of settings that match the pattern for passwords, but contain none. */
  readonly readableSettings: ReadonlySet<string>
  /** Whether the role can see a setting with a password that has a value. */
  readonly hasHiddenSettings: boolean
  /** Kinds of secrets that are visible now; always contains `always`. */
  readonly secrets: ReadonlySet<GuardCondition>
  /** Catalogue columns that show secrets, by relation name. */
  readonly guardedColumns: ReadonlyMap<string, ReadonlySet<string>>
  /** Views and functions that show such secrets, by name. */
  readonly revealing: {
    readonly views: ReadonlyMap<string, readonly RevealingFacts[]>
    readonly functions: ReadonlyMap<string, readonly RevealingFacts[]>
  }
  /** Whether the login itself may change roles, or access files or programs of the server. */
  readonly isPowerful: boolean
  /** Views that call functions, by name; the functions as schema and name. */
  readonly views: ReadonlyMap<string, readonly ViewFacts[]>
}

export type RevealingFacts = { readonly schema: string; readonly condition: GuardCondition }

export type ViewFacts = {
  readonly schema: string
  readonly functions: readonly Omit<VolatileFunction, 'fewest' | 'most' | 'takesRow'>[]
}
