/**
 * Catalogue data that decides which statements may run. The server reads it at first use and caches it. The first read
 * also logs a warning if the database's login has more privileges than any query needs.
 */
import { LRUCache } from 'lru-cache'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { CatalogueFacts, ViewFacts, VolatileFunction } from '../statement/facts.ts'
import { secretNames } from '../statement/settings.ts'
import type { DatabaseAccess, Rows } from './access.ts'
import { secretFactsOf, secretsSql } from './secrets.ts'

/** Names beyond this number are not refused. READ ONLY still limits these functions. */
const maximumRows = 50_000

/** The minimum time between two reads. */
const leastAgeMs = 2_000

const membership = `(SELECT e.extname FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
  WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e' LIMIT 1)`

/** Volatile functions, and aggregates with a volatile part. */
const volatileSql = `p.provolatile = 'v' AND p.prokind <> 'a' OR p.prokind = 'a' AND EXISTS (
    SELECT FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc part ON part.oid IN (a.aggtransfn, a.aggfinalfn, a.aggcombinefn,
      a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn) WHERE a.aggfnoid = p.oid AND part.provolatile = 'v')`

const namesSql = 'SELECT DISTINCT proname FROM pg_catalog.pg_proc'

/** Omits functions whose arguments or results only Postgres can create, because no statement can call them. */
const functionsSql = `SELECT n.nspname, p.proname, p.pronargs - p.pronargdefaults,
    CASE WHEN p.provariadic = 0 THEN p.pronargs ELSE 1000 END, ${membership},
    COALESCE((SELECT t.typtype IN ('c', 'd', 'p') FROM pg_catalog.pg_type t WHERE t.oid = p.proargtypes[0]), false)
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  WHERE (${volatileSql}) AND p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
    AND NOT 'pg_catalog.internal'::pg_catalog.regtype = ANY (p.proargtypes)
  LIMIT ${maximumRows}`

const operatorsSql = `SELECT DISTINCT o.oprname, n.nspname, n.nspname = 'pg_catalog'
  FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
  LEFT JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
  WHERE n.nspname = 'pg_catalog' OR p.provolatile = 'v' LIMIT ${maximumRows}`

const castsSql = `SELECT DISTINCT t.typname, n.nspname FROM pg_catalog.pg_cast c JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc
  JOIN pg_catalog.pg_type t ON t.oid = c.casttarget JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace
  WHERE p.provolatile = 'v' AND pn.nspname <> 'pg_catalog' LIMIT ${maximumRows}`

/**
 * A view's rule names called functions and read relations by OID. pg_depend does not list functions of Postgres itself.
 * A view calls all functions of the views that it reads.
 */
const viewsSql = `WITH RECURSIVE rule AS MATERIALIZED (
    SELECT c.oid, n.nspname, c.relname, r.ev_action::text AS action
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'v' AND r.ev_type = '1' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    LIMIT ${maximumRows}),
  called AS (SELECT DISTINCT rule.oid, m[1]::oid AS function
    FROM rule, regexp_matches(rule.action, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\\d+)', 'g') AS m),
  suspect AS (SELECT called.oid, p.oid AS function FROM called JOIN pg_catalog.pg_proc p ON p.oid = called.function
    WHERE ${volatileSql} OR p.proname ~ '^(dblink|crosstab|connectby|xpath_table|lo_|(table|schema|database)_to_xml)'),
  reads AS (SELECT DISTINCT rule.oid, m[1]::oid AS relation FROM rule, regexp_matches(rule.action, ':relid (\\d+)', 'g') AS m),
  reached AS (SELECT oid, function FROM suspect UNION SELECT reads.oid, reached.function FROM reads JOIN reached ON reached.oid = reads.relation)
  SELECT rule.relname, rule.nspname, n.nspname, p.proname, ${membership}
  FROM reached JOIN rule ON rule.oid = reached.oid JOIN pg_catalog.pg_proc p ON p.oid = reached.function
  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace LIMIT ${maximumRows}`

const sessionSql = `SELECT pg_catalog.array_to_json(pg_catalog.current_schemas(true)), rolsuper,
    EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE pg_catalog.pg_has_role(r.oid, 'MEMBER')
      AND (r.rolsuper OR r.rolcreaterole OR r.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')))
  FROM pg_catalog.pg_roles WHERE rolname = current_user`

const settingsSql = `SELECT pg_catalog.lower(name), vartype = 'string', setting <> '' FROM pg_catalog.pg_settings WHERE name ~* '${secretNames}' LIMIT ${maximumRows}`

export type Catalogue = {
  /**
   * Reads again if one of these functions is unknown, because the function may be new.
   * @throws the errors of `DatabaseAccess.read`
   */
  facts(database: DatabaseSettings, context: CallContext, functions: readonly string[]): Promise<CatalogueFacts>
  /** Discards the cached facts. Must follow every statement that may have created functions or views. */
  forget(database: DatabaseSettings): void
}

type Known = { readonly facts: CatalogueFacts; readonly readAt: number }
type Cells = Rows['rows'][number]

/** Groups rows by a name, and converts each row with `of`. */
function grouped<T>(rows: readonly Cells[], nameAt: number, of: (cells: Cells) => T): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const cells of rows) {
    const name = cells[nameAt] ?? ''
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [of(cells)])
    else group.push(of(cells))
  }
  return groups
}

const functionOf = ([schema, name, fewest, most, extension, takesRow]: Cells): VolatileFunction => ({
  schema: schema ?? '',
  name: name ?? '',
  fewest: Number(fewest),
  most: Number(most),
  extension: extension ?? null,
  takesRow: takesRow === 't',
})

const viewOf = ([, schema, functionSchema, name, extension]: Cells): ViewFacts => ({
  schema: schema ?? '',
  functions: [{ schema: functionSchema ?? '', name: name ?? '', extension: extension ?? null }],
})

// current_schemas returns an array of names
const searchPathOf = (text: string | null | undefined): readonly string[] => JSON.parse(text ?? '[]') as string[]

function factsOf(
  [session, names, functions, operators, casts, views, settings, ...hidden]: readonly Rows[],
  { showSecrets }: DatabaseSettings,
): CatalogueFacts {
  const all = operators?.rows ?? []
  const secrets = settings?.rows ?? []
  const hasHiddenSettings = !showSecrets && secrets.some(([, isText, hasValue]) => isText === 't' && hasValue === 't')
  return {
    ...secretFactsOf(hidden, showSecrets, hasHiddenSettings),
    isPowerful: session?.rows[0]?.[2] === 't',
    searchPath: searchPathOf(session?.rows[0]?.[0]),
    functions: new Set((names?.rows ?? []).map(([name]) => name ?? '')),
    volatile: grouped(functions?.rows ?? [], 1, functionOf),
    operators: grouped(
      all.filter(([, , isOwn]) => isOwn !== 't'),
      0,
      ([, schema]) => schema ?? '',
    ),
    ownOperators: new Set(all.flatMap(([name, , isOwn]) => (isOwn === 't' && name ? [name] : []))),
    casts: grouped(casts?.rows ?? [], 0, ([, schema]) => schema ?? ''),
    views: grouped(views?.rows ?? [], 0, viewOf),
    readableSettings: new Set(secrets.flatMap(([name, isText]) => (isText !== 't' && name ? [name] : []))),
    hasHiddenSettings,
  }
}

export function createCatalogue(
  access: DatabaseAccess,
  warn: (facts: object, message: string) => void,
  now: () => number = Date.now,
): Catalogue {
  const known = new LRUCache<string, Known>({ max: 1_000 })
  const warned = new Set<string>()
  /** Running reads, which concurrent callers share. */
  const reading = new Map<string, Promise<CatalogueFacts>>()

  async function read(database: DatabaseSettings, context: CallContext): Promise<CatalogueFacts> {
    const texts = [sessionSql, namesSql, functionsSql, operatorsSql, castsSql, viewsSql, settingsSql, ...secretsSql]
    const results = await access.read(
      database,
      texts.map(text => ({ text })),
      context,
      'catalogue',
      true,
    )
    const [, , isPowerful] = results[0]?.rows[0] ?? []
    if (isPowerful === 't' && !warned.has(database.name)) {
      warned.add(database.name)
      warn(
        { database: database.name, user: database.user },
        'the login of this database is a superuser, or it may create roles, run programs, or read or write files of the server: give the tool server a role with only the grants that it needs. Writes are refused unless allow_privileged_login is set',
      )
    }
    return factsOf(results, database)
  }

  const keys = new WeakMap<DatabaseSettings, string>()
  function keyOf(settings: DatabaseSettings): string {
    const { name, host, port, database, user, showSecrets } = settings
    const key = keys.get(settings) ?? JSON.stringify([name, host, port, database, user, showSecrets])
    keys.set(settings, key)
    return key
  }

  return {
    facts: async (database, context, functions) => {
      const key = keyOf(database)
      const cached = known.get(key)
      if (cached !== undefined) {
        // An unknown name must not cause a catalogue read in every call.
        const isFresh = now() - cached.readAt < leastAgeMs
        if (isFresh || functions.every(name => cached.facts.functions.has(name))) return cached.facts
      }
      // If the caller that reads aborts, the next caller reads.
      for (let other = reading.get(key); other !== undefined; other = reading.get(key)) {
        const facts = await other.catch(() => undefined)
        if (facts !== undefined) return facts
      }
      const own = read(database, context)
      reading.set(key, own)
      try {
        const facts = await own
        known.set(key, { facts, readAt: now() }, { ttl: Math.max(1, database.metadataMs) })
        return facts
      } finally {
        if (reading.get(key) === own) reading.delete(key)
      }
    },
    forget: database => void known.delete(keyOf(database)),
  }
}
