/**
 * An import's queries of the two servers, and the refusals that follow from the results. Pure except for the
 * statements.
 */
import type { ImportConfiguration } from './contract.ts'
import { ImportError } from './fault.ts'
import { howToInstall, type Programs } from './programs.ts'

const oldestSource = 10

export type Table = { schema: string; name: string; bytes: number }
type Extension = { name: string; version: string }
export type SourceFacts = {
  version: number
  versionName: string
  encoding: string
  bytes: number
  /** Ordinary tables, including partitions, except tables of an extension. */
  tables: Table[]
  extensions: Extension[]
  eventTriggers: string[]
  /** Tables in a schema named like Espalier's that do not belong to an extension. */
  reserved: number
}

/** The schema that every Espalier database has. */
export const ownSchema = 'espalier'

export const userTables = `FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')`

export const sourceQuery = `SELECT jsonb_build_object(
  'version', current_setting('server_version_num')::int / 10000,
  'versionName', split_part(current_setting('server_version'), ' ', 1),
  'encoding', (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
  'bytes', (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint ${userTables}),
  'tables', (SELECT coalesce(jsonb_agg(jsonb_build_object('schema', n.nspname, 'name', c.relname, 'bytes', pg_table_size(c.oid))
    ORDER BY n.nspname, c.relname), '[]') ${userTables} AND n.nspname <> '${ownSchema}'),
  'extensions', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', extname, 'version', extversion) ORDER BY extname), '[]')
    FROM pg_extension WHERE extnamespace IS DISTINCT FROM (SELECT oid FROM pg_namespace WHERE nspname = '${ownSchema}')),
  'eventTriggers', (SELECT coalesce(jsonb_agg(evtname ORDER BY evtname), '[]') FROM pg_event_trigger e
    WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_event_trigger'::regclass AND d.objid = e.oid AND d.deptype = 'e')),
  'reserved', (SELECT count(*) ${userTables} AND n.nspname = '${ownSchema}'))`

export type TargetFacts = {
  /** Extensions that exist already. */
  present: string[]
  /** Extensions that are available on the server. `trusted`: the application's role may create it. */
  available: { name: string; trusted: boolean }[]
  encoding: string
}

export const targetQuery = `SELECT jsonb_build_object(
  'present', (SELECT coalesce(jsonb_agg(extname), '[]') FROM pg_extension),
  'available', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.name, 'trusted', coalesce(v.trusted OR NOT v.superuser, false))), '[]')
    FROM pg_available_extensions a LEFT JOIN pg_available_extension_versions v ON v.name = a.name AND v.version = a.default_version),
  'encoding', (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()))`

/** The share of the volume for tables and indexes of the source; the rest is for WAL and Postgres itself. */
const share = 0.9

const gib = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(bytes < 10 * 1024 ** 3 ? 2 : 0)} GiB`

/** @throws ImportError if the database cannot be imported */
export function refuse(
  source: SourceFacts,
  target: TargetFacts,
  { major, capacityBytes }: Pick<ImportConfiguration, 'major' | 'capacityBytes'>,
  programs: Programs,
): void {
  const { version, versionName } = source
  if (version > major)
    throw new ImportError(
      'SourceVersion',
      `the source is Postgres ${versionName}, and the database is ${major}: create one with pg_version ${version} or newer`,
    )
  if (version < oldestSource)
    throw new ImportError(
      'SourceVersion',
      `the source is Postgres ${versionName}: the oldest supported version is ${oldestSource}`,
    )
  if (version > programs.major)
    throw new ImportError(
      'ProgramsMissing',
      `the source is Postgres ${versionName}, and pg_dump in ${programs.directory} is ${programs.major}: ${howToInstall(version)}`,
    )
  if (source.encoding === 'SQL_ASCII' && target.encoding !== 'SQL_ASCII')
    throw new ImportError(
      'SourceRefused',
      'the source has the encoding SQL_ASCII, whose text may not be valid UTF-8: dump and convert it by hand',
    )
  if (source.reserved > 0)
    throw new ImportError(
      'SchemaReserved',
      `the source has tables in the schema "${ownSchema}", which Espalier reserves: rename it first`,
    )
  refuseExtensions(source, target)
  if (source.bytes > capacityBytes * share)
    throw new ImportError(
      'NotEnoughStorage',
      `the tables and indexes of the source take ${gib(source.bytes)}, and the database has ${gib(capacityBytes)} of storage, a tenth of which Postgres needs for itself: choose a larger size`,
    )
}

function refuseExtensions({ extensions }: SourceFacts, { present, available }: TargetFacts): void {
  for (const { name } of extensions) {
    if (present.includes(name)) continue
    const found = available.find(extension => extension.name === name)
    if (found === undefined)
      throw new ImportError(
        'ExtensionMissing',
        `the source has the extension "${name}", which this Postgres does not have: docs/kubernetes.md lists what its images have, and how an installation adds others; or drop it on the source`,
      )
    if (!found.trusted)
      throw new ImportError(
        'ExtensionMissing',
        `the source has the extension "${name}", which only a superuser may create: drop it on the source, or restore by hand without it`,
      )
  }
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
export const tableName = ({ schema, name }: Pick<Table, 'schema' | 'name'>): string =>
  `${quoted(schema)}.${quoted(name)}`
/** Of an inherited table, counts only its own rows. */
export const countQuery = (table: Table): string => `SELECT count(*) FROM ONLY ${tableName(table)}`

/**
 * Removes leftovers of an earlier attempt: all objects that the application's role owns in the database. The endpoint
 * is closed until an import has ended, so an import created all of these objects. Default privileges stay. A column's
 * sequence is dropped with its table.
 */
export const resetStatement = `DO $reset$
DECLARE item record;
BEGIN
  PERFORM lo_unlink(oid) FROM pg_largeobject_metadata WHERE lomowner = (SELECT oid FROM pg_roles WHERE rolname = current_user);
  LOOP
    SELECT i.type, i.identity INTO item
      FROM pg_shdepend s, LATERAL pg_identify_object(s.classid, s.objid, s.objsubid) i
      WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND s.deptype = 'o'
        AND s.refclassid = 'pg_authid'::regclass AND s.refobjid = (SELECT oid FROM pg_roles WHERE rolname = current_user)
        AND i.type <> 'default acl' AND i.identity IS NOT NULL
      ORDER BY CASE i.type WHEN 'extension' THEN 0 WHEN 'schema' THEN 1 WHEN 'sequence' THEN 3 ELSE 2 END LIMIT 1;
    EXIT WHEN NOT FOUND;
    EXECUTE format('DROP %s %s CASCADE', CASE item.type WHEN 'statistics object' THEN 'statistics' ELSE item.type END, item.identity);
  END LOOP;
END $reset$`

/** Whether one of the import's sessions is active in the server, and waits neither for a lock nor for the client. */
export const activityQuery = `SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND datname = current_database()
  AND pid <> pg_backend_pid() AND state = 'active' AND coalesce(wait_event_type, '') NOT IN ('Lock', 'Client')`
