/**
 * Catalogue facts of a database that decisions on statements depend on. `services/mcp/database/catalogue.ts` reads
 * them.
 */

import type { GuardCondition } from './guarded.ts'

export type VolatileFunction = {
  readonly schema: string
  readonly name: string
  /** A call has from `fewest` to `most` arguments. */
  readonly fewest: number
  readonly most: number
  /** The extension that the function belongs to. */
  readonly extension: string | null
  /** Whether the function's first argument can be a row. Then `t.f` may be a call of the function. */
  readonly takesRow: boolean
}

export type CatalogueFacts = {
  /** The search path. */
  readonly searchPath: readonly string[]
  /** Names of all functions. */
  readonly functions: ReadonlySet<string>
  /** Volatile functions, and aggregates with volatile parts, by name. */
  readonly volatile: ReadonlyMap<string, readonly VolatileFunction[]>
  /** Operators outside pg_catalog whose function is volatile: their schemas by name. */
  readonly operators: ReadonlyMap<string, readonly string[]>
  /** Names of the operators in pg_catalog. */
  readonly ownOperators: ReadonlySet<string>
  /** Types with a volatile cast function: their schemas by name. */
  readonly casts: ReadonlyMap<string, readonly string[]>
  /** Names of settings that match the pattern for passwords, but contain no password. */
  readonly readableSettings: ReadonlySet<string>
  /** Whether the role can see a setting with a password, and the setting has a value. */
  readonly hasHiddenSettings: boolean
  /** Kinds of secrets that are visible now. The set always contains `always`. */
  readonly secrets: ReadonlySet<GuardCondition>
  /** Catalogue columns that show secrets, by relation name. */
  readonly guardedColumns: ReadonlyMap<string, ReadonlySet<string>>
  /** Views and functions that show such secrets, by name. */
  readonly revealing: {
    readonly views: ReadonlyMap<string, readonly RevealingFacts[]>
    readonly functions: ReadonlyMap<string, readonly RevealingFacts[]>
  }
  /** Whether the login may change roles, run programs, or access files of the server. */
  readonly isPowerful: boolean
  /** Views that call functions, by name. Each has the schemas and names of these functions. */
  readonly views: ReadonlyMap<string, readonly ViewFacts[]>
}

export type RevealingFacts = { readonly schema: string; readonly condition: GuardCondition }

export type ViewFacts = {
  readonly schema: string
  readonly functions: readonly Omit<VolatileFunction, 'fewest' | 'most' | 'takesRow'>[]
}
