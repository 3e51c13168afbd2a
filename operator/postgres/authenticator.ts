/**
 * SQL for the role `authenticator`, with which the service `rest` logs in. Pure. The role inherits nothing. It switches
 * to the role of each request: the anonymous role, which the operator grants to it, or a role that `admin` has granted
 * to it. Only the superuser may alter it, because it has no members.
 *
 * If a user created a role with this name, its creator is a member of it. The operator then does not change the role.
 */
import { escapeIdentifier, escapeLiteral, type QueryConfig } from 'pg'
import { applicationDatabase, databaseRoles } from '../../sealing/credentials.ts'
import { authenticatorRole, monitorRole, readerRole, replicationRole } from './configuration.ts'
import { comment, hasRecord, loginAttributes, parseRecord, watched } from './roles.ts'
import type { ServerState } from './state.ts'

export type DesiredAuthenticator = {
  password: string
  /** The password version: the uid of the password's Secret. */
  passwordVersion: string
  /** The anonymous roles of the current and the next configuration. */
  anonymousRoles: readonly string[]
}

/** `refused`: the operator never grants this role. `reason`: why. */
type AnonymousRole =
  | { kind: 'granted' }
  | { kind: 'grantable' }
  | { kind: 'missing' }
  | { kind: 'refused'; reason: string }

export type AuthenticatorObservation = {
  /** `foreign`: a user created a role with this name. */
  role: 'ours' | 'missing' | 'foreign'
  /** False if `ensureRoles` would change something. */
  inOrder: boolean
  /** By name. */
  anonymousRoles: Readonly<Record<string, AnonymousRole>>
}

/** The `attribute` or membership for which a role is refused. */
type Fault = { role: string; attribute: string | null }

export type AuthenticatorFacts = {
  hasMembers: boolean
  /** Whether the role may connect to the application database. */
  enters: boolean
  /**
   * Roles that it may become: all roles that the operator granted. Of the roles that users granted, only anonymous
   * roles.
   */
  grants: { role: string; grantor: string; isOwn: boolean; set: boolean }[]
  /** Databases for which the role has its own settings; null for all databases. */
  settings: (string | null)[]
  anonymous: { name: string; exists: boolean; fault: Fault | null }[]
}

const reserved = [...databaseRoles, replicationRole, monitorRole, readerRole, authenticatorRole]
/** The oid of the bootstrap superuser. Postgres records it as the grantor of every superuser's grants. */
const bootstrapOid = 10

/** One row with one column, `facts`: AuthenticatorFacts. `others`: other roles that requests must not become. */
export const authenticatorQuery = (anonymousRoles: readonly string[], others: readonly string[]): QueryConfig => ({
  text: `
SELECT json_build_object(
  'hasMembers', EXISTS (SELECT FROM pg_auth_members m JOIN pg_authid r ON r.oid = m.roleid WHERE r.rolname = $1),
  'enters', coalesce((SELECT has_database_privilege(a.oid, d.oid, 'CONNECT')
    FROM pg_authid a, pg_database d WHERE a.rolname = $1 AND d.datname = $2), false),
  'grants', (SELECT coalesce(json_agg(json_build_object('role', r.rolname, 'grantor', pg_get_userbyid(m.grantor),
      'isOwn', m.grantor = ${bootstrapOid}, 'set', m.set_option)), '[]')
    FROM pg_auth_members m JOIN pg_authid r ON r.oid = m.roleid JOIN pg_authid a ON a.oid = m.member
    WHERE a.rolname = $1 AND (m.grantor = ${bootstrapOid} OR r.rolname = ANY ($3))),
  'settings', (SELECT coalesce(json_agg(d.datname), '[]') FROM pg_db_role_setting s
    JOIN pg_authid a ON a.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase WHERE a.rolname = $1),
  'anonymous', (SELECT coalesce(json_agg(json_build_object('name', wanted.name,
      'exists', EXISTS (SELECT FROM pg_authid WHERE rolname = wanted.name),
      'fault', (WITH RECURSIVE reached AS (SELECT oid FROM pg_authid WHERE rolname = wanted.name
          UNION SELECT m.roleid FROM pg_auth_members m JOIN reached ON reached.oid = m.member)
        SELECT json_build_object('role', rolname, 'attribute', CASE WHEN rolsuper THEN 'SUPERUSER'
          WHEN rolbypassrls THEN 'BYPASSRLS' WHEN rolreplication THEN 'REPLICATION' END)
        FROM reached JOIN pg_authid USING (oid)
        WHERE rolsuper OR rolbypassrls OR rolreplication OR rolname LIKE 'pg\\_%' OR rolname = ANY ($4) LIMIT 1))), '[]')
    FROM unnest($3::text[]) AS wanted (name))
) AS facts`,
  values: [authenticatorRole, applicationDatabase, anonymousRoles, [...reserved, ...others]],
})

const name = escapeIdentifier(authenticatorRole)
const attributesText =
  "LOGIN NOSUPERUSER NOINHERIT NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1 VALID UNTIL 'infinity'"

/** A member of this role may alter it, and could therefore write its comment. */
const isOwn = ({ roles: { authenticator } }: ServerState, { hasMembers }: AuthenticatorFacts): boolean =>
  hasRecord(authenticator?.comment) && !hasMembers

/** Whether a user created the role of this name. */
export const isForeign = (state: ServerState, facts: AuthenticatorFacts): boolean =>
  state.roles.authenticator !== undefined && !isOwn(state, facts)

/** Whether the role can log in although no service needs it. */
export function remainsOpen(state: ServerState, facts: AuthenticatorFacts): boolean {
  const { login, verifier } = state.roles.authenticator ?? { login: false, verifier: null }
  return isOwn(state, facts) && (login || verifier !== null)
}

/** Whether no password of the source database permits a login as this role. */
export const isClosedFor = (
  state: ServerState,
  facts: AuthenticatorFacts | undefined,
  wanted: DesiredAuthenticator | undefined,
): boolean =>
  facts === undefined ||
  !remainsOpen(state, facts) ||
  (wanted !== undefined && parseRecord(state.roles.authenticator?.comment).credentials === wanted.passwordVersion)

/** Statements for one transaction in any database. `verifier`: of the password, if the password must change. */
export function authenticatorStatements(
  state: ServerState,
  facts: AuthenticatorFacts,
  wanted: DesiredAuthenticator | undefined,
  verifier?: string,
): string[] {
  const present = state.roles.authenticator
  if (isForeign(state, facts)) return []
  if (wanted === undefined) return remainsOpen(state, facts) ? lockStatements(facts) : []
  const isRight = present !== undefined && watched.every(key => present[key] === loginAttributes[key])
  const password = verifier === undefined ? '' : ` PASSWORD ${escapeLiteral(verifier)}`
  const verb = present === undefined ? 'CREATE' : 'ALTER'
  return [
    ...(isRight && verifier === undefined ? [] : [`${verb} ROLE ${name} ${attributesText}${password}`]),
    ...(parseRecord(present?.comment).credentials === wanted.passwordVersion
      ? []
      : [comment(authenticatorRole, { credentials: wanted.passwordVersion })]),
    ...(facts.enters || state.database === null
      ? []
      : [`GRANT CONNECT ON DATABASE ${escapeIdentifier(applicationDatabase)} TO ${name}`]),
    ...facts.settings.map(resetStatement),
    ...membershipStatements(facts),
  ]
}

/**
 * A function that a request calls can change the role's settings so that the role serves no request. No user can reset
 * them.
 */
const resetStatement = (database: string | null): string =>
  `ALTER ROLE ${name}${database === null ? '' : ` IN DATABASE ${escapeIdentifier(database)}`} RESET ALL`

/** Keeps the comment, because it shows that the operator created the role. */
const lockStatements = (facts: AuthenticatorFacts): string[] => [
  `ALTER ROLE ${name} NOLOGIN PASSWORD NULL`,
  comment(authenticatorRole, {}),
  ...facts.grants
    .filter(({ isOwn }) => isOwn)
    .map(({ role }) => `REVOKE ${escapeIdentifier(role)} FROM ${name} CASCADE`),
]

function membershipStatements({ grants, anonymous }: AuthenticatorFacts): string[] {
  const isGranted = (role: string) => grants.some(one => one.role === role && one.set)
  const missing = anonymous.filter(one => one.exists && one.fault === null && !isGranted(one.name))
  const isRefused = (role: string) => anonymous.some(one => one.name === role && one.fault !== null)
  const isWanted = (role: string) => anonymous.some(one => one.name === role)
  const excess = grants.filter(({ role, isOwn }) => isRefused(role) || (isOwn && !isWanted(role)))
  return [
    ...missing.map(one => `GRANT ${escapeIdentifier(one.name)} TO ${name} WITH INHERIT FALSE, SET TRUE, ADMIN FALSE`),
    ...excess.map(
      ({ role, grantor }) =>
        `REVOKE ${escapeIdentifier(role)} FROM ${name} GRANTED BY ${escapeIdentifier(grantor)} CASCADE`,
    ),
  ]
}

/** `hasPassword`: the role has the desired password. */
export function authenticatorObservation(
  state: ServerState,
  facts: AuthenticatorFacts,
  wanted: DesiredAuthenticator,
  hasPassword: boolean,
): AuthenticatorObservation {
  const isThere = state.roles.authenticator !== undefined
  const isOthers = isForeign(state, facts)
  const isDone = authenticatorStatements(state, facts, wanted).length === 0
  return {
    role: isOthers ? 'foreign' : isThere ? 'ours' : 'missing',
    inOrder: isOthers || (isThere && isDone && hasPassword),
    anonymousRoles: Object.fromEntries(facts.anonymous.map(one => [one.name, anonymousRole(one, facts)])),
  }
}

function anonymousRole(
  { name: role, exists, fault }: AuthenticatorFacts['anonymous'][number],
  { grants }: AuthenticatorFacts,
): AnonymousRole {
  if (!exists) return { kind: 'missing' }
  if (fault !== null) return { kind: 'refused', reason: reasonOf(role, fault) }
  return { kind: grants.some(one => one.role === role && one.set) ? 'granted' : 'grantable' }
}

function reasonOf(role: string, { role: at, attribute }: Fault): string {
  const whose = at === role ? role : `${role} is a member of ${at}, which`
  if (attribute !== null) return `${whose} has ${attribute}`
  return at === role ? `${role} is a role of the platform` : `${role} is a member of ${at}`
}
