/** What the operator observes of a Postgres: over one connection, and by comparing passwords with their verifiers. */
import { type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'
import {
  type AuthenticatorFacts,
  type AuthenticatorObservation,
  authenticatorObservation,
  type DesiredAuthenticator,
  isLeftOpen,
} from './authenticator.ts'
import { maintenanceDatabase } from './configuration.ts'
import type { Connection, PostgresTarget } from './connection.ts'
import { observeMcpState } from './ensure-mcp-state.ts'
import { authenticatorFacts } from './ensure-roles.ts'
import { diskFull, type PostgresErrorReason, postgresErrorOf } from './errors.ts'
import type { DesiredMcpState, McpStateObservation } from './mcp-state.ts'
import { findReferences, type References, type ReferencesAnswer } from './references.ts'
import { grantsMade, parseMark, platformStatements, roleStatements, toolsMade } from './roles.ts'
import type { Sessions } from './sessions.ts'
import {
  type ChecksumFailures,
  type ConfigurationState,
  committedWrite,
  readState,
  roomStatements,
  type ServerState,
} from './state.ts'
import type { Verdicts } from './verdicts.ts'

export type RoleObservation = {
  exists: boolean
  /**
   * `ours`: the password given is the role's. `changed`: the role has another. `absent`: the role has none, or there is
   * no role. `unknown`: no password was given to compare with, or it could not be compared yet.
   */
  password: 'ours' | 'changed' | 'absent' | 'unknown'
  /** Names the password that the operator set last (see ensureRoles). */
  credentialsMark: string | undefined
}

export type PostgresObservation =
  | { reachable: false; reason: PostgresErrorReason; message: string }
  | {
      reachable: true
      /** As server_version_num: 170010 for 17.10. */
      serverVersion: number
      systemIdentifier: string
      inRecovery: boolean
      /** Whether data checksums are on. */
      checksums: boolean
      roles: Record<DatabaseRole, RoleObservation>
      /** Of the login of `rest`, where it was asked for. */
      authenticator?: AuthenticatorObservation | undefined
      /** What the configurations of services name, where that was asked for. */
      references?: ReferencesAnswer | undefined
      /** Of where `mcp` keeps its conversations, where it was asked for. */
      mcpState?: McpStateObservation | undefined
      applicationDatabase: boolean
      /** SHA-256 of the certificate that it showed to the operator. */
      certificate: string | undefined
      /** Does not change while nothing is written. */
      walPosition: string | null
      checksumFailures: ChecksumFailures | null
      /**
       * Whether WAL reaches the disk. `hangs`: a commit got no answer for `commitTimeoutMs`. `unasked`: the pod itself
       * checks that.
       */
      wal: 'written' | 'hangs' | 'unasked'
      /** Whether something more can be written to its volume. */
      hasRoom: boolean
      /** Which of the operator's files the server has applied. */
      configuration: ConfigurationState
      /** Present on a copy that accepts only the operator: see instance/copy.ts. */
      closed?: { inherited: number } | undefined
      /** False if ensureRoles would change something of users' roles besides passwords. */
      privilegesInOrder: boolean
      /** False if ensureRoles would change something of the platform's own; no user waits for that. */
      platformInOrder: boolean
    }

type Reachable = Extract<PostgresObservation, { reachable: true }>

type Passwords = Readonly<Partial<Record<DatabaseRole, string>>>

export type ObserveOptions = {
  /** Compared with the roles' passwords. */
  passwords: Passwords | undefined
  /** Commits to WAL. For a pod that does not check its WAL itself. */
  commits: boolean
  /** The login of `rest` as it is to be. Where none is given, one of ours that can log in makes `platformInOrder` false. */
  authenticator?: DesiredAuthenticator | undefined
  /** What the configurations of services name in the application database. */
  references?: References | undefined
  /** Where `mcp` keeps its conversations. What is to be dropped makes `platformInOrder` false. */
  mcpState?: DesiredMcpState | undefined
}

/** A commit that takes longer hangs: a busy disk takes far less. */
const commitTimeoutMs = 20_000

/** Observes a Postgres. @throws PostgresError where it cannot be reached; the signal's reason */
export async function observeServer(
  sessions: Sessions,
  target: PostgresTarget,
  { passwords, commits, authenticator, references, mcpState: wanted }: ObserveOptions,
  verdicts: Verdicts,
  signal: AbortSignal,
): Promise<Reachable> {
  const seen = await sessions.connect(target, maintenanceDatabase, signal, async connection => {
    const state = await readState(connection)
    const wal = commits && !state.inRecovery ? await commit(connection) : ('unasked' as const)
    // A write that hangs is not tried twice.
    const hasRoom = wal === 'hangs' || (await findRoom(connection, state))
    const facts = await authenticatorFacts(connection, state, authenticator)
    return { state, facts, more: { certificate: connection.certificate, wal, hasRoom } }
  })
  const observed = await observationOf(seen.state, passwords ?? {}, verdicts, signal)
  const { version, database, inRecovery } = seen.state
  // After the first connection, so that the operator never holds two for one probe.
  const found =
    references === undefined || database === null || inRecovery
      ? {}
      : { references: await findReferences(sessions, target, references, version, signal) }
  const { mcpState, isLeft } = await observeMcpState(seen.state, wanted, verdicts, signal)
  return {
    ...observed,
    ...(await observeAuthenticator(seen, authenticator, verdicts, signal)),
    ...(mcpState === undefined ? {} : { mcpState }),
    ...(isLeft ? { platformInOrder: false } : {}),
    ...seen.more,
    ...found,
  }
}

async function observeAuthenticator(
  { state, facts }: { state: ServerState; facts: AuthenticatorFacts | undefined },
  wanted: DesiredAuthenticator | undefined,
  verdicts: Verdicts,
  signal: AbortSignal,
): Promise<Partial<Reachable>> {
  if (facts === undefined) return {}
  if (wanted === undefined) return isLeftOpen(state, facts) ? { platformInOrder: false } : {}
  const verifier = state.roles.authenticator?.verifier ?? null
  const verdict = verifier === null ? 'differs' : await verdicts.judge(wanted.password, verifier, signal)
  return { authenticator: authenticatorObservation(state, facts, wanted, verdict !== 'differs') }
}

/** The server cannot cancel a wait for its disk, so this only stops waiting for the server. */
async function commit(connection: Connection): Promise<'written' | 'hangs'> {
  try {
    await connection.patiently({ text: committedWrite }, commitTimeoutMs)
    return 'written'
  } catch (error) {
    const { reason, code } = postgresErrorOf(error)
    if (reason === 'timeout') return 'hangs'
    // The volume is full: findRoom reports that.
    if (code === diskFull) return 'written'
    throw error
  }
}

async function findRoom(connection: Connection, { dataDirectory }: ServerState): Promise<boolean> {
  try {
    await connection.transaction(roomStatements(dataDirectory))
    return true
  } catch (error) {
    if (postgresErrorOf(error).code === diskFull) return false
    throw error
  }
}

async function observationOf(
  state: ServerState,
  passwords: Passwords,
  verdicts: Verdicts,
  signal: AbortSignal,
): Promise<Omit<Reachable, 'certificate' | 'wal' | 'hasRoom'>> {
  const compare = (role: DatabaseRole) => observeRole(state, role, passwords[role], verdicts, signal)
  const observed = await Promise.all(databaseRoles.map(compare))
  const [admin, app, readOnly] = observed
  if (admin === undefined || app === undefined || readOnly === undefined) throw new TypeError('three roles')
  return {
    reachable: true,
    serverVersion: state.version,
    systemIdentifier: state.systemIdentifier,
    inRecovery: state.inRecovery,
    checksums: state.checksums,
    roles: { admin, app, app_read_only: readOnly },
    applicationDatabase: state.database !== null,
    walPosition: state.walPosition,
    checksumFailures: state.checksumFailures,
    configuration: state.configuration,
    ...(state.copy.isClosed ? { closed: { inherited: state.copy.inherited } } : {}),
    platformInOrder: platformStatements(state).length === 0 && toolsMade(state),
    privilegesInOrder: roleStatements(state).length === 0 && grantsMade(state),
  }
}

const passwordByVerdict = { fits: 'ours', differs: 'changed', deferred: 'unknown' } as const

async function observeRole(
  state: ServerState,
  role: DatabaseRole,
  password: string | undefined,
  verdicts: Verdicts,
  signal: AbortSignal,
): Promise<RoleObservation> {
  const existing = state.roles[role]
  const verifier = existing?.verifier ?? null
  const compare = async () => {
    if (verifier === null) return 'absent'
    if (password === undefined) return 'unknown'
    return passwordByVerdict[await verdicts.judge(password, verifier, signal)]
  }
  return {
    exists: existing !== undefined,
    password: await compare(),
    credentialsMark: parseMark(existing?.comment).credentials,
  }
}
