/**
 * Request parameters outside of the path: parameters that all tables share, parameters of each table, and function
 * arguments in a query string.
 */
import type { Column, Routine, Parameter as RoutineParameter, Table } from '../../../schema-cache/types.ts'
import { unqualify } from '../data-types.ts'
import { filteredColumns } from '../model.ts'
import { type Parameter, type Reference, reference, unlessEmpty } from './swagger.ts'
import { elementType, formatOf, typeOf } from './types.ts'

const optional = (place: 'query' | 'header', name: string, description: string): Parameter => ({
  in: place,
  name,
  description,
  required: false,
  type: 'string',
})

const prefer = (...values: string[]): Parameter => ({
  in: 'header',
  name: 'Prefer',
  description: 'Preference',
  required: false,
  type: 'string',
  enum: unlessEmpty(values),
})

const returnValues = ['return=representation', 'return=minimal', 'return=none']
const resolutionValues = ['resolution=ignore-duplicates', 'resolution=merge-duplicates']
const paging = 'Limiting and Pagination'

/** Generated clients depend on names and values, so they equal PostgREST's. */
const shared: readonly (readonly [string, Parameter])[] = [
  ['preferParams', prefer()],
  ['preferReturn', prefer(...returnValues)],
  ['preferCount', prefer('count=none')],
  ['preferPost', prefer(...returnValues, ...resolutionValues)],
  ['select', optional('query', 'select', 'Filtering Columns')],
  ['on_conflict', optional('query', 'on_conflict', 'On Conflict')],
  ['order', optional('query', 'order', 'Ordering')],
  ['range', optional('header', 'Range', paging)],
  [
    'rangeUnit',
    { in: 'header', name: 'Range-Unit', description: paging, required: false, type: 'string', default: 'items' },
  ],
  ['offset', optional('query', 'offset', paging)],
  ['limit', optional('query', 'limit', paging)],
]

const bodyName = (table: Table) => `body.${table.name}`
const filterName = (table: Table, column: Column) => `rowFilter.${table.name}.${column.name}`

function body(table: Table): Parameter {
  const { name } = table
  return { in: 'body', name, description: name, required: false, schema: reference('definitions', name) }
}

/** A filter has no format: its value is an operator and an operand. */
const rowFilter = ({ name, description }: Column): Parameter => ({
  in: 'query',
  name,
  description: description ?? undefined,
  required: false,
  type: 'string',
})

/** Every parameter that `tableReferences` and the paths of functions reference. */
export function parameterDefinitions(tables: readonly Table[]): Readonly<Record<string, Parameter>> {
  return Object.fromEntries([
    ...shared,
    ...tables.flatMap(table => [
      [bodyName(table), body(table)] as const,
      ...[...table.columns.values()].map(column => [filterName(table, column), rowFilter(column)] as const),
    ]),
  ])
}

const named = (...names: string[]): Reference[] => names.map(name => reference('parameters', name))

export const preferParams: Reference = reference('parameters', 'preferParams')

/** The parameters of each method of a table. */
export function tableReferences(table: Table): Record<'get' | 'post' | 'patch' | 'delete', readonly Reference[]> {
  const filters = named(...filteredColumns(table).map(column => filterName(table, column)))
  return {
    get: [...filters, ...named('select', 'order', 'range', 'rangeUnit', 'offset', 'limit', 'preferCount')],
    post: named(bodyName(table), 'select', 'preferPost'),
    patch: [...filters, ...named(bodyName(table), 'preferReturn')],
    delete: [...filters, ...named('preferReturn')],
  }
}

/**
 * An array is written as `{1,2}`, and json is written as text, so both are strings here. Only a variadic argument
 * repeats its elements.
 */
function queryArgument({ name, type, required, variadic }: RoutineParameter): Parameter {
  if (variadic) {
    const element = elementType(type)
    const items = { type: typeOf(element) ?? 'string', format: formatOf(element) }
    return { in: 'query', name, required, type: 'array', items, collectionFormat: 'multi' }
  }
  const dataType = typeOf(type) ?? 'string'
  return { in: 'query', name, required, type: dataType === 'array' ? 'string' : dataType, format: formatOf(type) }
}

/** A function's arguments in a GET. Types in `searchPath` have no schema. */
export function queryArguments(routine: Routine, searchPath: ReadonlySet<string>): Parameter[] {
  return routine.parameters.map(parameter =>
    queryArgument({ ...parameter, type: unqualify(parameter.type, searchPath) }),
  )
}
