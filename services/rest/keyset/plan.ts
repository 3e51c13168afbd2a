/**
 * Plans keyset pagination: selects rows in a total order, after the position of a cursor. The primary key completes the
 * requested order. So rows that are inserted or deleted between two pages do not move other rows. Pure.
 */
import type { SchemaCache, Table } from '../../schema-cache/types.ts'
import { keysetRefused } from '../errors/catalogue.ts'
import type { ApiRequest } from '../parse/request.ts'
import { fieldResolver } from '../plan/fields.ts'
import type { EmbeddedNode, Keyset, KeysetKey, PlannedColumn, PlannedOrder, ReadNode } from '../plan/types.ts'
import { decodeCursor, type Shape } from './cursor.ts'

const hasAggregates = ({ select }: ReadNode): boolean =>
  select.some(item => (item.kind === 'column' ? item.aggregate !== undefined : item.spread && hasAggregates(item.node)))

const isStar = ({ field, aggregate, cast }: PlannedColumn): boolean =>
  field.name === '*' && field.path.length === 0 && aggregate === undefined && cast === undefined

const plainName = ({ field, child }: PlannedOrder): string | undefined =>
  child === undefined && field.path.length === 0 ? field.name : undefined

const sameField = (one: PlannedOrder, other: PlannedOrder): boolean =>
  JSON.stringify([one.field.name, one.field.path]) === JSON.stringify([other.field.name, other.field.path])

/** The full order: explicit directions, each field once, and the primary key at the end. */
function fullOrder(order: readonly PlannedOrder[], key: readonly PlannedOrder[]): PlannedOrder[] {
  const once = order.filter((term, index) => order.findIndex(other => sameField(term, other)) === index)
  const rest = key.filter(part => !once.some(term => plainName(term) === plainName(part)))
  return [...once, ...rest].map(({ direction = 'asc', nulls, ...term }) => ({
    ...term,
    direction,
    nulls: nulls ?? (direction === 'asc' ? 'last' : 'first'),
  }))
}

const keyOf = (table: Table, { field, direction, nulls }: PlannedOrder): KeysetKey => ({
  field,
  isDescending: direction === 'desc',
  nullsFirst: nulls === 'first',
  isNullable: field.path.length > 0 || (table.columns.get(field.name)?.nullable ?? true),
})

/** The read of a page, and its order. `cursor`: sent by the client; empty for the first page. */
export function planKeyset(
  cache: SchemaCache,
  request: ApiRequest,
  table: Table,
  read: ReadNode,
  cursor: string,
): { read: ReadNode; keyset: Keyset } {
  const { primaryKey, columns } = table
  if (primaryKey.length === 0) throw keysetRefused(`'${table.name}' has no primary key`)
  if (hasAggregates(read)) throw keysetRefused('grouped rows have no key')
  if (read.range.offset > 0) throw keysetRefused('a cursor cannot be combined with an offset')
  if (read.order.some(({ child }) => child !== undefined)) {
    throw keysetRefused('rows cannot be ordered by columns of an embedded relation')
  }
  const resolve = fieldResolver(cache, read.relation)
  const key = primaryKey.map(name => ({
    field: resolve({ name, path: [] }),
    child: undefined,
    direction: undefined,
    nulls: undefined,
  }))
  const order = fullOrder(read.order, key)
  const shape: Shape = { schema: table.schema, relation: table.name, canonicalQuery: request.query.canonical }
  const after = cursor === '' ? undefined : decodeCursor(shape, cursor)
  // The cursor comes from another version of the service, or of the table.
  if (after !== undefined && after.length !== order.length)
    throw keysetRefused('the primary key has changed; start again')
  const select = read.select.flatMap((item): (PlannedColumn | EmbeddedNode)[] =>
    item.kind === 'column' && isStar(item)
      ? [...columns.keys()].map(name => ({ ...item, field: resolve({ name, path: [] }) }))
      : [item],
  )
  return {
    read: { ...read, select, order },
    keyset: { cursor, shape, keys: order.map(term => keyOf(table, term)), after },
  }
}
