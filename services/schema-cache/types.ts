/**
 * The schema cache: the database's tables, relationships, functions, conversions and media-type handlers. load.ts reads
 * it once, and it is frozen. A reload replaces the whole cache, so a request uses one state of it from start to end.
 */

export type QualifiedName = { readonly schema: string; readonly name: string }

export type Column = {
  readonly name: string
  readonly description: string | null
  readonly nullable: boolean
  /** The type as Postgres writes it, with domains resolved: `character varying`, `integer`, `test.my_enum`. */
  readonly baseType: string
  /** The declared type, which may be a domain. Casts use it as their target. */
  readonly type: string
  /** The maximum characters of a limited character type. */
  readonly maximumLength: number | null
  /** The default's expression, or the implied default of an identity column. */
  readonly default: string | null
  readonly generated: boolean
  readonly enumValues: readonly string[]
}

/** A table, view, materialized view, partitioned or foreign table. */
export type Table = QualifiedName & {
  readonly description: string | null
  readonly isView: boolean
  readonly insertable: boolean
  readonly updatable: boolean
  readonly deletable: boolean
  /** For a view: its columns that come from its table's primary key, in the key's order. */
  readonly primaryKey: readonly string[]
  readonly columns: ReadonlyMap<string, Column>
}

/** A column of one side and the equal column of the other side. */
export type ColumnPair = readonly [source: string, target: string]

type Junction = {
  readonly table: QualifiedName
  readonly sourceConstraint: string
  readonly targetConstraint: string
  /** Columns of the source, each with the junction's column. */
  readonly sourceColumns: readonly ColumnPair[]
  /** Columns of the target, each with the junction's column. */
  readonly targetColumns: readonly ColumnPair[]
}

export type Cardinality =
  | { readonly kind: 'one-to-many'; readonly constraint: string; readonly columns: readonly ColumnPair[] }
  | { readonly kind: 'many-to-one'; readonly constraint: string; readonly columns: readonly ColumnPair[] }
  | {
      readonly kind: 'one-to-one'
      readonly constraint: string
      readonly columns: readonly ColumnPair[]
      /** True on the referenced side. */
      readonly referenced: boolean
    }
  | { readonly kind: 'many-to-many'; readonly junction: Junction }

/** How an embedding of `target` in `source` joins: by foreign keys, or by a function from a row to rows. */
export type Relationship =
  | {
      readonly kind: 'keys'
      readonly source: QualifiedName
      readonly target: QualifiedName
      readonly self: boolean
      readonly cardinality: Cardinality
      readonly sourceIsView: boolean
      readonly targetIsView: boolean
    }
  | {
      readonly kind: 'computed'
      readonly function: QualifiedName
      readonly source: QualifiedName
      readonly target: QualifiedName
      readonly self: boolean
      readonly toOne: boolean
    }

export type Parameter = {
  readonly name: string
  readonly type: string
  /** Equals `type`, but `character` and `bit` have no length, because a cast to the bare name would truncate to one. */
  readonly castType: string
  readonly required: boolean
  readonly variadic: boolean
}

type ReturnType =
  | { readonly kind: 'scalar'; readonly type: QualifiedName }
  /** `relation`: the relation whose columns the type has. `isAlias`: the type is a domain over the relation's type. */
  | { readonly kind: 'composite'; readonly type: QualifiedName; readonly isAlias: boolean }

export type Routine = QualifiedName & {
  readonly description: string | null
  readonly parameters: readonly Parameter[]
  readonly returns: ReturnType
  readonly returnsSet: boolean
  readonly returnsVoid: boolean
  readonly volatility: 'immutable' | 'stable' | 'volatile'
  readonly variadic: boolean
  readonly isolationLevel: string | null
  /** Settings of the function (ALTER FUNCTION .. SET) that apply to the full transaction. */
  readonly settings: readonly (readonly [name: string, value: string])[]
}

/** A cast between a domain and json or text that replaces the domain's own input and output. */
export type Representation = { readonly source: string; readonly target: string; readonly function: QualifiedName }

/** A function or aggregate. Its result type is a domain that has the name of a media type. */
export type MediaHandler = {
  /** The aggregate. Undefined if a function's own result is the body. */
  readonly aggregate: QualifiedName | undefined
  /** The relation or function to which the handler applies. Undefined: any. */
  readonly subject: QualifiedName | undefined
  /** In lower case. `*` + `/*`: any media type. */
  readonly mediaType: string
  /** The domain, as a type. */
  readonly type: QualifiedName
}

export type SchemaCache = {
  readonly tables: ReadonlyMap<string, ReadonlyMap<string, Table>>
  /** By source: schema, then name. */
  readonly relationships: ReadonlyMap<string, ReadonlyMap<string, readonly Relationship[]>>
  /** By schema, then name. Overloads are in the order of their parameters. */
  readonly routines: ReadonlyMap<string, ReadonlyMap<string, readonly Routine[]>>
  /** By the relation's schema, then its name: the names of functions in that schema that compute a value from a row. */
  readonly computedColumns: ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>
  /** By `representationKey(source, target)`. */
  readonly representations: ReadonlyMap<string, Representation>
  readonly mediaHandlers: readonly MediaHandler[]
  readonly timeZones: ReadonlySet<string>
  /** The comment of each exposed schema. */
  readonly schemaDescriptions: ReadonlyMap<string, string | null>
}

export const representationKey = (source: string, target: string): string => `${source}\u0000${target}`
