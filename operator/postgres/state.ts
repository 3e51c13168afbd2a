/**
 * The state that the operator reads from a Postgres, in one query. It reads only shared catalogs, so the result is the
 * same in every database of the server.
 */
import { escapeLiteral } from 'pg'
import { applicationDatabase, type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'
import {
  authenticatorRole,
  maintenanceDatabase,
  mcpStateDatabase,
  mcpStateRole,
  monitorRole,
  readerRole,
  replicationRole,
  statisticsLibrary,
} from './configuration.ts'
import type { Connection } from './connection.ts'
import { type CopyState, copyState } from './copy.ts'
import { PostgresError } from './errors.ts'

/** The columns of pg_authid that the operator manages. */
export type RoleState = {
  oid: string
  superuser: boolean
  inherit: boolean
  createRole: boolean
  createDatabase: boolean
  login: boolean
  replication: boolean
  bypassRls: boolean
  connectionLimit: number
  expires: boolean
  /** The stored password, in any format. Null if there is none. */
  verifier: string | null
  comment: string | null
}

/** The role and the database in which the service `mcp` stores its conversations (mcp-state.ts). */
export type McpStateFacts = {
  role: (RoleState & { hasMembers: boolean }) | null
  database: {
    /** Whether the bootstrap superuser owns the database. Users cannot make it the owner of a database. */
    isPlatforms: boolean
    /** Whether the connection limit is still as at creation. It keeps an incomplete database closed. */
    isLimited: boolean
    comment: string | null
    /** Whether every role may connect. */
    isOpen: boolean
    /** Whether `mcp_state` may connect. */
    enters: boolean
  } | null
}

/** pg_auth_members: `member` belongs to `role`. */
type Membership = { role: string; member: string; admin: boolean; inherit: boolean; set: boolean }

/**
 * Reasons why `app` cannot connect to the application database, whatever its password. The database's owner can cause
 * each of them, and then no user can undo it.
 */
export type DatabaseLock = 'no connections allowed' | 'connection limit of 0' | 'privilege revoked'

/** `databases`: the names of some affected databases. The shared catalogs count as one, `shared catalogs`. */
export type ChecksumFailures = { count: number; databases: string[]; lastAt: string | null }

export type ServerState = {
  /** As server_version_num: 170010 for 17.10. */
  version: number
  systemIdentifier: string
  inRecovery: boolean
  checksums: boolean
  /** Where the service `mcp` stores its conversations. */
  mcpState: McpStateFacts
  roles: Partial<
    Record<
      DatabaseRole | typeof replicationRole | typeof monitorRole | typeof readerRole | typeof authenticatorRole,
      RoleState
    >
  >
  /** Memberships of the operator's roles in each other and in predefined roles. Not in users' roles. */
  memberships: Membership[]
  /** The application database. */
  database: { oid: string; owner: string; lockedBy: DatabaseLock[] } | null
  /** The WAL write position. Does not change while nothing is written. Null in recovery. */
  walPosition: string | null
  /** Pages with a wrong checksum that Postgres has found since its statistics began. Null if there are none. */
  checksumFailures: ChecksumFailures | null
  /** Whether the database that initdb creates still exists under its own name. */
  hasInitialDatabase: boolean
  /** The platform's databases to which every role may connect. */
  openDatabases: string[]
  dataDirectory: string
  configuration: ConfigurationState
  copy: CopyState
  /** The name of the session in which an import reports its progress (instance/import). */
  importing: string | null
  /** Whether the server collects statement statistics, so that they can be read. */
  gathersStatistics: boolean
  /** Some members of the platform's roles. There must be none. */
  platformMembers: { role: string; member: string }[]
  /** Whether the monitoring role may connect to the platform's database. */
  monitorEnters: boolean
}

/** Which of the operator's files are applied, according to the server. */
export type ConfigurationState = {
  /** The digest in the files that the server read last. Null for files from before digests existed. */
  inForce: string | null
  /** The digest in the current files. */
  onDisk: string | null
  /** True if the server reads the files from the mount. Otherwise it reads copies, made when the pod started. */
  isMounted: boolean
  /** Why `espalier instance prepare` started it with older files. */
  refused: string | null
  /** Some errors in the current files. */
  errors: string[]
  /** Changed settings that require a restart. */
  pendingRestart: string[]
}

/** FirstNormalObjectId: objects with a lower oid were created by initdb (PostgreSQL source, access/transam.h). */
const firstUserObject = 16_384
export const initialDatabase = 'postgres'

/** How many bytes a server must be able to write. Otherwise its volume counts as full. */
const leastFreeBytes = 64 * 1024

/**
 * Writes a small file beside the data directory, and truncates it again, so that the file itself never uses the space.
 * A Postgres with a full disk still answers reads, and reports nothing. This writes no row, no WAL, and no part of a
 * base backup.
 */
export function freeSpaceStatements(dataDirectory: string): string[] {
  const file = escapeLiteral(`${dataDirectory}/../espalier-room`)
  return [`COPY (SELECT repeat('x', ${leastFreeBytes})) TO ${file}`, `COPY (SELECT WHERE false) TO ${file}`]
}

/** The maximum number of database names in a report of checksum failures. */
const namedDatabases = 5

/**
 * A commit that returns only when its WAL record is on the disk. Skipped if the pod checks this itself: an idle
 * database then writes no WAL, and needs neither checkpoints nor archiving.
 */
export const committedWrite = "SELECT pg_logical_emit_message(true, 'espalier', '')"

/**
 * The position where a server would now start recovery, and the WAL position on the disk. Queried right after a
 * checkpoint.
 */
export type RestorePoint = { systemIdentifier: string; timeline: number; startLsn: string; endLsn: string }

export const restorePointQuery = `
SELECT (SELECT system_identifier::text FROM pg_control_system()) AS "systemIdentifier", timeline_id AS timeline,
  redo_lsn::text AS "startLsn", pg_current_wal_flush_lsn()::text AS "endLsn" FROM pg_control_checkpoint()`

/** Its duration depends on the number of files. So it is a separate query, run rarely, with a long timeout. */
export const sizeQuery = {
  text: 'SELECT pg_database_size(oid)::float8 AS bytes FROM pg_database WHERE datname = $1',
  values: [applicationDatabase],
}

/** The part of the volume's use that Postgres can report. The file system itself uses more. */
export const volumeUseQuery = {
  text: `SELECT ((SELECT coalesce(sum(pg_database_size(oid)), 0) FROM pg_database)
    + (SELECT coalesce(sum(size), 0) FROM pg_ls_waldir())
    + (SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir())
    + pg_tablespace_size('pg_global'))::float8 AS bytes`,
}

/** The maximum number of reported configuration errors, and of reported members that a role must not have. */
const fewErrors = 5
const fewMembers = 100

/**
 * Two kinds of entries are not errors: a setting that requires a restart, and a setting that the command line
 * overrides. Each of the three views reads its file again.
 */
const configurationState = `json_build_object(
  'inForce', current_setting('espalier.configuration', true),
  'refused', nullif(current_setting('espalier.refused', true), ''),
  'isMounted', NOT starts_with(current_setting('hba_file'), current_setting('data_directory') || '/')
    AND nullif(current_setting('espalier.refused', true), '') IS NULL,
  'onDisk', (SELECT setting FROM pg_file_settings WHERE name = 'espalier.configuration' ORDER BY seqno DESC LIMIT 1),
  'errors', (SELECT coalesce(json_agg(message), '[]') FROM (
    SELECT concat_ws(': ', f.name, f.error) AS message FROM pg_file_settings f LEFT JOIN pg_settings s ON s.name = lower(f.name)
    WHERE f.error IS NOT NULL AND NOT (s.context IS NOT DISTINCT FROM 'postmaster' AND f.error = 'setting could not be applied')
    UNION ALL SELECT 'pg_hba.conf: ' || error FROM pg_hba_file_rules WHERE error IS NOT NULL
    UNION ALL SELECT 'pg_ident.conf: ' || error FROM pg_ident_file_mappings WHERE error IS NOT NULL
    LIMIT ${fewErrors}) AS wrong),
  'pendingRestart', (SELECT coalesce(json_agg(name ORDER BY name), '[]') FROM pg_settings
    WHERE pending_restart AND source <> 'command line'))`

/** The columns of a role: a RoleState. `r`: a row of pg_authid. */
const roleColumns = `'oid', r.oid::text, 'superuser', r.rolsuper, 'inherit', r.rolinherit, 'createRole', r.rolcreaterole,
      'createDatabase', r.rolcreatedb, 'login', r.rolcanlogin, 'replication', r.rolreplication,
      'bypassRls', r.rolbypassrls, 'connectionLimit', r.rolconnlimit,
      'expires', r.rolvaliduntil IS NOT NULL AND r.rolvaliduntil <> 'infinity', 'verifier', r.rolpassword,
      'comment', shobj_description(r.oid, 'pg_authid')`

/** A part of the state query, as a JSON value. The superuser with oid 10 is initdb's. */
const mcpStateFacts = `json_build_object(
  'role', (SELECT json_build_object(${roleColumns},
      'hasMembers', EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = r.oid))
    FROM pg_authid r WHERE r.rolname = '${mcpStateRole}'),
  'database', (SELECT json_build_object('isPlatforms', d.datdba = 10, 'isLimited', d.datconnlimit = 0,
      'comment', shobj_description(d.oid, 'pg_database'),
      'isOpen', has_database_privilege('public', d.oid, 'CONNECT') OR has_database_privilege('public', d.oid, 'TEMPORARY'),
      'enters', coalesce((SELECT has_database_privilege(a.oid, d.oid, 'CONNECT')
        FROM pg_authid a WHERE a.rolname = '${mcpStateRole}'), false))
    FROM pg_database d WHERE d.datname = '${mcpStateDatabase}'))`

/**
 * One row with one column, `state`: a ServerState. Its length must not depend on users' objects. `admin` can create
 * millions of roles, become a member of each, and make each of them grant roles.
 */
export const stateQuery = {
  text: `
SELECT json_build_object(
  'version', current_setting('server_version_num')::int,
  'systemIdentifier', (SELECT system_identifier::text FROM pg_control_system()),
  'inRecovery', pg_is_in_recovery(),
  'checksums', current_setting('data_checksums') = 'on',
  'dataDirectory', current_setting('data_directory'),
  'configuration', ${configurationState},
  'copy', ${copyState},
  'importing', (SELECT application_name FROM pg_stat_activity WHERE usename = 'app' AND datname = '${applicationDatabase}'
    AND application_name ~ '^import [a-z]+ [0-9]' LIMIT 1),
  'gathersStatistics', '${statisticsLibrary}' = ANY (regexp_split_to_array(current_setting('shared_preload_libraries'), '\\s*,\\s*')),
  'platformMembers', (SELECT coalesce(json_agg(granted), '[]') FROM (SELECT DISTINCT r.rolname AS role, m.rolname AS member
    FROM pg_auth_members a JOIN pg_authid r ON r.oid = a.roleid JOIN pg_authid m ON m.oid = a.member
    WHERE r.rolname IN ('${replicationRole}', '${monitorRole}') LIMIT ${fewMembers}) AS granted),
  'monitorEnters', coalesce((SELECT has_database_privilege(oid, '${maintenanceDatabase}', 'CONNECT')
    FROM pg_authid WHERE rolname = '${monitorRole}'), false),
  'mcpState', ${mcpStateFacts},
  'roles', (SELECT coalesce(json_object_agg(r.rolname, json_build_object(${roleColumns})), '{}')
    FROM pg_authid r WHERE r.rolname = ANY ($1)),
  'memberships', (SELECT coalesce(json_agg(json_build_object(
      'role', role, 'member', member, 'admin', admin_option, 'inherit', inherit_option, 'set', set_option)), '[]')
    FROM (SELECT DISTINCT r.rolname AS role, m.rolname AS member, admin_option, inherit_option, set_option
      FROM pg_auth_members a JOIN pg_authid r ON r.oid = a.roleid JOIN pg_authid m ON m.oid = a.member
      WHERE m.rolname = ANY ($1) AND (r.rolname = ANY ($1) OR r.oid < ${firstUserObject})) AS granted),
  'database', (SELECT json_build_object(
      'oid', oid::text, 'owner', pg_get_userbyid(datdba), 'lockedBy', array_remove(ARRAY[
        CASE WHEN NOT datallowconn THEN 'no connections allowed' END,
        CASE WHEN datconnlimit = 0 THEN 'connection limit of 0' END,
        CASE WHEN NOT coalesce((SELECT has_database_privilege(a.oid, d.oid, 'CONNECT')
          FROM pg_authid a WHERE a.rolname = 'app'), true) THEN 'privilege revoked' END], NULL))
    FROM pg_database d WHERE datname = $2),
  'walPosition', CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn()::text END,
  'checksumFailures', (SELECT json_build_object('count', sum(failures), 'lastAt', max(last_at),
      'databases', coalesce(json_agg(name) FILTER (WHERE place <= ${namedDatabases}), '[]'))
    FROM (SELECT coalesce(datname, 'shared catalogs') AS name, checksum_failures AS failures,
        checksum_last_failure AS last_at, row_number() OVER (ORDER BY checksum_failures DESC, datid) AS place
      FROM pg_stat_database WHERE checksum_failures > 0) AS failing HAVING count(*) > 0),
  'hasInitialDatabase', EXISTS (SELECT FROM pg_database WHERE datname = $3),
  'openDatabases', (SELECT coalesce(json_agg(datname), '[]')
    FROM pg_database WHERE datname IN ($3, $4) AND has_database_privilege('public', oid, 'CONNECT, TEMPORARY'))
) AS state`,
  values: [
    [...databaseRoles, replicationRole, monitorRole, readerRole, authenticatorRole],
    applicationDatabase,
    initialDatabase,
    maintenanceDatabase,
  ],
}

/** @throws PostgresError */
export async function readState(connection: Connection): Promise<ServerState> {
  const [row] = await connection.rows<{ state: ServerState }>(stateQuery)
  if (row === undefined) throw new PostgresError('statement', 'the server returned no row')
  return row.state
}
