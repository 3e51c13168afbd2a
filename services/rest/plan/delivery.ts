/**
 * Decides how a plan's rows reach the client: as one aggregated value, or row by row. Row by row, the service sends the
 * head when Postgres has found all rows. After that, nothing may fail. If the types do not ensure this, Postgres
 * computes the rows' text before the head, too. Pure.
 */
import type { Column, SchemaCache } from '../../schema-cache/types.ts'
import type { Condition, Plan, PlannedColumn, ReadNode } from './types.ts'

export type Delivery =
  /** One value. This is the fastest form for small results. */
  | 'whole'
  /** Row by row. Postgres computes each row's text only when it sends the row. */
  | 'rows'
  /** Row by row. Postgres computes the text of all rows before it sends the first row. */
  | 'made rows'

/** Up to this many rows, one value is faster. */
const fewRows = 1_000

/** Built-in types whose conversion to text or JSON cannot fail. The conversion of other types is user code. */
const ownTypes = new Set([
  'bigint',
  'bit',
  'bit varying',
  'boolean',
  'bytea',
  'character',
  'character varying',
  'cidr',
  'date',
  'double precision',
  'inet',
  'integer',
  'interval',
  'json',
  'jsonb',
  'macaddr',
  'money',
  'name',
  'numeric',
  'oid',
  'real',
  'smallint',
  'text',
  'time with time zone',
  'time without time zone',
  'timestamp with time zone',
  'timestamp without time zone',
  'tsvector',
  'uuid',
  'xml',
])

/** `numeric(10,2)[]` is `numeric`. */
const bareType = (type: string): string =>
  type
    .replace(/(\[\])+$/, '')
    .replace(/\([0-9, -]*\)/, '')
    .trimEnd()

const isOwn = ({ baseType }: Column): boolean => ownTypes.has(bareType(baseType))

function cannotFail({ field, cast, aggregate }: PlannedColumn, columns: ReadonlyMap<string, Column>): boolean {
  if (cast !== undefined || aggregate !== undefined) return false
  // A JSON path and a cast function return JSON or text.
  if (field.path.length > 0 || field.toOutput !== undefined) return true
  if (field.name === '*') return columns.values().every(isOwn)
  const column = columns.get(field.name)
  return column !== undefined && isOwn(column)
}

/** Whether there is at most one row, because each column of the primary key equals a value. */
function isOneByKey(conditions: readonly Condition[], primaryKey: readonly string[]): boolean {
  const equals = (name: string) =>
    conditions.some(
      condition =>
        condition.kind === 'filter' &&
        !condition.negated &&
        condition.field.name === name &&
        condition.field.path.length === 0 &&
        condition.operation.kind === 'compare' &&
        condition.operation.operator === 'eq' &&
        condition.operation.quantifier === undefined,
    )
  return primaryKey.length > 0 && primaryKey.every(equals)
}

const isShort = ({ range }: ReadNode): boolean => range.limit !== undefined && range.limit <= fewRows

/** Whether the plan reads all rows of a relation, which may be many. */
export const isUnfiltered = (plan: Plan): boolean => plan.kind === 'read' && plan.read.conditions.length === 0

export function deliveryOf(plan: Plan, cache: SchemaCache): Delivery {
  if (plan.kind === 'write' || plan.body.explain !== undefined || plan.body.singular || isShort(plan.read)) {
    return 'whole'
  }
  const { kind } = plan.body.shape
  if (kind !== 'json' && kind !== 'csv' && kind !== 'ndjson') return 'whole'
  if (plan.kind === 'call') {
    const { returns, returnsSet } = plan.routine
    return plan.readOnly && returnsSet && returns.kind === 'composite' ? 'made rows' : 'whole'
  }
  const { relation, conditions, select } = plan.read
  const table = cache.tables.get(relation.schema)?.get(relation.name)
  if (table === undefined || isOneByKey(conditions, table.primaryKey)) return 'whole'
  const isSafe = select.every(item => (item.kind === 'column' ? cannotFail(item, table.columns) : !item.spread))
  return isSafe ? 'rows' : 'made rows'
}
