/**
 * A query plan, resolved with the schema cache. This is the second of three stages (parse, plan, SQL). The third stage
 * only renders the plan as SQL.
 */

import type { Bytes } from '../../../wire/messages.ts'
import type { ColumnPair, MediaHandler, Parameter, QualifiedName, Routine } from '../../schema-cache/types.ts'
import type { Position, Shape } from '../keyset/cursor.ts'
import type { MediaType } from '../parse/media.ts'
import type { AggregateName, JsonStep, Operation, Range } from '../parse/types.ts'

/** A column of the relation that a node reads, with what is known about it. */
export type PlannedField = {
  readonly name: string
  readonly path: readonly JsonStep[]
  /** The declared type. Undefined if the relation does not expose it (a computed column, a function's result). */
  readonly type: string | undefined
  /** The type with domains resolved. */
  readonly baseType: string | undefined
  /** The function that converts the value to json. */
  readonly toOutput: QualifiedName | undefined
  /** The function that converts a text to the value, for comparisons. */
  readonly fromText: QualifiedName | undefined
  /**
   * For function results whose row type Postgres does not know: the function that computes the column, and its
   * relation.
   */
  readonly computed: { readonly function: QualifiedName; readonly of: QualifiedName } | undefined
}

export type PlannedColumn = {
  readonly kind: 'column'
  readonly field: PlannedField
  readonly alias: string | undefined
  readonly cast: string | undefined
  readonly aggregate: { readonly name: AggregateName; readonly cast: string | undefined } | undefined
}

export type Condition =
  | {
      readonly kind: 'filter'
      readonly field: PlannedField
      readonly negated: boolean
      readonly operation: Operation
    }
  /** Whether an embedded relation has a row. */
  | { readonly kind: 'embedded'; readonly child: string; readonly isNull: boolean }
  | {
      readonly kind: 'group'
      readonly operator: 'and' | 'or'
      readonly negated: boolean
      readonly members: readonly Condition[]
    }

export type PlannedOrder = {
  readonly field: PlannedField
  /** The alias of the field's embedding. */
  readonly child: string | undefined
  readonly direction: 'asc' | 'desc' | undefined
  readonly nulls: 'first' | 'last' | undefined
}

/** The join of an embedded relation with its parent. */
export type Join =
  | { readonly kind: 'columns'; readonly columns: readonly ColumnPair[] }
  | {
      readonly kind: 'junction'
      readonly table: QualifiedName
      readonly alias: string
      readonly sourceColumns: readonly ColumnPair[]
      readonly targetColumns: readonly ColumnPair[]
    }
  | { readonly kind: 'function'; readonly function: QualifiedName; readonly argument: QualifiedName }

/** One relation that the plan reads, with its embeddings. */
export type ReadNode = {
  readonly relation: QualifiedName
  /** The alias of its rows in SQL, unique in the plan. */
  readonly alias: string
  /** The columns and embeddings in the requested order. */
  readonly select: readonly (PlannedColumn | EmbeddedNode)[]
  readonly conditions: readonly Condition[]
  readonly order: readonly PlannedOrder[]
  readonly range: Range
}

export type EmbeddedNode = {
  readonly kind: 'embedded'
  readonly node: ReadNode
  /** The name of the JSON key. */
  readonly name: string
  /** The relation's name, if the query string uses it although there is an alias. */
  readonly calledByRelation: string | undefined
  /** The alias of the full embedding in SQL. */
  readonly alias: string
  readonly join: Join
  readonly toOne: boolean
  readonly inner: boolean
  readonly spread: boolean
}

/** The rows' final form. */
export type BodyPlan = {
  readonly shape:
    | { readonly kind: 'none' }
    | { readonly kind: 'json'; readonly stripNulls: boolean }
    /** One object. More or fewer rows are an error. */
    | { readonly kind: 'object'; readonly stripNulls: boolean }
    | { readonly kind: 'csv' }
    /** One line of JSON for each row. */
    | { readonly kind: 'ndjson' }
    | { readonly kind: 'geojson' }
    | { readonly kind: 'handler'; readonly handler: MediaHandler }
  /** The value of Content-Type. */
  readonly mediaType: MediaType
  readonly explain: Extract<MediaType, { kind: 'plan' }> | undefined
  /** Whether the request requires exactly one row, also if there is no body. */
  readonly singular: boolean
}

export type Count = 'exact' | 'planned' | 'estimated'

/** A column that a write sets. */
export type WrittenColumn = {
  readonly name: string
  /** The column's key in the JSON. */
  readonly key: string
  readonly type: string
  readonly baseType: string
  /** The function that converts json to the column's type. */
  readonly fromJson: QualifiedName | undefined
  readonly default: string | null
}

export type WriteSource = {
  readonly json: Bytes | string
  readonly isArray: boolean
  readonly columns: readonly WrittenColumn[]
  /** Whether a missing key gets the column's default instead of null. */
  readonly useDefaults: boolean
}

export type Write =
  | {
      readonly kind: 'insert'
      readonly source: WriteSource
      readonly onConflict: { readonly columns: readonly string[]; readonly resolution: 'merge' | 'ignore' } | undefined
      /** For a PUT: the conditions that the payload must satisfy. */
      readonly conditions: readonly Condition[]
      readonly isPut: boolean
    }
  | { readonly kind: 'update'; readonly source: WriteSource; readonly conditions: readonly Condition[] }
  | { readonly kind: 'delete'; readonly conditions: readonly Condition[] }

export type Argument = {
  readonly parameter: Parameter
  /** One value, or a list for a variadic parameter. */
  readonly value: string | Bytes | { readonly list: readonly (string | Bytes)[] }
}

export type CallArguments =
  | { readonly kind: 'values'; readonly list: readonly Argument[] }
  /** The first record of a list is used. Each parameter has its key in the JSON. */
  | {
      readonly kind: 'json'
      readonly json: Bytes | string
      readonly isArray: boolean
      readonly parameters: readonly { readonly parameter: Parameter; readonly key: string }[]
    }
  /** The whole body, for the one unnamed parameter. */
  | { readonly kind: 'unnamed'; readonly value: Bytes | string; readonly type: string }

/** A column of a page's order. */
export type KeysetKey = {
  readonly field: PlannedField
  readonly isDescending: boolean
  readonly nullsFirst: boolean
  readonly isNullable: boolean
}

/** Keyset pagination: the full order, and the end of the previous page. */
export type Keyset = {
  readonly cursor: string
  readonly shape: Shape
  readonly keys: readonly KeysetKey[]
  readonly after: Position | undefined
}

/** The limits of a role, and the role's name. */
type PlanLimits = { readonly role: string; readonly rows: number | undefined; readonly cost: number | undefined }

/** An embedding that the query string names by its relation although it has an alias. */
export type TargetName = { readonly relation: string; readonly alias: string }

export type Plan = { readonly limits?: PlanLimits; readonly targetNames: readonly TargetName[] } & (
  | {
      readonly kind: 'read'
      readonly read: ReadNode
      readonly keyset: Keyset | undefined
      readonly body: BodyPlan
      readonly count: Count | undefined
      readonly maximumRows: number | undefined
      readonly headersOnly: boolean
    }
  | {
      readonly kind: 'write'
      readonly relation: QualifiedName
      readonly write: Write
      /** The columns of the written rows that the response reads. */
      readonly read: ReadNode
      readonly returning: readonly string[] | 'all'
      readonly body: BodyPlan
      readonly countsExactly: boolean
      /** The primary key, if the response contains the new row's location. */
      readonly locationKey: readonly string[]
      readonly wants: 'representation' | 'headers-only' | 'minimal'
      readonly maximumAffected: number | undefined
    }
  | {
      readonly kind: 'call'
      readonly routine: Routine
      readonly arguments: CallArguments
      readonly read: ReadNode
      readonly body: BodyPlan
      readonly count: Count | undefined
      readonly maximumRows: number | undefined
      readonly readOnly: boolean
      readonly headersOnly: boolean
      readonly maximumAffected: number | undefined
    }
)
