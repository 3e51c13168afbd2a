/**
 * The roles of a database and what they may do, as SQL: which statements bring a server from what it is to what it is to
 * be. Pure; the same functions tell whether anything is left to do.
 *
 * - `admin` creates databases and roles, monitors, ends other sessions, and acts as `app`: it inherits what `app` owns and
 *   can SET ROLE to it, so it may install trusted extensions and repair whatever the application made. It has no ADMIN
 *   OPTION on `app` and `app_read_only`, so it can neither drop nor alter them, nor hand them on; and no membership that
 *   reaches files, programs or replication.
 * - `app` owns the application database, and through it the schema `public`.
 * - `espalier_replication` copies the instance, by a certificate of the platform's, and has no password: no user is a member
 *   of it, and it enters no database.
 * - `espalier_monitor` reads what monitoring shows, for the agent of the pod, by a certificate of this instance alone; it
 *   comes in when all other connections are taken.
 * - `app_read_only` reads what `app` and `admin` make, by grants that either of them can take back. It is no member of
 *   pg_read_all_data, which would show it the password hashes too.
 * - `espalier_read_only` is a group without a login that inherits `app_read_only`. `admin` grants it to roles of its own.
 *   It exists because whoever may grant `app_read_only` itself may also alter it, and its comment holds our marks.
 *
 * Attributes and memberships are restored whenever they differ, and so is a way for `app` into its database. Grants inside
 * it are made once: what an owner revokes afterwards stays revoked.
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
import { markOfRole } from './marks.ts'
import { type DatabaseLock, initialDatabase, type RoleState, type ServerState } from './state.ts'

const identifiers = (names: readonly string[]): string => names.map(escapeIdentifier).join(', ')
const database = escapeIdentifier(applicationDatabase)

/** Attributes of each role; every one is named, so that none is left to a default. */
/** Of a role that logs in, inherits nothing, and has no rights of its own. */
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

/** What the platform's own roles have in common: no password, so that nothing but a certificate lets them in. */
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

/** What the platform's roles belong to, and who grants them on. Without SET, since a role may change its own password. */
const platformMemberships = [
  { role: 'pg_monitor', member: monitorRole, inherit: true, set: true, admin: false },
  { role: 'pg_use_reserved_connections', member: monitorRole, inherit: true, set: true, admin: false },
  { role: 'app_read_only', member: readerRole, inherit: true, set: false, admin: false },
  { role: readerRole, member: 'admin', inherit: false, set: false, admin: true },
] as const

const sqlBoolean = (value: boolean): string => (value ? 'TRUE' : 'FALSE')

/** Statements on the platform's own roles, for one transaction in any database; users notice nothing of them. */
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
    // Whoever made a role of such a name before it was ours was made a member of it.
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

/** What `admin` belongs to. Handing on `pg_monitor` to a monitoring role of the user's own is the usual need. */
const adminMemberships = [
  { role: 'app', admin: false },
  { role: 'pg_monitor', admin: true },
  { role: 'pg_signal_backend', admin: true },
] as const

/** Roles that none of ours is ever a member of: they reach the server's files and programs, other hosts, or all data. */
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

/** What we note in a role's comment, which no user may change. */
type RoleMark = {
  /** Names the password that we set last (marks.ts). */
  credentials?: string
  /** On `app_read_only`: the objects for which the grants were made (see grantsMark). */
  grants?: string
  /** On `app_read_only`: the application database in which statistics of statements can be read, by its number. */
  statistics?: string
  /** On `app_read_only`: the application database in which `admin` may run amcheck, by its number. */
  checks?: string
  /** On the database of the service `mcp`: the database or branch whose it is. */
  owner?: string
}

const markPrefix = 'espalier '

export function parseMark(comment: string | null | undefined): RoleMark {
  if (!comment?.startsWith(markPrefix)) return {}
  try {
    const { credentials, grants, statistics, checks, owner } = JSON.parse(comment.slice(markPrefix.length))
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

/** Whether a comment is one of ours. */
export const isMarked = (text: string | null | undefined): boolean => text?.startsWith(markPrefix) ?? false

export const markText = (mark: Readonly<Record<string, string>>): string => markPrefix + JSON.stringify(mark)

export const comment = (role: string, mark: RoleMark): string =>
  `COMMENT ON ROLE ${escapeIdentifier(role)} IS ${escapeLiteral(markText(mark))}`

/** What is to be set on each role: its password's verifier, where that is not to stay, and its part of the passwords' mark. */
export type RolePasswords = { mark: string; verifiers: Partial<Record<DatabaseRole, string>> }

/**
 * Statements on roles, memberships and maintenance databases, for one transaction in any database. None: in order.
 * Without passwords, those and their marks are left aside.
 */
export function roleStatements(state: ServerState, passwords?: RolePasswords): string[] {
  return [
    ...databaseRoles.flatMap(role => statementsForRole(role, state.roles[role], passwords)),
    ...membershipStatements(state),
    ...databaseStatements(state),
  ]
}

/**
 * The application database is the one that initdb made, renamed: making another takes longer than all the rest together.
 * Nobody can have been in it, since users cannot connect to it under its first name.
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

/** Who locks everyone out of the application database has no way left to undo it: that is ours. */
const unlocking: Record<DatabaseLock, string> = {
  'no connections allowed': `ALTER DATABASE ${database} ALLOW_CONNECTIONS true`,
  'connection limit of 0': `ALTER DATABASE ${database} CONNECTION LIMIT -1`,
  'privilege revoked': `GRANT CONNECT ON DATABASE ${database} TO app`,
}

function statementsForRole(role: DatabaseRole, state: RoleState | undefined, passwords?: RolePasswords): string[] {
  const verifier = passwords?.verifiers[role]
  const previous = parseMark(state?.comment)
  const password = verifier === undefined ? '' : ` PASSWORD ${escapeLiteral(verifier)}`
  const name = escapeIdentifier(role)
  const statements: string[] = []
  if (state === undefined) statements.push(`CREATE ROLE ${name} ${attributesText(role)}${password}`)
  else if (!inOrder(role, state)) statements.push(`ALTER ROLE ${name} ${attributesText(role)}${password}`)
  else if (verifier !== undefined) statements.push(`ALTER ROLE ${name}${password}`)
  const mark = passwords && markOfRole(passwords.mark, role)
  if (mark !== undefined && previous.credentials !== mark)
    statements.push(comment(role, { ...previous, credentials: mark }))
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

/** The application database where its user has dropped it, from a template that nobody can change. Not for a transaction. */
export const createDatabase = `CREATE DATABASE ${database} OWNER app TEMPLATE template0`

/** Names what the grants were made for: a database or a role made anew has another number, and gets them again. */
function grantsMark({ database: made, roles }: ServerState): string | undefined {
  const numbers = [made?.oid, ...databaseRoles.map(role => roles[role]?.oid)]
  return numbers.includes(undefined) ? undefined : numbers.join('/')
}

/** Whether the grants inside the application database were made for the roles and the database as they are. */
export function grantsMade(state: ServerState): boolean {
  const wanted = grantsMark(state)
  return wanted !== undefined && parseMark(state.roles.app_read_only?.comment).grants === wanted
}

/**
 * Whether `admin` has its tools in the application database: statements' statistics, and amcheck. An image without the
 * library of the first has none of the modules that come with Postgres.
 */
export function toolsMade({ gathersStatistics, database: made, roles }: ServerState): boolean {
  if (!gathersStatistics || made === null) return true
  const mark = parseMark(roles.app_read_only?.comment)
  return mark.statistics === made.oid && mark.checks === made.oid
}

/** Where the platform's own objects stand in the application database. */
const platformSchema = 'espalier'
const checksExtension = 'amcheck'

/** `owner`: of the platform's schema in the application database, null for none. */
export type ToolsFacts = { owner: string | null; hasChecks: boolean }

export const toolsQuery = {
  text: `SELECT (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = $1) AS owner,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = $2) AS "hasChecks"`,
  values: [platformSchema, checksExtension],
}

/** Its functions are for superusers, and differ from version to version. */
const grantChecks = `DO $$ DECLARE checks regprocedure; BEGIN
  FOR checks IN SELECT d.objid::regprocedure FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND e.extname = '${checksExtension}'
  LOOP EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO admin', checks); END LOOP;
END $$`

/**
 * Statements for one transaction inside the application database, ending with the mark that they were made. A schema of
 * this name that a user made stays the user's, and nothing is made in it: what a superuser makes must stand where no user
 * can put anything first.
 */
export function toolStatements(state: ServerState, { owner, hasChecks }: ToolsFacts): string[] {
  const made = state.database?.oid ?? ''
  const mark = { ...parseMark(state.roles.app_read_only?.comment), statistics: made, checks: made }
  const isFree = owner === null
  if (!isFree && owner !== superuser) return [comment('app_read_only', mark)]
  return [
    ...(isFree ? [`CREATE SCHEMA ${platformSchema}`] : []),
    `CREATE EXTENSION IF NOT EXISTS ${statisticsLibrary} SCHEMA ${platformSchema}`,
    ...(hasChecks ? [`CREATE EXTENSION IF NOT EXISTS ${checksExtension} SCHEMA ${platformSchema}`, grantChecks] : []),
    `GRANT USAGE ON SCHEMA ${platformSchema} TO admin`,
    comment('app_read_only', mark),
  ]
}

const readOnly = "(SELECT oid FROM pg_authid WHERE rolname = 'app_read_only')"
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/**
 * What begins a transaction inside the application database, where the lock on roles is held by another session, which may
 * have ended: the role that carries the marks is locked, and the transaction fails unless its marks are those of `state`.
 */
export const ifUnchanged = ({ roles }: ServerState): string[] => [
  "SELECT FROM pg_authid WHERE rolname = 'app_read_only' FOR UPDATE",
  `DO $$ BEGIN
    IF encode(sha256(convert_to(coalesce(shobj_description(${readOnly}, 'pg_authid'), ''), 'UTF8')), 'hex')
      <> '${digestOf(roles.app_read_only?.comment ?? '')}'
    THEN RAISE EXCEPTION 'another operator has changed the roles meanwhile' USING ERRCODE = '40001'; END IF;
  END $$`,
]

/** So many schemas get grants after the fact; their names go through the operator's memory. */
const highestSchemas = 10_000

/** Schemas of the application database that `app` or `admin` owns; `public` belongs to whoever owns the database. */
export const schemaQuery = `
SELECT nspname AS name FROM pg_namespace
WHERE nspowner IN (SELECT oid FROM pg_roles WHERE rolname IN ('app', 'admin', 'pg_database_owner'))
LIMIT ${highestSchemas}`

/**
 * Statements for one transaction inside the application database, ending with the mark that they were made.
 *
 * Default privileges without a schema hold for every schema, those made later too; what `admin` makes in the application's
 * database is for the application. A sequence may be read, not drawn from.
 */
export function grantStatements(state: ServerState, schemas: readonly string[]): string[] {
  const mark = { ...parseMark(state.roles.app_read_only?.comment), grants: grantsMark(state) ?? '' }
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
    comment('app_read_only', mark),
  ]
}
