/**
 * The roles of a database and their privileges, as SQL: the statements that bring a server from its current to its
 * desired state. Pure. The same functions report whether work remains.
 *
 * - `admin` creates databases and roles, monitors, ends other sessions, and acts as `app`. It inherits what `app` owns
 *   and can SET ROLE to it. So it may install trusted extensions, and repair what the application created. It has no
 *   ADMIN OPTION on `app` and `app_read_only`, so it cannot drop, alter or grant them. It has no membership that gives
 *   access to files, programs or replication.
 * - `app` owns the application database, and through it the schema `public`.
 * - `espalier_replication` copies the instance, with a certificate of the platform. It has no password. No user is a
 *   member of it, and it cannot connect to a database.
 * - `espalier_monitor` reads monitoring views for the pod's agent, only with a certificate of this instance. It can
 *   connect when all other connections are used.
 * - `app_read_only` reads what `app` and `admin` create. Either of them can revoke the grants for this. It is not a
 *   member of pg_read_all_data, which would include the password hashes.
 * - `espalier_read_only` is a group without a login that inherits `app_read_only`. `admin` grants it to its own roles.
 *   The group is necessary because a role that may grant `app_read_only` may also alter it, and its comment contains
 *   the operator's records.
 *
 * The operator restores attributes and memberships, and the access of `app` to its database, whenever they differ. It
 * makes grants inside the database only once: a grant that an owner revokes later stays revoked.
 */
import { createHash } from 'node:crypto'
import { escapeIdentifier, escapeLiteral } from 'pg'
import { applicationDatabase, type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'
import {
  maintenanceDatabase,
  monitorRole,
  readerRole,
  replicationRole,
  statisticsLibrary,
  superuser,
} from './configuration.ts'
import { versionOfRole } from './password-versions.ts'
import { type DatabaseLock, initialDatabase, type RoleState, type ServerState } from './state.ts'

const identifiers = (names: readonly string[]): string => names.map(escapeIdentifier).join(', ')
const database = escapeIdentifier(applicationDatabase)

/** Attributes of each role; every one is listed, so that no default applies. */
/** A role that logs in, inherits nothing, and has no other rights. */
export const loginAttributes = {
  superuser: false,
  inherit: false,
  createRole: false,
  createDatabase: false,
  login: true,
  replication: false,
  bypassRls: false,
  connectionLimit: -1,
  expires: false,
}

const attributes = (role: DatabaseRole) => ({
  ...loginAttributes,
  inherit: true,
  createRole: role === 'admin',
  createDatabase: role === 'admin',
})

function attributesText(role: DatabaseRole): string {
  const makes = role === 'admin' ? 'CREATEROLE CREATEDB' : 'NOCREATEROLE NOCREATEDB'
  return `LOGIN NOSUPERUSER INHERIT ${makes} NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1 VALID UNTIL 'infinity'`
}

/** Common attributes of the platform's own roles. They have no password, so they log in only with a certificate. */
const platformText = "NOSUPERUSER NOCREATEROLE NOCREATEDB NOBYPASSRLS VALID UNTIL 'infinity' PASSWORD NULL"

const platformRoles = [
  {
    role: replicationRole,
    attributes: { ...loginAttributes, replication: true },
    text: `LOGIN ${platformText} NOINHERIT REPLICATION CONNECTION LIMIT -1`,
  },
  {
    role: monitorRole,
    attributes: { ...loginAttributes, inherit: true, connectionLimit: 2 },
    text: `LOGIN ${platformText} INHERIT NOREPLICATION CONNECTION LIMIT 2`,
  },
  {
    role: readerRole,
    attributes: { ...loginAttributes, inherit: true, login: false },
    text: `NOLOGIN ${platformText} INHERIT NOREPLICATION CONNECTION LIMIT -1`,
  },
] as const

/**
 * Memberships of the platform's roles, and which roles may grant them. The read-only roles are granted without SET: a
 * member that can SET ROLE to a role could change its password.
 */
const platformMemberships = [
  { role: 'pg_monitor', member: monitorRole, inherit: true, set: true, admin: false },
  { role: 'pg_use_reserved_connections', member: monitorRole, inherit: true, set: true, admin: false },
  { role: 'app_read_only', member: readerRole, inherit: true, set: false, admin: false },
  { role: readerRole, member: 'admin', inherit: false, set: false, admin: true },
] as const

const sqlBoolean = (value: boolean): string => (value ? 'TRUE' : 'FALSE')

/** Statements on the platform's own roles, for one transaction in any database; they do not affect users. */
export function platformStatements(state: ServerState): string[] {
  const made = platformRoles.flatMap(({ role, attributes, text }) => {
    const present = state.roles[role]
    const asWanted = watched.every(key => present?.[key] === attributes[key]) && present?.verifier === null
    return asWanted ? [] : [`${present === undefined ? 'CREATE' : 'ALTER'} ROLE ${escapeIdentifier(role)} ${text}`]
  })
  const missing = platformMemberships.filter(
    wanted =>
      !state.memberships.some(
        ({ role, member, inherit, set, admin }) =>
          role === wanted.role &&
          member === wanted.member &&
          inherit === wanted.inherit &&
          set === wanted.set &&
          admin === wanted.admin,
      ),
  )
  return [
    ...made,
    ...missing.map(
      ({ role, member, inherit, set, admin }) =>
        `GRANT ${role} TO ${member} WITH INHERIT ${sqlBoolean(inherit)}, SET ${sqlBoolean(set)}, ADMIN ${sqlBoolean(admin)}`,
    ),
    ...(state.monitorEnters
      ? []
      : [`GRANT CONNECT ON DATABASE ${maintenanceDatabase} TO ${escapeIdentifier(monitorRole)}`]),
    // A user who created a role with such a name, before the operator took it over, is a member of it.
    ...state.platformMembers.map(
      ({ role, member }) => `REVOKE ${escapeIdentifier(role)} FROM ${escapeIdentifier(member)} CASCADE`,
    ),
  ]
}

export const watched = [
  'superuser',
  'inherit',
  'createRole',
  'createDatabase',
  'login',
  'replication',
  'bypassRls',
  'connectionLimit',
  'expires',
] as const

function inOrder(role: DatabaseRole, state: RoleState): boolean {
  const wanted = attributes(role)
  return watched.every(name => state[name] === wanted[name])
}

/**
 * Memberships of `admin`. With ADMIN OPTION for `pg_monitor`, so that it can grant it to a user's own monitoring role.
 */
const adminMemberships = [
  { role: 'app', admin: false },
  { role: 'pg_monitor', admin: true },
  { role: 'pg_signal_backend', admin: true },
] as const

/**
 * Roles that the operator's roles must never be members of. They give access to the server's files and programs, to
 * other hosts, or to all data.
 */
const forbidden = new Set([
  'postgres',
  'pg_execute_server_program',
  'pg_read_server_files',
  'pg_write_server_files',
  'pg_read_all_data',
  'pg_write_all_data',
  'pg_create_subscription',
  'pg_use_reserved_connections',
])

/** The operator's record in a role's comment, which no user may change. */
type RoleRecord = {
  /** The version of the password that the operator set last (password-versions.ts). */
  credentials?: string
  /** On `app_read_only`: the objects for which the operator made the grants (see grantsKey). */
  grants?: string
  /** On `app_read_only`: the oid of the application database in which statement statistics can be read. */
  statistics?: string
  /** On `app_read_only`: the oid of the application database in which `admin` may run amcheck. */
  checks?: string
  /** On the database of the service `mcp`: the database or branch that owns it. */
  owner?: string
}

const recordPrefix = 'espalier '

export function parseRecord(comment: string | null | undefined): RoleRecord {
  if (!comment?.startsWith(recordPrefix)) return {}
  try {
    const { credentials, grants, statistics, checks, owner } = JSON.parse(comment.slice(recordPrefix.length))
    return {
      ...(typeof credentials === 'string' ? { credentials } : {}),
      ...(typeof grants === 'string' ? { grants } : {}),
      ...(typeof statistics === 'string' ? { statistics } : {}),
      ...(typeof checks === 'string' ? { checks } : {}),
      ...(typeof owner === 'string' ? { owner } : {}),
    }
  } catch {
    return {}
  }
}

/** Whether the operator wrote a comment. */
export const hasRecord = (text: string | null | undefined): boolean => text?.startsWith(recordPrefix) ?? false

export const recordText = (record: Readonly<Record<string, string>>): string => recordPrefix + JSON.stringify(record)

export const comment = (role: string, record: RoleRecord): string =>
  `COMMENT ON ROLE ${escapeIdentifier(role)} IS ${escapeLiteral(recordText(record))}`

/**
 * What to set on each role: the verifier of its password, if the password must change, and its part of the password
 * version.
 */
export type RolePasswords = { passwordVersion: string; verifiers: Partial<Record<DatabaseRole, string>> }

/**
 * Statements on roles, memberships and maintenance databases, for one transaction in any database. Empty if nothing
 * must change. Without `passwords`, passwords and their versions are not changed.
 */
export function roleStatements(state: ServerState, passwords?: RolePasswords): string[] {
  return [
    ...databaseRoles.flatMap(role => statementsForRole(role, state.roles[role], passwords)),
    ...membershipStatements(state),
    ...databaseStatements(state),
  ]
}

/**
 * The operator renames the database that initdb created to the application database: creating another would take longer
 * than everything else together. That database has no sessions, because users cannot connect to it under its first
 * name.
 */
function databaseStatements({ database: made, hasInitialDatabase, openDatabases }: ServerState): string[] {
  const adopt = made === null && hasInitialDatabase
  const closed = openDatabases.filter(name => !(adopt && name === initialDatabase))
  return [
    ...(closed.length > 0 ? [`REVOKE ALL ON DATABASE ${identifiers(closed)} FROM PUBLIC`] : []),
    ...(adopt ? [`ALTER DATABASE ${escapeIdentifier(initialDatabase)} RENAME TO ${database}`] : []),
    ...(adopt ? [`COMMENT ON DATABASE ${database} IS NULL`] : []),
    ...(adopt || (made !== null && made.owner !== 'app') ? [`ALTER DATABASE ${database} OWNER TO app`] : []),
    ...(made?.lockedBy ?? []).map(lock => unlocking[lock]),
  ]
}

/** A user who blocks all logins to the application database could not undo that. So the operator undoes it. */
const unlocking: Record<DatabaseLock, string> = {
  'no connections allowed': `ALTER DATABASE ${database} ALLOW_CONNECTIONS true`,
  'connection limit of 0': `ALTER DATABASE ${database} CONNECTION LIMIT -1`,
  'privilege revoked': `GRANT CONNECT ON DATABASE ${database} TO app`,
}

function statementsForRole(role: DatabaseRole, state: RoleState | undefined, passwords?: RolePasswords): string[] {
  const verifier = passwords?.verifiers[role]
  const previous = parseRecord(state?.comment)
  const password = verifier === undefined ? '' : ` PASSWORD ${escapeLiteral(verifier)}`
  const name = escapeIdentifier(role)
  const statements: string[] = []
  if (state === undefined) statements.push(`CREATE ROLE ${name} ${attributesText(role)}${password}`)
  else if (!inOrder(role, state)) statements.push(`ALTER ROLE ${name} ${attributesText(role)}${password}`)
  else if (verifier !== undefined) statements.push(`ALTER ROLE ${name}${password}`)
  const version = passwords && versionOfRole(passwords.passwordVersion, role)
  if (version !== undefined && previous.credentials !== version)
    statements.push(comment(role, { ...previous, credentials: version }))
  return statements
}

function membershipStatements({ memberships }: ServerState): string[] {
  const missing = adminMemberships.filter(
    wanted =>
      !memberships.some(
        ({ role, member, admin, inherit, set }) =>
          role === wanted.role && member === 'admin' && admin === wanted.admin && inherit && set,
      ),
  )
  return [
    ...missing.map(
      ({ role, admin }) => `GRANT ${role} TO admin WITH INHERIT TRUE, SET TRUE, ADMIN ${admin ? 'TRUE' : 'FALSE'}`,
    ),
    ...memberships
      .filter(({ role, member }) => forbidden.has(role) && member !== monitorRole)
      .map(({ role, member }) => `REVOKE ${escapeIdentifier(role)} FROM ${escapeIdentifier(member)} CASCADE`),
  ]
}

/**
 * Creates the application database again if its user has dropped it. Uses a template that no user can change. Cannot
 * run in a transaction.
 */
export const createDatabase = `CREATE DATABASE ${database} OWNER app TEMPLATE template0`

/**
 * Identifies the roles and the database for which the grants were made. A role or database that was created again has
 * another oid, so the grants are made again.
 */
function grantsKey({ database: made, roles }: ServerState): string | undefined {
  const numbers = [made?.oid, ...databaseRoles.map(role => roles[role]?.oid)]
  return numbers.includes(undefined) ? undefined : numbers.join('/')
}

/** Whether the grants inside the application database were made for the current roles and database. */
export function grantsMade(state: ServerState): boolean {
  const wanted = grantsKey(state)
  return wanted !== undefined && parseRecord(state.roles.app_read_only?.comment).grants === wanted
}

/**
 * Whether `admin` has its tools in the application database: statement statistics, and amcheck. If an image lacks the
 * library of the statistics, it has no contrib module.
 */
export function toolsMade({ gathersStatistics, database: made, roles }: ServerState): boolean {
  if (!gathersStatistics || made === null) return true
  const record = parseRecord(roles.app_read_only?.comment)
  return record.statistics === made.oid && record.checks === made.oid
}

/** The platform's own schema in the application database. */
const platformSchema = 'espalier'
const checksExtension = 'amcheck'

/** `owner`: of the platform's schema in the application database; null if there is no such schema. */
export type ToolsFacts = { owner: string | null; hasChecks: boolean }

export const toolsQuery = {
  text: `SELECT (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = $1) AS owner,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = $2) AS "hasChecks"`,
  values: [platformSchema, checksExtension],
}

/** The extension's functions are for superusers, and differ between versions. */
const grantChecks = `DO $$ DECLARE checks regprocedure; BEGIN
  FOR checks IN SELECT d.objid::regprocedure FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND e.extname = '${checksExtension}'
  LOOP EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO admin', checks); END LOOP;
END $$`

/**
 * Statements for one transaction inside the application database. The last one records that they ran. If a user created
 * a schema with this name, the operator does not change it, and creates nothing in it. A superuser's objects must be in
 * a schema where no user can create other objects that precede them.
 */
export function toolStatements(state: ServerState, { owner, hasChecks }: ToolsFacts): string[] {
  const made = state.database?.oid ?? ''
  const record = { ...parseRecord(state.roles.app_read_only?.comment), statistics: made, checks: made }
  const isFree = owner === null
  if (!isFree && owner !== superuser) return [comment('app_read_only', record)]
  return [
    ...(isFree ? [`CREATE SCHEMA ${platformSchema}`] : []),
    `CREATE EXTENSION IF NOT EXISTS ${statisticsLibrary} SCHEMA ${platformSchema}`,
    ...(hasChecks ? [`CREATE EXTENSION IF NOT EXISTS ${checksExtension} SCHEMA ${platformSchema}`, grantChecks] : []),
    `GRANT USAGE ON SCHEMA ${platformSchema} TO admin`,
    comment('app_read_only', record),
  ]
}

const readOnly = "(SELECT oid FROM pg_authid WHERE rolname = 'app_read_only')"
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/**
 * Begins a transaction inside the application database. Another session, which may have ended, holds the lock on roles.
 * So this locks the role with the records, and fails unless the records equal those in `state`.
 */
export const ifUnchanged = ({ roles }: ServerState): string[] => [
  "SELECT FROM pg_authid WHERE rolname = 'app_read_only' FOR UPDATE",
  `DO $$ BEGIN
    IF encode(sha256(convert_to(coalesce(shobj_description(${readOnly}, 'pg_authid'), ''), 'UTF8')), 'hex')
      <> '${digestOf(roles.app_read_only?.comment ?? '')}'
    THEN RAISE EXCEPTION 'another operator has changed the roles meanwhile' USING ERRCODE = '40001'; END IF;
  END $$`,
]

/** At most this many existing schemas get grants later. Their names are in the operator's memory. */
const highestSchemas = 10_000

/** Schemas of the application database that `app` or `admin` owns; `public` belongs to the database's owner. */
export const schemaQuery = `
SELECT nspname AS name FROM pg_namespace
WHERE nspowner IN (SELECT oid FROM pg_roles WHERE rolname IN ('app', 'admin', 'pg_database_owner'))
LIMIT ${highestSchemas}`

/**
 * Statements for one transaction inside the application database. The last one records that they ran.
 *
 * Default privileges without a schema apply to every schema, even to later ones. Objects that `admin` creates in the
 * application database are for the application. Read-only roles may read a sequence, but not advance it.
 */
export function grantStatements(state: ServerState, schemas: readonly string[]): string[] {
  const record = { ...parseRecord(state.roles.app_read_only?.comment), grants: grantsKey(state) ?? '' }
  const defaults = 'ALTER DEFAULT PRIVILEGES FOR ROLE'
  return [
    `GRANT CONNECT ON DATABASE ${database} TO app_read_only`,
    `ALTER ROLE app_read_only SET default_transaction_read_only = on`,
    `${defaults} app, admin GRANT USAGE ON SCHEMAS TO app_read_only`,
    `${defaults} app, admin GRANT SELECT ON TABLES TO app_read_only`,
    `${defaults} app, admin GRANT SELECT ON SEQUENCES TO app_read_only`,
    ...['SCHEMAS', 'TABLES', 'SEQUENCES'].map(kind => `${defaults} admin GRANT ALL ON ${kind} TO app`),
    ...(schemas.length > 0
      ? [
          `GRANT USAGE ON SCHEMA ${identifiers(schemas)} TO app_read_only`,
          `GRANT SELECT ON ALL TABLES IN SCHEMA ${identifiers(schemas)} TO app_read_only`,
          `GRANT SELECT ON ALL SEQUENCES IN SCHEMA ${identifiers(schemas)} TO app_read_only`,
        ]
      : []),
    comment('app_read_only', record),
  ]
}
