/** A request before the service uses the schema cache. This is the first of three stages (parse, plan, SQL). */

/** One step into a JSON value. An index counts from 0. A negative index counts from the end. */
export type JsonStep = { readonly arrow: '->' | '->>'; readonly key: string | number }

/** A column, or a value inside a JSON column. */
export type Field = { readonly name: string; readonly path: readonly JsonStep[] }

export const aggregateNames = ['sum', 'avg', 'count', 'max', 'min'] as const
export type AggregateName = (typeof aggregateNames)[number]

/** `select=alias:column->path::cast.sum()::cast`. */
export type SelectField = {
  readonly kind: 'field'
  readonly field: Field
  readonly alias: string | undefined
  readonly cast: string | undefined
  readonly aggregate: { readonly name: AggregateName; readonly cast: string | undefined } | undefined
}
/** `select=alias:relation!hint!inner(...)`, or spread into its parent with a `...` prefix. */
export type SelectRelation = {
  readonly kind: 'relation'
  readonly name: string
  readonly alias: string | undefined
  readonly hint: string | undefined
  readonly join: 'inner' | 'left' | undefined
  readonly spread: boolean
  readonly select: readonly SelectItem[]
}
export type SelectItem = SelectField | SelectRelation

export type Quantifier = 'any' | 'all'

/** Operators with one operand that allow a quantifier. */
export const quantifiableOperators = ['eq', 'gte', 'gt', 'lte', 'lt', 'like', 'ilike', 'match', 'imatch'] as const
export const plainOperators = ['neq', 'cs', 'cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj'] as const
export const searchOperators = ['fts', 'plfts', 'phfts', 'wfts'] as const
export const isValues = ['null', 'not_null', 'true', 'false', 'unknown'] as const

export type Operation =
  | {
      readonly kind: 'compare'
      readonly operator: (typeof quantifiableOperators)[number]
      readonly quantifier: Quantifier | undefined
      readonly value: string
    }
  | { readonly kind: 'plain'; readonly operator: (typeof plainOperators)[number]; readonly value: string }
  | {
      readonly kind: 'search'
      readonly operator: (typeof searchOperators)[number]
      readonly language: string | undefined
      readonly value: string
    }
  | { readonly kind: 'in'; readonly values: readonly string[] }
  | { readonly kind: 'is'; readonly value: (typeof isValues)[number] }
  | { readonly kind: 'isdistinct'; readonly value: string }

export type Filter = { readonly field: Field; readonly negated: boolean; readonly operation: Operation }

export type LogicTree =
  | { readonly kind: 'filter'; readonly filter: Filter }
  | {
      readonly kind: 'group'
      readonly operator: 'and' | 'or'
      readonly negated: boolean
      readonly members: readonly LogicTree[]
    }

export type OrderTerm = {
  readonly field: Field
  /** The embedded relation that contains the column. */
  readonly relation: string | undefined
  readonly direction: 'asc' | 'desc' | undefined
  readonly nulls: 'first' | 'last' | undefined
}

/** The requested rows: from `offset` on, at most `limit`. */
export type Range = { readonly offset: number; readonly limit: number | undefined }

/**
 * A parameter for the resource at the end of a path of embeddings. If the path is empty, it is the request's own
 * resource.
 */
export type At<T> = { readonly path: readonly string[]; readonly value: T }

export type ParsedQuery = {
  readonly select: readonly SelectItem[]
  readonly filters: readonly At<Filter>[]
  readonly logic: readonly At<LogicTree>[]
  readonly order: readonly At<readonly OrderTerm[]>[]
  /** Undefined if the value is not a number. */
  readonly limits: readonly At<number | undefined>[]
  readonly offsets: readonly At<number | undefined>[]
  readonly columns: readonly string[] | undefined
  readonly onConflict: readonly string[] | undefined
  /** The arguments when GET calls a function. */
  readonly parameters: readonly (readonly [name: string, value: string])[]
  /** All parameters sorted by name and encoded again. */
  readonly canonical: string
}
