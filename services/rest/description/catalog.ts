/**
 * Reads what a full description needs and the schema cache lacks: each named type's definition, and each function's
 * result. The service queries it on demand, with an empty search_path, so that type names equal the cache's.
 */

import type { QualifiedName } from '../../schema-cache/types.ts'

export type Attribute = { readonly name: string; readonly type: string }

/** A user-defined type and its definition. */
type NamedType =
  | { readonly kind: 'enum'; readonly schema: string; readonly name: string; readonly labels: readonly string[] }
  | { readonly kind: 'domain'; readonly base: string }
  | {
      readonly kind: 'composite'
      readonly schema: string
      readonly name: string
      readonly attributes: readonly Attribute[]
    }
  /** A row of a relation. */
  | { readonly kind: 'row'; readonly schema: string; readonly name: string }

type Returned = {
  readonly type: string
  /** The result of a function with OUT parameters or RETURNS TABLE. */
  readonly columns: readonly Attribute[]
}

export type Catalog = {
  /** By the name that `format_type` writes. */
  readonly types: ReadonlyMap<string, NamedType>
  /** By `signatureOf`. */
  readonly returned: ReadonlyMap<string, Returned>
  /**
   * By name: functions of the schema that take one row of a relation. Includes only functions that the role may see.
   */
  readonly ofRow: (relation: QualifiedName) => readonly Attribute[]
}

/** Returns one row: a JSON list of all types. */
export const typesSql = `
  select coalesce(json_agg(json_build_object(
    'written', format_type(type.oid, null),
    'schema', namespace.nspname,
    'name', type.typname,
    'kind', case when type.typtype = 'e' then 'enum' when type.typtype = 'd' then 'domain'
      when relation.relkind = 'c' then 'composite' else 'row' end,
    'base', case when type.typtype = 'd' then format_type(type.typbasetype, null) end,
    'labels', (select json_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = type.oid),
    'attributes', (
      select json_agg(json_build_object('name', attname, 'type', format_type(atttypid, null)) order by attnum)
      from pg_attribute where relation.relkind = 'c' and attrelid = relation.oid and attnum > 0 and not attisdropped))
    order by namespace.nspname, type.typname), '[]')
  from pg_type type
    join pg_namespace namespace on namespace.oid = type.typnamespace
    left join pg_class relation on relation.oid = type.typrelid
  where (type.typtype in ('e', 'd') or type.typtype = 'c' and relation.relkind in ('c', 'r', 'p', 'v', 'm', 'f'))
    and namespace.nspname !~ '^pg_' and namespace.nspname <> 'information_schema'`

/**
 * $1: a JSON list of schemas. Returns one row: a JSON list of their functions. `visible`: with $2, all
 * functions; otherwise only functions that the role may execute.
 */
export const returnedSql = `
  select coalesce(json_agg(json_build_object(
    'schema', namespace.nspname,
    'name', routine.proname,
    'parameters', (
      select coalesce(json_agg(json_build_object('name', coalesce(argument.name, ''), 'type', format_type(argument.type, null)) order by position), '[]')
      from unnest(coalesce(routine.proallargtypes, routine.proargtypes::oid[]), routine.proargnames, coalesce(routine.proargmodes::text[], '{}'))
        with ordinality as argument(type, name, mode, position)
      where argument.type is not null and (argument.mode is null or argument.mode in ('i', 'b', 'v'))),
    'type', format_type(routine.prorettype, null),
    'visible', $2::boolean or has_function_privilege(routine.oid, 'execute'),
    'columns', (
      select coalesce(json_agg(json_build_object('name', coalesce(argument.name, ''), 'type', format_type(argument.type, null)) order by position), '[]')
      from unnest(routine.proallargtypes, routine.proargnames, routine.proargmodes::text[]) with ordinality as argument(type, name, mode, position)
      where argument.mode in ('t', 'b', 'o')))), '[]')
  from pg_proc routine join pg_namespace namespace on namespace.oid = routine.pronamespace
  where namespace.nspname in (select json_array_elements_text($1::json)) and routine.prokind = 'f'`

/** Distinguishes overloads. */
export const signatureOf = (schema: string, name: string, parameters: readonly Attribute[]): string =>
  JSON.stringify([schema, name, ...parameters.map(one => [one.name, one.type])])

type TypeRow = {
  written: string
  schema: string
  name: string
  kind: NamedType['kind']
  base: string | null
  labels: string[] | null
  attributes: Attribute[] | null
}
type ReturnedRow = {
  schema: string
  name: string
  parameters: Attribute[]
  type: string
  columns: Attribute[]
  visible: boolean
}

function namedType({ kind, schema, name, base, labels, attributes }: TypeRow): NamedType {
  switch (kind) {
    case 'enum':
      return { kind, schema, name, labels: labels ?? [] }
    case 'domain':
      return { kind, base: base ?? 'text' }
    case 'composite':
      return { kind, schema, name, attributes: attributes ?? [] }
    case 'row':
      return { kind, schema, name }
  }
}

/** Parses the JSON results of `typesSql` and `returnedSql`. */
export function catalogOf(types: string, returned: string): Catalog {
  // The statements guarantee these shapes.
  const typeRows = JSON.parse(types) as TypeRow[]
  const returnedRows = JSON.parse(returned) as ReturnedRow[]
  const named = new Map(typeRows.map(row => [row.written, namedType(row)]))
  const ofRow = Map.groupBy(
    returnedRows.filter(({ parameters, visible }) => parameters.length === 1 && visible),
    ({ schema, parameters }) => {
      const taken = named.get(parameters[0]?.type ?? '')
      return taken?.kind === 'row' && taken.schema === schema ? JSON.stringify([schema, taken.name]) : ''
    },
  )
  return {
    types: named,
    returned: new Map(
      returnedRows.map(({ schema, name, parameters, type, columns }) => [
        signatureOf(schema, name, parameters),
        { type, columns },
      ]),
    ),
    ofRow: ({ schema, name }) => ofRow.get(JSON.stringify([schema, name])) ?? [],
  }
}
