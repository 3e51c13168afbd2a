/** Observes a Postgres over one connection, and compares passwords with their verifiers. */
import { type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'
import {
  type AuthenticatorFacts,
  type AuthenticatorObservation,
  authenticatorObservation,
  type DesiredAuthenticator,
  remainsOpen,
} from './authenticator.ts'
import { maintenanceDatabase } from './configuration.ts'
import type { Connection, PostgresTarget } from './connection.ts'
import { observeMcpState } from './ensure-mcp-state.ts'
import { authenticatorFacts } from './ensure-roles.ts'
import { diskFull, type PostgresErrorReason, postgresErrorOf } from './errors.ts'
import type { DesiredMcpState, McpStateObservation } from './mcp-state.ts'
import type { PasswordChecks } from './password-checks.ts'
import { findReferences, type References, type ReferencesAnswer } from './references.ts'
import { grantsMade, parseRecord, platformStatements, roleStatements, toolsMade } from './roles.ts'
import type { Sessions } from './sessions.ts'
import {
  type ChecksumFailures,
  type ConfigurationState,
  committedWrite,
  freeSpaceStatements,
  readState,
  type ServerState,
} from './state.ts'

export type RoleObservation = {
  exists: boolean
  /**
   * `ours`: the role has the given password. `changed`: the role has another password. `absent`: the role has no
   * password, or does not exist. `unknown`: no password was given, or the comparison was not possible yet.
   */
  password: 'ours' | 'changed' | 'absent' | 'unknown'
  /** The version of the password that the operator set last (see ensureRoles). */
  passwordVersion: string | undefined
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
      /** The login of `rest`, if requested. */
      authenticator?: AuthenticatorObservation | undefined
      /** The objects that services' configurations name, if requested. */
      references?: ReferencesAnswer | undefined
      /** The storage of `mcp` for its conversations, if requested. */
      mcpState?: McpStateObservation | undefined
      applicationDatabase: boolean
      /** SHA-256 of the certificate that it presented to the operator. */
      certificate: string | undefined
      /** Does not change while nothing is written. */
      walPosition: string | null
      checksumFailures: ChecksumFailures | null
      /**
       * Whether WAL reaches the disk. `hangs`: a commit got no answer within `commitTimeoutMs`. `unasked`: the pod
       * itself checks this.
       */
      wal: 'written' | 'hangs' | 'unasked'
      /** Whether its volume has free space. */
      hasFreeSpace: boolean
      /** Which of the operator's files the server has applied. */
      configuration: ConfigurationState
      /** The progress of an import, as its session reports it. */
      importing?: string | undefined
      /** Present on a copy that accepts only the operator: see instance/copy.ts. */
      closed?: { inherited: number } | undefined
      /** False if ensureRoles would change users' roles, apart from passwords. */
      privilegesInOrder: boolean
      /** False if ensureRoles would change the platform's own objects. Users do not depend on them. */
      platformInOrder: boolean
    }

type Reachable = Extract<PostgresObservation, { reachable: true }>

type Passwords = Readonly<Partial<Record<DatabaseRole, string>>>

export type ObserveOptions = {
  /** The passwords to compare with the roles' verifiers. */
  passwords: Passwords | undefined
  /** Whether to commit to WAL, for a pod that does not check its WAL itself. */
  commits: boolean
  /**
   * The desired login of `rest`. If it is absent, and a role that the operator created can still log in,
   * `platformInOrder` is false.
   */
  authenticator?: DesiredAuthenticator | undefined
  /** The objects in the application database that services' configurations name. */
  references?: References | undefined
  /** The desired storage of `mcp` for its conversations. If something must be dropped, `platformInOrder` is false. */
  mcpState?: DesiredMcpState | undefined
}

/** A commit that takes longer counts as hanging. Even on a busy disk, a commit takes far less. */
const commitTimeoutMs = 20_000

/** Observes a Postgres. @throws PostgresError if it cannot be reached; the signal's reason */
export async function observeServer(
  sessions: Sessions,
  target: PostgresTarget,
  { passwords, commits, authenticator, references, mcpState: wanted }: ObserveOptions,
  passwordChecks: PasswordChecks,
  signal: AbortSignal,
): Promise<Reachable> {
  const seen = await sessions.connect(target, maintenanceDatabase, signal, async connection => {
    const state = await readState(connection)
    const wal = commits && !state.inRecovery ? await commit(connection) : ('unasked' as const)
    // The probe does not repeat a write that hangs.
    const hasFreeSpace = wal === 'hangs' || (await checkFreeSpace(connection, state))
    const facts = await authenticatorFacts(connection, state, authenticator)
    return { state, facts, more: { certificate: connection.certificate, wal, hasFreeSpace } }
  })
  const observed = await observationOf(seen.state, passwords ?? {}, passwordChecks, signal)
  const { version, database, inRecovery } = seen.state
  // Only after the first connection is closed, so that a probe never uses two at the same time.
  const found =
    references === undefined || database === null || inRecovery
      ? {}
      : { references: await findReferences(sessions, target, references, version, signal) }
  const { mcpState, remains } = await observeMcpState(seen.state, wanted, passwordChecks, signal)
  return {
    ...observed,
    ...(await observeAuthenticator(seen, authenticator, passwordChecks, signal)),
    ...(mcpState === undefined ? {} : { mcpState }),
    ...(remains ? { platformInOrder: false } : {}),
    ...seen.more,
    ...found,
  }
}

async function observeAuthenticator(
  { state, facts }: { state: ServerState; facts: AuthenticatorFacts | undefined },
  wanted: DesiredAuthenticator | undefined,
  passwordChecks: PasswordChecks,
  signal: AbortSignal,
): Promise<Partial<Reachable>> {
  if (facts === undefined) return {}
  if (wanted === undefined) return remainsOpen(state, facts) ? { platformInOrder: false } : {}
  const verifier = state.roles.authenticator?.verifier ?? null
  const comparison = verifier === null ? 'differs' : await passwordChecks.check(wanted.password, verifier, signal)
  return { authenticator: authenticatorObservation(state, facts, wanted, comparison !== 'differs') }
}

/** The server cannot cancel a wait for its disk. So this only stops waiting for the server. */
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

async function checkFreeSpace(connection: Connection, { dataDirectory }: ServerState): Promise<boolean> {
  try {
    await connection.transaction(freeSpaceStatements(dataDirectory))
    return true
  } catch (error) {
    if (postgresErrorOf(error).code === diskFull) return false
    throw error
  }
}

async function observationOf(
  state: ServerState,
  passwords: Passwords,
  passwordChecks: PasswordChecks,
  signal: AbortSignal,
): Promise<Omit<Reachable, 'certificate' | 'wal' | 'hasFreeSpace'>> {
  const compare = (role: DatabaseRole) => observeRole(state, role, passwords[role], passwordChecks, signal)
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
    ...(state.importing === null ? {} : { importing: state.importing }),
    ...(state.copy.isClosed ? { closed: { inherited: state.copy.inherited } } : {}),
    platformInOrder: platformStatements(state).length === 0 && toolsMade(state),
    privilegesInOrder: roleStatements(state).length === 0 && grantsMade(state),
  }
}

const passwordByComparison = { fits: 'ours', differs: 'changed', deferred: 'unknown' } as const

async function observeRole(
  state: ServerState,
  role: DatabaseRole,
  password: string | undefined,
  passwordChecks: PasswordChecks,
  signal: AbortSignal,
): Promise<RoleObservation> {
  const existing = state.roles[role]
  const verifier = existing?.verifier ?? null
  const compare = async () => {
    if (verifier === null) return 'absent'
    if (password === undefined) return 'unknown'
    return passwordByComparison[await passwordChecks.check(password, verifier, signal)]
  }
  return {
    exists: existing !== undefined,
    password: await compare(),
    passwordVersion: parseRecord(existing?.comment).credentials,
  }
}
