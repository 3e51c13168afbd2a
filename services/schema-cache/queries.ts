/**
 * SQL queries of the catalogs. Each query runs with an empty search_path, so that every name is qualified. It returns
 * one row for each object, with JSON for the object's parts: so the driver reads thousands of rows instead of hundreds
 * of thousands.
 */

/** Each domain with its final base type, also if a domain is based on another domain. */
const baseTypes = `recursive
  domain_chain as (
    select oid, typbasetype as base from pg_type where typtype = 'd'
    union all
    select chain.oid, type.typbasetype from domain_chain chain join pg_type type on type.oid = chain.base where type.typtype = 'd'
  ),
  base_types as (
    select chain.oid, chain.base from domain_chain chain join pg_type type on type.oid = chain.base where type.typtype <> 'd'
  )`

const userNamespaces = `namespace.nspname !~ '^pg_' and namespace.nspname <> 'information_schema'`

/**
 * Relations with their columns and primary keys. Each column is a list that load.ts reads as ColumnRow: writing the
 * keys for a hundred thousand columns would take half of the time. Partitions are accessible only through their table.
 */
export const relationsQuery = `with ${baseTypes},
  enums as (select enumtypid, json_agg(enumlabel order by enumsortorder) as labels from pg_enum group by enumtypid),
  columns as (
    select attribute.attrelid as relation, json_agg(json_build_array(
        attribute.attname,
        attribute.attnum,
        description.description,
        not (attribute.attnotnull or type.typtype = 'd' and type.typnotnull),
        format_type(coalesce(base.base, attribute.atttypid), null),
        format_type(attribute.atttypid, attribute.atttypmod),
        nullif(greatest(
          case when base.base is null then attribute.atttypmod else type.typtypmod end -
          case when coalesce(base.base, attribute.atttypid) in ('character varying'::regtype, 'character'::regtype) then 4
            when coalesce(base.base, attribute.atttypid) in ('bit'::regtype, 'varbit'::regtype) then 0 end, 0), 0),
        case
          when attribute.attgenerated <> '' then null
          when attribute.attidentity = 'd' then (
            select format('nextval(%L)', dependency.objid::regclass) from pg_depend dependency
            where dependency.classid = 'pg_class'::regclass and dependency.refclassid = 'pg_class'::regclass
              and dependency.refobjid = attribute.attrelid and dependency.refobjsubid = attribute.attnum and dependency.deptype = 'i')
          when expression.adbin is null then type.typdefault
          else pg_get_expr(expression.adbin, expression.adrelid) end,
        attribute.attgenerated <> '' or attribute.attidentity = 'a',
        enums.labels) order by attribute.attnum) as list
    from pg_attribute attribute
      join pg_class relation on relation.oid = attribute.attrelid
      join pg_namespace namespace on namespace.oid = relation.relnamespace
      join pg_type type on type.oid = attribute.atttypid
      left join base_types base on base.oid = attribute.atttypid
      left join pg_attrdef expression on expression.adrelid = attribute.attrelid and expression.adnum = attribute.attnum
      left join pg_description description
        on description.classoid = 'pg_catalog.pg_class'::regclass and description.objoid = attribute.attrelid and description.objsubid = attribute.attnum
      left join enums on enums.enumtypid = coalesce(base.base, attribute.atttypid)
    where attribute.attnum > 0 and not attribute.attisdropped and relation.relkind in ('r', 'p', 'v', 'm', 'f') and ${userNamespaces}
    group by attribute.attrelid
  )
  select relation.oid::bigint::float8 as oid, namespace.nspname as schema, relation.relname as name, description.description,
    relation.relkind in ('v', 'm') as is_view,
    relation.relkind in ('r', 'p') or relation.relkind in ('v', 'f') and pg_relation_is_updatable(relation.oid, true) & 8 = 8 as insertable,
    relation.relkind in ('r', 'p') or relation.relkind in ('v', 'f') and pg_relation_is_updatable(relation.oid, true) & 4 = 4 as updatable,
    relation.relkind in ('r', 'p') or relation.relkind in ('v', 'f') and pg_relation_is_updatable(relation.oid, true) & 16 = 16 as deletable,
    (select json_agg(number order by place) from unnest(key.conkey) with ordinality as part(number, place)) as primary_key,
    coalesce(columns.list, '[]') as columns
  from pg_class relation
    join pg_namespace namespace on namespace.oid = relation.relnamespace
    left join columns on columns.relation = relation.oid
    left join pg_constraint key on key.conrelid = relation.oid and key.contype = 'p'
    left join pg_description description
      on description.classoid = 'pg_catalog.pg_class'::regclass and description.objoid = relation.oid and description.objsubid = 0
  where relation.relkind in ('r', 'p', 'v', 'm', 'f') and not relation.relispartition and ${userNamespaces}
  order by namespace.nspname, relation.relname`

/**
 * Foreign keys. Each has a flag whether its columns are unique on its own side. Omits a partition's copy of its
 * parent's key.
 */
export const foreignKeysQuery = `
  select key.conname as name, key.conrelid::bigint::float8 as source, key.confrelid::bigint::float8 as target,
    to_json(key.conkey) as source_columns, to_json(key.confkey) as target_columns,
    exists (
      select from pg_constraint uniqueness
      where uniqueness.conrelid = key.conrelid and uniqueness.contype in ('p', 'u')
        and uniqueness.conkey <@ key.conkey and uniqueness.conkey @> key.conkey
    ) as is_unique
  from pg_constraint key
  where key.contype = 'f' and key.conparentid = 0
  order by key.conrelid, key.conname`

/** The parse trees of views. They are the only source for the origin of view columns. */
export const viewsQuery = `
  select relation.oid::bigint::float8 as oid, rule.ev_action::text as tree
  from pg_rewrite rule
    join pg_class relation on relation.oid = rule.ev_class
    join pg_namespace namespace on namespace.oid = relation.relnamespace
  where rule.rulename = '_RETURN' and relation.relkind in ('v', 'm') and ${userNamespaces}`

/**
 * Functions of the schemas $1 that a request can call: all parameters are named, or there is one unnamed parameter for
 * the full body. $2: the names of settings to read.
 */
export const routinesQuery = `with ${baseTypes},
  parameters as (
    select routine.oid,
      json_agg(json_build_object(
        'name', coalesce(argument.name, ''),
        'type', format_type(argument.type, null),
        'castType', case when argument.type in ('character'::regtype, 'character[]'::regtype, 'bit'::regtype, 'bit[]'::regtype)
          then format_type(argument.type, -1) else format_type(argument.type, null) end,
        'required', argument.place <= routine.pronargs - routine.pronargdefaults,
        'variadic', coalesce(argument.mode = 'v', false)) order by argument.place) as list,
      bool_and(coalesce(argument.name, '') <> '') or count(*) = 1 and bool_and(argument.type in
        ('bytea'::regtype, 'json'::regtype, 'jsonb'::regtype, 'text'::regtype, 'xml'::regtype)) as callable
    from pg_proc routine
      cross join lateral (
        select all_arguments.type, all_arguments.name, all_arguments.mode, row_number() over (order by all_arguments.position) as place
        from unnest(
          coalesce(routine.proallargtypes, routine.proargtypes::oid[]), routine.proargnames, coalesce(routine.proargmodes::text[], '{}')
        ) with ordinality as all_arguments(type, name, mode, position)
        where all_arguments.type is not null and (all_arguments.mode is null or all_arguments.mode in ('i', 'b', 'v'))
      ) argument
    group by routine.oid
  )
  select namespace.nspname as schema, routine.proname as name, description.description,
    coalesce(parameters.list, '[]') as parameters,
    coalesce(relation_namespace.nspname, type_namespace.nspname) as type_schema,
    coalesce(relation.relname, type.typname) as type_name,
    base.base is not null as is_alias,
    relation.oid is not null or coalesce(routine.proargmodes::text[], '{}') && '{t,b,o}' as is_composite,
    routine.proretset as returns_set,
    routine.prorettype = 'void'::regtype as returns_void,
    case routine.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end as volatility,
    routine.provariadic > 0 as variadic,
    (select lower(substr(setting, strpos(setting, '=') + 1)) from unnest(routine.proconfig) setting where setting like 'default_transaction_isolation=%') as isolation_level,
    (select json_agg(json_build_array(split_part(setting, '=', 1), substr(setting, strpos(setting, '=') + 1)))
      from unnest(routine.proconfig) setting where split_part(setting, '=', 1) = any($2) and setting not like 'default_transaction_isolation=%') as settings
  from pg_proc routine
    join pg_namespace namespace on namespace.oid = routine.pronamespace
    join pg_type type on type.oid = routine.prorettype
    join pg_namespace type_namespace on type_namespace.oid = type.typnamespace
    left join base_types base on base.oid = type.oid
    left join pg_type base_type on base_type.oid = coalesce(base.base, type.oid)
    left join pg_class relation on relation.oid = base_type.typrelid
    left join pg_namespace relation_namespace on relation_namespace.oid = relation.relnamespace
    left join parameters on parameters.oid = routine.oid
    left join pg_description description on description.classoid = 'pg_catalog.pg_proc'::regclass and description.objoid = routine.oid
  where routine.prokind = 'f' and namespace.nspname = any($1) and routine.prorettype <> 'trigger'::regtype
    and coalesce(parameters.callable, true)
  order by namespace.nspname, routine.proname, routine.pronargs, routine.oid`

/** Functions from one row of a relation to rows of a relation. Requests can use them like foreign keys. */
export const computedRelationshipsQuery = `
  select namespace.nspname as schema, routine.proname as name,
    source.oid::bigint::float8 as source, target.oid::bigint::float8 as target,
    not routine.proretset or routine.prorows = 1 as to_one
  from pg_proc routine
    join pg_namespace namespace on namespace.oid = routine.pronamespace
    join pg_class source on source.reltype = routine.proargtypes[0] and source.relkind in ('r', 'p', 'v', 'm', 'f')
    join pg_class target on target.reltype = routine.prorettype and target.relkind in ('r', 'p', 'v', 'm', 'f')
  where routine.pronargs = 1 and ${userNamespaces}`

/** Functions from one row of a relation of the schemas $1, in the same schema: its computed columns. */
export const computedColumnsQuery = `
  select namespace.nspname as schema, relation.relname as name, routine.proname as column
  from pg_proc routine
    join pg_namespace namespace on namespace.oid = routine.pronamespace
    join pg_class relation on relation.reltype = routine.proargtypes[0] and relation.relnamespace = namespace.oid
      and relation.relkind in ('r', 'p', 'v', 'm', 'f')
  where routine.pronargs = 1 and routine.prokind = 'f' and not routine.proretset and namespace.nspname = any($1)`

/** Implicit casts between a domain and json or text. */
export const representationsQuery = `
  select format_type(conversion.castsource, null) as source, format_type(conversion.casttarget, null) as target,
    namespace.nspname as schema, routine.proname as name
  from pg_cast conversion
    join pg_type source on source.oid = conversion.castsource
    join pg_type target on target.oid = conversion.casttarget
    join pg_proc routine on routine.oid = conversion.castfunc
    join pg_namespace namespace on namespace.oid = routine.pronamespace
  where conversion.castcontext = 'i' and conversion.castmethod = 'f' and has_function_privilege(routine.oid, 'execute')
    and (source.typtype = 'd' and conversion.casttarget in ('json'::regtype, 'text'::regtype)
      or target.typtype = 'd' and conversion.castsource in ('json'::regtype, 'text'::regtype))`

/** Functions and aggregates of the schemas $1 whose result is a domain with the name of a media type. */
export const mediaHandlersQuery = `with
  media_types as (
    select type.oid, type.typname, namespace.nspname
    from pg_type type join pg_namespace namespace on namespace.oid = type.typnamespace
    where type.typtype = 'd' and (type.typname ~* '^[a-z0-9.-]+/[a-z0-9.+-]+$' or type.typname = '*/*')
  )
  select namespace.nspname as schema, routine.proname as name, routine.prokind = 'a' as is_aggregate,
    subject_namespace.nspname as subject_schema, subject.relname as subject_name,
    lower(media_type.typname) as media_type, media_type.nspname as type_schema, media_type.typname as type_name
  from pg_proc routine
    join pg_namespace namespace on namespace.oid = routine.pronamespace
    join media_types media_type on media_type.oid = routine.prorettype
    left join pg_class subject on routine.prokind = 'a' and subject.reltype = routine.proargtypes[0] and subject.relkind in ('r', 'p', 'v', 'm', 'f')
    left join pg_namespace subject_namespace on subject_namespace.oid = subject.relnamespace
  where namespace.nspname = any($1) and (
    routine.prokind = 'a' and routine.pronargs = 1 and (subject.oid is not null or routine.proargtypes[0] = 'anyelement'::regtype)
    or routine.prokind = 'f' and not routine.proretset)`

export const timeZonesQuery = 'select name from pg_timezone_names'

export const schemasQuery = `
  select namespace.nspname as name, description.description
  from pg_namespace namespace
    left join pg_description description on description.classoid = 'pg_catalog.pg_namespace'::regclass and description.objoid = namespace.oid
  where namespace.nspname = any($1)`
