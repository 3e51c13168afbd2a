/**
 * Selects the tables and functions that a role's document contains: those on which the role has a privilege
 * (openapi-mode follow-privileges), or all of the schema (ignore-privileges). The service queries Postgres as the role,
 * and reads only names. Everything else comes from the schema cache.
 */
import type { SchemaCache } from '../../schema-cache/types.ts'
import { withoutSchema } from './data-types.ts'
import type { DescribedSchema } from './model.ts'

/**
 * $1: a schema's name. Runs as the request's role. Returns one row for each relation that the role owns or on which it
 * has any privilege, even on one column. Returns one row for each function that the role may execute. Omits partitions,
 * because their parent table is included.
 */
export const accessibleSql = `
  select 'relation' as kind, relation.relname as name, null::json as parameters
  from pg_catalog.pg_class relation
    join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
  where namespace.nspname = $1 and relation.relkind in ('r', 'p', 'v', 'm', 'f') and not relation.relispartition
    and (pg_has_role(relation.relowner, 'usage')
      or has_table_privilege(relation.oid, 'select, insert, update, delete, truncate, references, trigger')
      or has_any_column_privilege(relation.oid, 'select, insert, update, references'))
  union all
  select 'function', routine.proname, (
    select coalesce(json_agg(json_build_object('name', coalesce(argument.name, ''), 'type', format_type(argument.type, null))
      order by argument.position), '[]')
    from unnest(
      coalesce(routine.proallargtypes, routine.proargtypes::oid[]), routine.proargnames, coalesce(routine.proargmodes::text[], '{}')
    ) with ordinality as argument(type, name, mode, position)
    where argument.type is not null and (argument.mode is null or argument.mode in ('i', 'b', 'v')))
  from pg_catalog.pg_proc routine
    join pg_catalog.pg_namespace namespace on namespace.oid = routine.pronamespace
  where namespace.nspname = $1 and routine.prokind = 'f' and has_function_privilege(routine.oid, 'execute')`

/** A row of `accessibleSql`. */
export type AccessibleRow =
  | { readonly kind: 'relation'; readonly name: string; readonly parameters: null }
  | {
      readonly kind: 'function'
      readonly name: string
      readonly parameters: readonly { readonly name: string; readonly type: string }[]
    }

type Described = Pick<SchemaCache, 'tables' | 'routines' | 'schemaDescriptions'>

/** All cached objects of a schema. */
export function everythingIn(cache: Described, name: string): DescribedSchema {
  return {
    name,
    comment: cache.schemaDescriptions.get(name) ?? null,
    tables: [...(cache.tables.get(name)?.values() ?? [])],
    routines: [...(cache.routines.get(name)?.values() ?? [])].flat(),
  }
}

/**
 * Distinguishes overloads. Types have no schema here, because the role's search path decides whether Postgres prints
 * it.
 */
const signature = ({ name, parameters }: { name: string; parameters: readonly { name: string; type: string }[] }) =>
  JSON.stringify([name, ...parameters.map(parameter => [parameter.name, withoutSchema(parameter.type)])])

/**
 * The cached objects that the rows of `accessibleSql` name, in the cache's order. Objects that are not cached yet are
 * included after a reload.
 */
export function accessibleOf(cache: Described, name: string, rows: readonly AccessibleRow[]): DescribedSchema {
  const relations = new Set<string>()
  const functions = new Set<string>()
  for (const row of rows) {
    if (row.kind === 'relation') relations.add(row.name)
    else functions.add(signature(row))
  }
  const all = everythingIn(cache, name)
  return {
    ...all,
    tables: all.tables.filter(table => relations.has(table.name)),
    routines: all.routines.filter(routine => functions.has(signature(routine))),
  }
}
