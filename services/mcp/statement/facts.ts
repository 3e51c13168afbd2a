/** What a database's catalogue says that a verdict rests on. Read by `services/mcp/database/catalogue.ts`. */

import type { GuardCondition } from './guarded.ts'

export type VolatileFunction = {
  readonly schema: string
  readonly name: string
  /** How many arguments a call may have. */
  readonly fewest: number
  readonly most: number
  /** The extension that it came with. */
  readonly extension: string | null
  /** Whether its first argument can be a row, so that `t.f` may be a call of it. */
  readonly takesRow: boolean
}

export type CatalogueFacts = {
  /** Schemas in which a name without one is looked for. */
  readonly searchPath: readonly string[]
  /** Names of all functions that there are. */
  readonly functions: ReadonlySet<string>
  /** Functions that are volatile, or aggregates made of such, by name. */
  readonly volatile: ReadonlyMap<string, readonly VolatileFunction[]>
  /** Operators outside of pg_catalog whose function is volatile, by name, with their schemas. */
  readonly operators: ReadonlyMap<string, readonly string[]>
  /** Names of operators of pg_catalog. */
  readonly ownOperators: ReadonlySet<string>
  /** Types that a volatile function casts to, by name, with their schemas. */
  readonly casts: ReadonlyMap<string, readonly string[]>
  /** Names of settings that sound as if they held a password, and do not. */
  readonly harmlessSettings: ReadonlySet<string>
  /** Whether the role sees one that may, with a value, among all settings. */
  readonly hasHiddenSettings: boolean
  /** Of which kinds of secrets there are any to be seen; `always` is among them. */
  readonly secrets: ReadonlySet<GuardCondition>
  /** Columns of the relations of the catalogue that show secrets, by the relation's name. */
  readonly guardedColumns: ReadonlyMap<string, ReadonlySet<string>>
  /** Views and functions through which such secrets are seen, by name. */
  readonly revealing: {
    readonly views: ReadonlyMap<string, readonly RevealingFacts[]>
    readonly functions: ReadonlyMap<string, readonly RevealingFacts[]>
  }
  /** Whether the login may change roles, files or programs of the server by what it is. */
  readonly isPowerful: boolean
  /** Views that call functions, by name: which, as schema and name. */
  readonly views: ReadonlyMap<string, readonly ViewFacts[]>
}

export type RevealingFacts = { readonly schema: string; readonly condition: GuardCondition }

export type ViewFacts = {
  readonly schema: string
  readonly functions: readonly Omit<VolatileFunction, 'fewest' | 'most' | 'takesRow'>[]
}
