/** Creates the roles, the application database and its grants, or corrects what differs; opens a copy once they are right. */
import type { Logger } from 'pino'
import { applicationDatabase, type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'
import {
  type AuthenticatorFacts,
  authenticatorQuery,
  authenticatorStatements,
  type DesiredAuthenticator,
  isClosedFor,
  isForeign,
} from './authenticator.ts'
import { mcpStateRole } from './configuration.ts'
import type { Connection, PostgresTarget } from './connection.ts'
import { openStatements } from './copy.ts'
import { ensureMcpState } from './ensure-mcp-state.ts'
import { markOfRole } from './marks.ts'
import { type DesiredMcpState, isRoleOurs, isStateClosedFor } from './mcp-state.ts'
import {
  createDatabase,
  grantStatements,
  grantsMade,
  ifUnchanged,
  parseMark,
  platformStatements,
  type RolePasswords,
  roleStatements,
  schemaQuery,
  type ToolsFacts,
  toolStatements,
  toolsMade,
  toolsQuery,
} from './roles.ts'
import { fitsVerifier, scramVerifier } from './scram.ts'
import type { Sessions } from './sessions.ts'
import { readState, type ServerState } from './state.ts'

export type DesiredRoles = {
  passwords: Readonly<Record<DatabaseRole, string>>
  /** Names these passwords (marks.ts). */
  mark: string
  /** Where there is none, a role of that name of ours is locked. */
  authenticator?: DesiredAuthenticator | undefined
  /** Where there is none, what `mcp` keeps is left as it is, and a copy that has something of it is not opened. */
  mcpState?: DesiredMcpState | undefined
}

/**
 * Reads the passwords from the cluster, not from a cache. It is called with the lock on roles, so an operator that lost its
 * lease while it was frozen never sets a password that has been replaced since.
 */
export type ReadDesiredRoles = () => Promise<DesiredRoles>

/** It copies a template, and waits for the disk. */
const createDatabaseTimeoutMs = 30_000

type Request = {
  target: PostgresTarget
  desired: ReadDesiredRoles
  /** No password of a user's role is set. */
  keepsPasswords: boolean
  signal: AbortSignal
  logger: Logger
}

/** With the lock on roles: does what `ensureRoles` of the administrator promises, but for opening a copy. */
export async function ensureRoles(
  sessions: Sessions,
  connection: Connection,
  { target, desired, keepsPasswords, signal, logger }: Request,
): Promise<void> {
  const wanted = await desired()
  const state = await ensureRolesAndDatabase(connection, wanted, keepsPasswords)
  await ensureAuthenticator(connection, state, wanted.authenticator)
  await ensureMcpState(sessions, connection, target, state, wanted.mcpState, signal)
  if (grantsMade(state) && toolsMade(state)) return
  const work = (inside: Connection) => grantInside(connection, inside, state)
  await sessions.connect(target, applicationDatabase, signal, work, state.version)
  logger.info({ host: target.host, server: target.serverName }, 'granted the privileges of the database roles')
}

/** Opens a closed copy, unless it still has something of its source's, or a role has another password than the desired one. */
export async function openCopy(connection: Connection, desired: ReadDesiredRoles): Promise<void> {
  const state = await readState(connection)
  const { dataDirectory, copy } = state
  if (!copy.isClosed || copy.inherited > 0) return
  const wanted = await desired()
  const facts = await authenticatorFacts(connection, state, undefined)
  if (!haveMark(state, wanted) || !isClosedFor(state, facts, wanted.authenticator)) return
  if (!isStateClosedFor(state.mcpState, wanted.mcpState)) return
  for (const statement of openStatements(dataDirectory)) await connection.rows(statement)
}

/** Reads the state again between the two: each writes its mark over the mark of the one before. */
async function grantInside(connection: Connection, inside: Connection, state: ServerState): Promise<void> {
  if (!grantsMade(state)) await makeGrants(inside, state)
  const after = await readState(connection)
  if (toolsMade(after)) return
  const [facts] = await inside.rows<ToolsFacts>(toolsQuery)
  if (facts !== undefined) await inside.transaction([...ifUnchanged(after), ...toolStatements(after, facts)])
}

async function makeGrants(connection: Connection, state: ServerState): Promise<void> {
  const schemas = await connection.rows<{ name: string }>(schemaQuery)
  const names = schemas.map(({ name }) => name)
  await connection.transaction([...ifUnchanged(state), ...grantStatements(state, names)])
}

/** What of the authenticator cannot be read from the state; undefined where there is no such role, and none is wanted. */
export async function authenticatorFacts(
  connection: Connection,
  { roles, mcpState }: ServerState,
  wanted: DesiredAuthenticator | undefined,
): Promise<AuthenticatorFacts | undefined> {
  if (wanted === undefined && roles.authenticator === undefined) return undefined
  const others = isRoleOurs(mcpState) ? [mcpStateRole] : []
  const query = authenticatorQuery(wanted?.anonymousRoles ?? [], others)
  const [row] = await connection.rows<{ facts: AuthenticatorFacts }>(query)
  return row?.facts
}

async function ensureAuthenticator(
  connection: Connection,
  state: ServerState,
  wanted: DesiredAuthenticator | undefined,
): Promise<void> {
  const facts = await authenticatorFacts(connection, state, wanted)
  if (facts === undefined) return
  const { verifier = null, comment } = state.roles.authenticator ?? {}
  const keeps =
    wanted === undefined ||
    isForeign(state, facts) ||
    (parseMark(comment).credentials === wanted.mark && (await fitsVerifier(wanted.password, verifier)))
  const made = keeps ? undefined : await scramVerifier(wanted.password)
  await connection.transaction(authenticatorStatements(state, facts, wanted, made))
}

/** Everything but the grants inside the application database. @returns the state after it */
async function ensureRolesAndDatabase(
  connection: Connection,
  desired: DesiredRoles,
  keepsPasswords: boolean,
): Promise<ServerState> {
  const state = await readState(connection)
  const passwords = keepsPasswords ? undefined : await passwordsToSet(state, desired)
  const statements = [...roleStatements(state, passwords), ...platformStatements(state)]
  await connection.transaction(statements)
  if (state.database === null && !state.hasInitialDatabase) {
    await connection.alone(createDatabase, createDatabaseTimeoutMs)
  }
  return statements.length > 0 || state.database === null ? readState(connection) : state
}

const hasMark = (state: ServerState, role: DatabaseRole, mark: string): boolean =>
  parseMark(state.roles[role]?.comment).credentials === markOfRole(mark, role)

const haveMark = (state: ServerState, { mark }: DesiredRoles): boolean =>
  databaseRoles.every(role => hasMark(state, role, mark))

/** The verifiers of the roles whose password does not carry the desired mark. */
async function passwordsToSet(state: ServerState, { passwords, mark }: DesiredRoles): Promise<RolePasswords> {
  const entries = await Promise.all(
    databaseRoles.map(async role => {
      return hasMark(state, role, mark) ? [] : [[role, await scramVerifier(passwords[role])] as const]
    }),
  )
  return { mark, verifiers: Object.fromEntries(entries.flat()) }
}
