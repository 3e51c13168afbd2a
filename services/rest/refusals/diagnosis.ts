/**
 * Finds out why Postgres refused a request with 42501: the grant that its role lacks, or the row-level security
 * policies that Postgres applied. Reads the catalogs for the log; the client gets Postgres's error. Contains only
 * names, never values.
 */

import type { Pool } from '../../postgres/pool.ts'
import type { Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import type { Plan } from '../plan/types.ts'
import { needsOf } from './needs.ts'

type Diagnosis = {
  /** Such as `INSERT on api.books`. */
  readonly lacks: readonly string[]
  /** Such as `api.notes: own (ALL, permissive)`. */
  readonly policies: readonly string[]
}

/**
 * $1: the role; $2: the needed privileges; $3: the pre-request function. Runs as the login role, with an empty
 * search_path. A security_invoker view needs the same privileges on its relations.
 */
const diagnosisSql = `
  with recursive needs as (
    select * from json_to_recordset($2::json) as need(kind text, schema text, name text, privilege text, columns jsonb, types jsonb)
  ),
  caller as (select pg_roles.oid, pg_roles.rolname, pg_roles.rolbypassrls from pg_roles where rolname = $1),
  relations as (
    select relation.oid, needs.privilege, needs.columns
    from needs
      join pg_namespace namespace on namespace.nspname = needs.schema
      join pg_class relation on relation.relnamespace = namespace.oid and relation.relname = needs.name
    where needs.kind = 'relation'
    union
    select inner_relation.oid, relations.privilege, case when relations.privilege = 'SELECT' then (
        select jsonb_agg(attribute.attname)
        from pg_depend read_column
          join pg_attribute attribute on attribute.attrelid = inner_relation.oid and attribute.attnum = read_column.refobjsubid
        where read_column.classid = 'pg_catalog.pg_rewrite'::regclass and read_column.objid = rule.oid
          and read_column.refclassid = 'pg_catalog.pg_class'::regclass and read_column.refobjid = inner_relation.oid) end
    from relations
      join pg_class view on view.oid = relations.oid and view.relkind = 'v'
        and lower(coalesce((select option_value from pg_options_to_table(view.reloptions) where option_name = 'security_invoker'), 'false'))
          in ('true', 'on', 'yes', '1')
      join pg_rewrite rule on rule.ev_class = view.oid
      join pg_depend dependency on dependency.classid = 'pg_catalog.pg_rewrite'::regclass and dependency.objid = rule.oid
        and dependency.refclassid = 'pg_catalog.pg_class'::regclass and dependency.refobjid <> view.oid
      join pg_class inner_relation on inner_relation.oid = dependency.refobjid
  ) cycle oid set is_cycle using path,
  functions as (
    select routine.oid
    from needs
      join pg_namespace namespace on namespace.nspname = needs.schema
      join pg_proc routine on routine.pronamespace = namespace.oid and routine.proname = needs.name
    where needs.kind = 'function' and (needs.types is null or needs.types =
      (select coalesce(jsonb_agg(format_type(type, null) order by place), '[]') from unnest(routine.proargtypes) with ordinality as t(type, place)))
    union
    select to_regproc($3) where $3 <> '' and to_regproc($3) is not null
  ),
  schemas as (
    select relation.relnamespace as oid from relations join pg_class relation on relation.oid = relations.oid
    union select routine.pronamespace from functions join pg_proc routine on routine.oid = functions.oid
  ),
  sequences as (
    select distinct sequence.oid
    from relations
      join pg_attrdef initial on initial.adrelid = relations.oid
      join pg_depend dependency on dependency.classid = 'pg_catalog.pg_attrdef'::regclass and dependency.objid = initial.oid
        and dependency.refclassid = 'pg_catalog.pg_class'::regclass
      join pg_class sequence on sequence.oid = dependency.refobjid and sequence.relkind = 'S'
    where relations.privilege = 'INSERT'
  ),
  lacking_columns as (
    select relations.oid, relations.privilege,
      has_any_column_privilege(caller.oid, relations.oid, relations.privilege) as has_some,
      array(
        select attribute.attname from pg_attribute attribute
        where attribute.attrelid = relations.oid and attribute.attnum > 0 and not attribute.attisdropped
          and not has_column_privilege(caller.oid, relations.oid, attribute.attnum, relations.privilege)
          and attribute.attname::text in (select name from jsonb_array_elements_text(relations.columns) as name
            union all select attribute.attname where '*' in (select jsonb_array_elements_text(relations.columns)))
        order by attribute.attnum) as columns
    from relations cross join caller
    where relations.privilege <> 'DELETE' and not has_table_privilege(caller.oid, relations.oid, relations.privilege)
  )
  select 'lacks', format('membership in the role %s of the login role', $1)
    where exists (select from caller) and not pg_has_role(session_user, $1, 'MEMBER')
  union all
  select 'lacks', format('USAGE on schema %I', namespace.nspname)
    from schemas join pg_namespace namespace on namespace.oid = schemas.oid cross join caller
    where not has_schema_privilege(caller.oid, namespace.oid, 'USAGE')
  union all
  select 'lacks', format('%s on %s%s', privilege, oid::regclass,
      case when has_some and cardinality(columns) > 0 then format(' (%s)', array_to_string(columns, ', ')) else '' end)
    from lacking_columns where cardinality(columns) > 0 or not has_some
  union all
  select 'lacks', format('DELETE on %s', relations.oid::regclass)
    from relations cross join caller
    where relations.privilege = 'DELETE' and not has_table_privilege(caller.oid, relations.oid, 'DELETE')
  union all
  select 'lacks', format('EXECUTE on function %s', functions.oid::regprocedure)
    from functions cross join caller where not has_function_privilege(caller.oid, functions.oid, 'EXECUTE')
  union all
  select 'lacks', format('USAGE on sequence %s', sequences.oid::regclass)
    from sequences cross join caller where not has_sequence_privilege(caller.oid, sequences.oid, 'USAGE, UPDATE')
  union all
  select 'policies', format('%s: %s', relation.oid::regclass, coalesce(applying.list, 'no policy for the role, so no row'))
    from (select distinct oid from relations) as reached
      join pg_class relation on relation.oid = reached.oid
      cross join caller
      cross join lateral (
        select string_agg(format('%s (%s, %s)', policy.polname,
          case policy.polcmd when '*' then 'ALL' when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' else 'DELETE' end,
          case when policy.polpermissive then 'permissive' else 'restrictive' end), ', ' order by policy.polname) as list
        from pg_policy policy
        where policy.polrelid = relation.oid
          and (policy.polcmd = '*' or exists (select from relations where relations.oid = relation.oid and
            policy.polcmd = case relations.privilege when 'SELECT' then 'r' when 'INSERT' then 'a' when 'UPDATE' then 'w' else 'd' end))
          and exists (select from unnest(policy.polroles) as holder where holder = 0 or pg_has_role(caller.oid, holder, 'USAGE'))
      ) as applying
    where relation.relrowsecurity and not caller.rolbypassrls
      and (relation.relforcerowsecurity or not pg_has_role(caller.oid, relation.relowner, 'USAGE'))`

const setUp: readonly Step[] = [
  { text: `SELECT set_config('search_path', '', true), set_config('transaction_read_only', 'on', true)`, values: [] },
]

/** @throws DatabaseError, ConnectionFailure, AcquisitionTimeout */
export async function diagnose(
  pool: Pool,
  role: string,
  plans: readonly Plan[],
  preRequest: string | undefined,
): Promise<Diagnosis> {
  const needs = JSON.stringify(plans.flatMap(needsOf))
  return transact(pool, new AbortController().signal, async connection => {
    const step = { text: diagnosisSql, values: [role, needs, preRequest ?? ''] }
    const results = await connection.run([...setUp, step], false)
    const rows = (results[1] ?? []).map(([kind, text]) => ({ kind: String(kind), text: String(text) }))
    const of = (kind: string) => rows.filter(row => row.kind === kind).map(({ text }) => text)
    return { lacks: of('lacks'), policies: of('policies') }
  })
}
