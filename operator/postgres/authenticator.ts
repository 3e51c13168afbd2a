/**
 * The role `authenticator`, by which the service `rest` logs in, as SQL; pure. It inherits nothing, and becomes the role of each request: the anonymous role, which we grant to it, or one that `admin` has
 * granted to it. Only the superuser may alter it, since nobody is a member of it.
 *
 * A role of this name that a user made, of which its maker is a member, stays the user's: nothing of it is changed.
 */
import { escapeIdentifier, escapeLiteral, type QueryConfig } from 'pg'
import { applicationDatabase, databaseRoles } from '../../sealing/credentials.ts'
import { authenticatorRole, monitorRole, readerRole, replicationRole } from './configuration.ts'
import { comment, isMarked, loginAttributes, parseMark, watched } from './roles.ts'
import type { ServerState } from './state.ts'

export type DesiredAuthenticator = {
  password: string
  /** Names the password: the uid of the Secret that holds it. */
  mark: string
  /** Of the configuration that is served, and of that which replaces it. */
  anonymousRoles: readonly string[]
}

/** `refused`: the role is never granted, and `reason` says why. */
type AnonymousRole =
  | { kind: 'granted' }
  | { kind: 'grantable' }
  | { kind: 'missing' }
  | { kind: 'refused'; reason: string }

export type AuthenticatorObservation = {
  /** `foreign`: a user made a role of this name. */
  role: 'ours' | 'missing' | 'foreign'
  /** False if `ensureRoles` would change something. */
  inOrder: boolean
  /** By name. */
  anonymousRoles: Readonly<Record<string, AnonymousRole>>
}

/** `attribute` or membership because of which a role is refused. */
type Fault = { role: string; attribute: string | null }

export type AuthenticatorFacts = {
  hasMembers: boolean
  /** Whether it may connect to the application database. */
  enters: boolean
  /** Roles that it may become: all that we granted, and of the users' grants those of anonymous roles. */
  grants: { role: string; grantor: string; isOurs: boolean; set: boolean }[]
  anonymous: { name: string; exists: boolean; fault: Fault | null }[]
}

const reserved = [...databaseRoles, replicationRole, monitorRole, readerRole, authenticatorRole]
/** Of the bootstrap superuser, in whose name every superuser grants. */
const bootstrapOid = 10

/** One row with one column, `facts`: AuthenticatorFacts. `others`: further roles that no request may become. */
export const authenticatorQuery = (anonymousRoles: readonly string[], others: readonly string[]): QueryConfig => ({
  text: `
SELECT json_build_object(
  'hasMembers', EXISTS (SELECT FROM pg_auth_members m JOIN pg_authid r ON r.oid = m.roleid WHERE r.rolname = $1),
  'enters', coalesce((SELECT has_database_privilege(a.oid, d.oid, 'CONNECT')
    FROM pg_authid a, pg_database d WHERE a.rolname = $1 AND d.datname = $2), false),
  'grants', (SELECT coalesce(json_agg(json_build_object('role', r.rolname, 'grantor', pg_get_userbyid(m.grantor),
      'isOurs', m.grantor = ${bootstrapOid}, 'set', m.set_option)), '[]')
    FROM pg_auth_members m JOIN pg_authid r ON r.oid = m.roleid JOIN pg_authid a ON a.oid = m.member
    WHERE a.rolname = $1 AND (m.grantor = ${bootstrapOid} OR r.rolname = ANY ($3))),
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

/** A comment can be written by a role that may alter this one: a member of it. */
const isOurs = ({ roles: { authenticator } }: ServerState, { hasMembers }: AuthenticatorFacts): boolean =>
  isMarked(authenticator?.comment) && !hasMembers

/** Whether a user made the role of this name. */
export const isForeign = (state: ServerState, facts: AuthenticatorFacts): boolean =>
  state.roles.authenticator !== undefined && !isOurs(state, facts)

/** Whether it can log in although no service needs it. */
export function isLeftOpen(state: ServerState, facts: AuthenticatorFacts): boolean {
  const { login, verifier } = state.roles.authenticator ?? { login: false, verifier: null }
  return isOurs(state, facts) && (login || verifier !== null)
}

/** Whether nobody can log in as it by a password of the database that this one was copied from. */
export const isClosedFor = (
  state: ServerState,
  facts: AuthenticatorFacts | undefined,
  wanted: DesiredAuthenticator | undefined,
): boolean =>
  facts === undefined ||
  !isLeftOpen(state, facts) ||
  (wanted !== undefined && parseMark(state.roles.authenticator?.comment).credentials === wanted.mark)

/** Statements for one transaction in any database. `verifier`: of the password, where that is not to stay. */
export function authenticatorStatements(
  state: ServerState,
  facts: AuthenticatorFacts,
  wanted: DesiredAuthenticator | undefined,
  verifier?: string,
): string[] {
  const present = state.roles.authenticator
  if (isForeign(state, facts)) return []
  if (wanted === undefined) return isLeftOpen(state, facts) ? lockStatements(facts) : []
  const isRight = present !== undefined && watched.every(key => present[key] === loginAttributes[key])
  const password = verifier === undefined ? '' : ` PASSWORD ${escapeLiteral(verifier)}`
  const verb = present === undefined ? 'CREATE' : 'ALTER'
  return [
    ...(isRight && verifier === undefined ? [] : [`${verb} ROLE ${name} ${attributesText}${password}`]),
    ...(parseMark(present?.comment).credentials === wanted.mark
      ? []
      : [comment(authenticatorRole, { credentials: wanted.mark })]),
    ...(facts.enters || state.database === null
      ? []
      : [`GRANT CONNECT ON DATABASE ${escapeIdentifier(applicationDatabase)} TO ${name}`]),
    ...membershipStatements(facts),
  ]
}

/** The mark stays, by which it is still ours. */
const lockStatements = (facts: AuthenticatorFacts): string[] => [
  `ALTER ROLE ${name} NOLOGIN PASSWORD NULL`,
  comment(authenticatorRole, {}),
  ...facts.grants
    .filter(({ isOurs }) => isOurs)
    .map(({ role }) => `REVOKE ${escapeIdentifier(role)} FROM ${name} CASCADE`),
]

function membershipStatements({ grants, anonymous }: AuthenticatorFacts): string[] {
  const isGranted = (role: string) => grants.some(one => one.role === role && one.set)
  const missing = anonymous.filter(one => one.exists && one.fault === null && !isGranted(one.name))
  const isRefused = (role: string) => anonymous.some(one => one.name === role && one.fault !== null)
  const isWanted = (role: string) => anonymous.some(one => one.name === role)
  const excess = grants.filter(({ role, isOurs }) => isRefused(role) || (isOurs && !isWanted(role)))
  return [
    ...missing.map(one => `GRANT ${escapeIdentifier(one.name)} TO ${name} WITH INHERIT FALSE, SET TRUE, ADMIN FALSE`),
    ...excess.map(
      ({ role, grantor }) =>
        `REVOKE ${escapeIdentifier(role)} FROM ${name} GRANTED BY ${escapeIdentifier(grantor)} CASCADE`,
    ),
  ]
}

/** `hasPassword`: the password wanted is the role's. */
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
