/**
 * What the operator reads of a Postgres, in one query. It looks at shared catalogs only, so it reads the same from every
 * database of the server.
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

/** pg_authid, as far as we look after it. */
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
  /** The stored password, in whatever form; null for none. */
  verifier: string | null
  comment: string | null
}

/** The role and the database in which the service `mcp` keeps its conversations (mcp-state.ts). */
export type McpStateFacts = {
  role: (RoleState & { hasMembers: boolean }) | null
  database: {
    /** Whether the bootstrap superuser owns it: users cannot give a database to it. */
    isPlatforms: boolean
    /** As it is created, so that one that is not finished is not open. */
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

/** What keeps `app` out of the application database, whatever password it shows. Its owner can set each, and nobody undo it. */
export type DatabaseLock = 'no connections allowed' | 'connection limit of 0' | 'privilege revoked'

/** `databases`: some of those concerned, by name; catalogs that all share are told as one of them, `shared catalogs`. */
export type ChecksumFailures = { count: number; databases: string[]; lastAt: string | null }

export type ServerState = {
  /** As server_version_num: 170010 for 17.10. */
  version: number
  systemIdentifier: string
  inRecovery: boolean
  checksums: boolean
  /** Where the service `mcp` keeps its conversations. */
  mcpState: McpStateFacts
  roles: Partial<
    Record<
      DatabaseRole | typeof replicationRole | typeof monitorRole | typeof readerRole | typeof authenticatorRole,
      RoleState
    >
  >
  /** Of our roles, in each other and in those that Postgres makes by itself; not in those that users make. */
  memberships: Membership[]
  /** The application database. */
  database: { oid: string; owner: string; lockedBy: DatabaseLock[] } | null
  /** How far WAL is written: where it stands still, nothing was changed. Null in recovery. */
  walPosition: string | null
  /** What Postgres has found, since its statistics began, that does not match its checksum; null where nothing. */
  checksumFailures: ChecksumFailures | null
  /** Whether the database that initdb makes for everyone is still there, under its own name. */
  hasInitialDatabase: boolean
  /** The platform's databases that everyone may connect to. */
  openDatabases: string[]
  dataDirectory: string
  configuration: ConfigurationState
  copy: CopyState
  /** Whether the server gathers statistics of statements, so that they can be read. */
  gathersStatistics: boolean
  /** Who belongs to a role of the platform's, some of them: nobody may. */
  platformMembers: { role: string; member: string }[]
  /** Whether the role that monitors may enter the platform's database. */
  monitorEnters: boolean
}

/** What of the operator's files is in force, by the server's own word. */
export type ConfigurationState = {
  /** The digest in the files that were read last; null for files from before there was one. */
  inForce: string | null
  /** The digest in the files as they stand now. */
  onDisk: string | null
  /** The files are read where they are mounted; else copies are, made as the pod started. */
  isMounted: boolean
  /** Why `espalier instance prepare` had it start with older files. */
  refused: string | null
  /** What it cannot take of the files as they stand now, some of it. */
  errors: string[]
  /** Settings that were changed and take a restart. */
  pendingRestart: string[]
}

/** FirstNormalObjectId: what has a lower number was made by initdb (PostgreSQL source, access/transam.h). */
const firstUserObject = 16_384
export const initialDatabase = 'postgres'

/** What a server must be able to write for its volume not to count as full, in bytes. */
const leastRoomBytes = 64 * 1024

/**
 * Writes a little beside the data directory, and takes it away again, so that it never is the room it looks for: a
 * Postgres whose disk is full goes on answering what it can read, and nothing else tells. No row, no WAL, and no part of
 * a base backup.
 */
export function roomStatements(dataDirectory: string): string[] {
  const file = escapeLiteral(`${dataDirectory}/../espalier-room`)
  return [`COPY (SELECT repeat('x', ${leastRoomBytes})) TO ${file}`, `COPY (SELECT WHERE false) TO ${file}`]
}

/** How many databases with checksum failures are told by name. */
const namedDatabases = 5

/**
 * A commit that is answered only once its record of WAL is on the disk. Where the pod looks after that itself, this is
 * left out: a database at rest writes no WAL then, and needs neither checkpoint nor archive.
 */
export const committedWrite = "SELECT pg_logical_emit_message(true, 'espalier', '')"

/** Where a server would recover from now on, and how far WAL is on the disk: asked right after a checkpoint. */
export type RestorePoint = { systemIdentifier: string; timeline: number; startLsn: string; endLsn: string }

export const restorePointQuery = `
SELECT (SELECT system_identifier::text FROM pg_control_system()) AS "systemIdentifier", timeline_id AS timeline,
  redo_lsn::text AS "startLsn", pg_current_wal_flush_lsn()::text AS "endLsn" FROM pg_control_checkpoint()`

/** Its time goes with the number of files, so it is asked by itself, rarely, and patiently. */
export const sizeQuery = {
  text: 'SELECT pg_database_size(oid)::float8 AS bytes FROM pg_database WHERE datname = $1',
  values: [applicationDatabase],
}

/** As much of the volume as Postgres can tell of; a file system takes some of it for itself. */
export const volumeUseQuery = {
  text: `SELECT ((SELECT coalesce(sum(pg_database_size(oid)), 0) FROM pg_database)
    + (SELECT coalesce(sum(size), 0) FROM pg_ls_waldir())
    + (SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir())
    + pg_tablespace_size('pg_global'))::float8 AS bytes`,
}

/** How much is told of what is wrong with a configuration, and of members that a role must not have. */
const fewErrors = 5
const fewMembers = 100

/**
 * A setting that takes a restart cannot be applied, and one of the command line wins over the files: neither is wrong with
 * them. Each of the three views reads its file anew.
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

/** How a role is read: a RoleState. `r`: a row of pg_authid. */
const roleColumns = `'oid', r.oid::text, 'superuser', r.rolsuper, 'inherit', r.rolinherit, 'createRole', r.rolcreaterole,
      'createDatabase', r.rolcreatedb, 'login', r.rolcanlogin, 'replication', r.rolreplication,
      'bypassRls', r.rolbypassrls, 'connectionLimit', r.rolconnlimit,
      'expires', r.rolvaliduntil IS NOT NULL AND r.rolvaliduntil <> 'infinity', 'verifier', r.rolpassword,
      'comment', shobj_description(r.oid, 'pg_authid')`

/** Part of the state query, as a JSON value. Superuser 10 is that of initdb. */
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
 * One row with one column, `state`: a ServerState. Its length does not depend on what users make: `admin` can make roles by
 * the million, of each of which it is a member, and have each of them grant what it may.
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
  if (row === undefined) throw new PostgresError('statement', 'the server answered without a row')
  return row.state
}
