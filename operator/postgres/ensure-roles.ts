/**
 * Creates the roles, the application database and its grants, or corrects differences. Opens a copy when they are
 * correct.
 */
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
import { type DesiredMcpState, isOwnRole, isStateClosedFor } from './mcp-state.ts'
import { versionOfRole } from './password-versions.ts'
import {
  createDatabase,
  grantStatements,
  grantsMade,
  ifUnchanged,
  parseRecord,
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
  /** The version of these passwords (password-versions.ts). */
  passwordVersion: string
  /** If absent, a role with that name that the operator created is locked. */
  authenticator?: DesiredAuthenticator | undefined
  /** If absent, the data of `mcp` are not changed, and a copy that has its source's data of `mcp` is not opened. */
  mcpState?: DesiredMcpState | undefined
}

/**
 * Reads the passwords from the cluster, not from a cache. It is called with the lock on roles. So an operator that was
 * frozen and lost its lease never sets a password that was replaced meanwhile.
 */
export type ReadDesiredRoles = () => Promise<DesiredRoles>

/** CREATE DATABASE copies a template, and waits for the disk. */
const createDatabaseTimeoutMs = 30_000

type Request = {
  target: PostgresTarget
  desired: ReadDesiredRoles
  /** Sets no password of a user's role. */
  keepsPasswords: boolean
  signal: AbortSignal
  logger: Logger
}

/** Implements the administrator's `ensureRoles`, except for opening a copy. Needs the lock on roles. */
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

/** Opens a closed copy. Not if it still has its source's objects, or if a role does not have the desired password. */
export async function openCopy(connection: Connection, desired: ReadDesiredRoles): Promise<void> {
  const state = await readState(connection)
  const { dataDirectory, copy } = state
  if (!copy.isClosed || copy.inherited > 0) return
  const wanted = await desired()
  const facts = await authenticatorFacts(connection, state, undefined)
  if (!haveVersion(state, wanted) || !isClosedFor(state, facts, wanted.authenticator)) return
  if (!isStateClosedFor(state.mcpState, wanted.mcpState)) return
  for (const statement of openStatements(dataDirectory)) await connection.rows(statement)
}

/** Reads the state again between the two steps: each overwrites the comment that the other wrote. */
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

/**
 * Facts about the authenticator that the state does not contain. Undefined if the role does not exist and is not
 * desired.
 */
export async function authenticatorFacts(
  connection: Connection,
  { roles, mcpState }: ServerState,
  wanted: DesiredAuthenticator | undefined,
): Promise<AuthenticatorFacts | undefined> {
  if (wanted === undefined && roles.authenticator === undefined) return undefined
  const others = isOwnRole(mcpState) ? [mcpStateRole] : []
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
    (parseRecord(comment).credentials === wanted.passwordVersion && (await fitsVerifier(wanted.password, verifier)))
  const made = keeps ? undefined : await scramVerifier(wanted.password)
  await connection.transaction(authenticatorStatements(state, facts, wanted, made))
}

/** Everything except the grants inside the application database. @returns the new state */
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

const hasVersion = (state: ServerState, role: DatabaseRole, passwordVersion: string): boolean =>
  parseRecord(state.roles[role]?.comment).credentials === versionOfRole(passwordVersion, role)

const haveVersion = (state: ServerState, { passwordVersion }: DesiredRoles): boolean =>
  databaseRoles.every(role => hasVersion(state, role, passwordVersion))

/** The verifiers of the roles that do not record the desired password version. */
async function passwordsToSet(
  state: ServerState,
  { passwords, passwordVersion }: DesiredRoles,
): Promise<RolePasswords> {
  const entries = await Promise.all(
    databaseRoles.map(async role => {
      return hasVersion(state, role, passwordVersion) ? [] : [[role, await scramVerifier(passwords[role])] as const]
    }),
  )
  return { passwordVersion, verifiers: Object.fromEntries(entries.flat()) }
}
