/**
 * The SQL side of the operator: looks at a Postgres, and brings its roles and their privileges in order. Both are one
 * short connection or two; nothing is kept between calls but the client certificate. Retrying is the caller's.
 */
import type { Logger } from 'pino'
import { applicationDatabase, type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'
import { type Authority, type CertifiedKey, issueClientCertificate, needsRenewal } from '../pki/index.ts'
import { maintenanceDatabase, operatorCommonName } from './configuration.ts'
import { type Connection, type PostgresTarget, withConnection } from './connection.ts'
import { dropSlots, dropSubscription, openStatements, subscriptionsQuery, unlessOpen } from './copy.ts'
import { diskFull, PostgresError, type PostgresErrorReason, postgresErrorOf } from './errors.ts'
import { markOfRole } from './marks.ts'
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
import { scramVerifier } from './scram.ts'
import {
  type ChecksumFailures,
  type ConfigurationState,
  committedWrite,
  type RestorePoint,
  restorePointQuery,
  roomStatements,
  type ServerState,
  sizeQuery,
  stateQuery,
  volumeUseQuery,
} from './state.ts'
import { createVerdicts, type Verdicts } from './verdicts.ts'

export type { PostgresTarget } from './connection.ts'
export { diskFull, isPassing, PostgresError } from './errors.ts'
export type { ChecksumFailures, RestorePoint } from './state.ts'

export type RoleObservation = {
  exists: boolean
  /**
   * `ours`: the password given is the role's. `changed`: the role has another. `absent`: the role has none, or there is
   * no role. `unknown`: no password was given to compare with, or it could not be compared yet.
   */
  password: 'ours' | 'changed' | 'absent' | 'unknown'
  /** What names the password that was last set by us (see ensureRoles). */
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
      applicationDatabase: boolean
      /** SHA-256 of the certificate that it showed to the operator. */
      certificate: string | undefined
      /** Stands still where nothing is written. */
      walPosition: string | null
      checksumFailures: ChecksumFailures | null
      /**
       * Whether a record of WAL comes to rest on its disk: `hangs` where a commit is not answered for `commitTimeoutMs`.
       * `unasked`: somebody else looks after that.
       */
      wal: 'written' | 'hangs' | 'unasked'
      /** Whether something more can be written to its volume. */
      hasRoom: boolean
      /** What of the operator's files is in force. */
      configuration: ConfigurationState
      /** It is a copy that lets in nobody but the operator: see instance/copy.ts. */
      closed?: { inherited: number } | undefined
      /** Whether ensureRoles would find nothing to do for users' roles but passwords. */
      privilegesInOrder: boolean
      /** Whether it would find nothing to do for what is the platform's own; no user waits for that. */
      platformInOrder: boolean
    }

type Reachable = Extract<PostgresObservation, { reachable: true }>

export type DesiredRoles = {
  passwords: Readonly<Record<DatabaseRole, string>>
  /** Names these passwords (marks.ts). */
  mark: string
}

/**
 * Reads the passwords from the cluster itself. It is called while no other operator can change the roles, so an operator that
 * lost its lease while it was frozen never sets a password that has been replaced since.
 */
export type ReadDesiredRoles = () => Promise<DesiredRoles>

type Passwords = Readonly<Partial<Record<DatabaseRole, string>>>

type ObserveOptions = {
  /** To be compared with the roles'. */
  passwords: Passwords | undefined
  /** Has a commit written to WAL, where nothing in the pod itself sees to it. */
  commits: boolean
}

export type PostgresAdministrator = {
  /** Looks at a Postgres. One that cannot be reached is an observation, not an error. @throws the signal's reason */
  observe(target: PostgresTarget, options: ObserveOptions, signal: AbortSignal): Promise<PostgresObservation>

  /**
   * The size of the application database in bytes; undefined where there is none. It may take long where there are many
   * files, so nothing else may wait for it. @throws PostgresError; the signal's reason
   */
  measure(target: PostgresTarget, signal: AbortSignal): Promise<number | undefined>

  /**
   * What all databases, their WAL and their temporary files take up of the volume, in bytes. As patient as `measure`.
   * @throws PostgresError; the signal's reason
   */
  measureVolume(target: PostgresTarget, signal: AbortSignal): Promise<number>

  /**
   * Makes the roles, the application database and its grants, or restores what differs; idempotent, and safe to
   * break off and to run twice at once. A role's password is set where the role is new or carries another mark; a role
   * that carries its part of this mark and another password was changed by its user, and keeps it. `opens`: then does as `open`.
   * @throws PostgresError; RangeError for a password that is not printable ASCII; what `desired` throws; the signal's reason
   */
  ensureRoles(
    target: PostgresTarget,
    desired: ReadDesiredRoles,
    signal: AbortSignal,
    then?: { opens?: boolean | undefined },
  ): Promise<void>

  /**
   * Does `work` while no operator changes the roles: an operator that changes them afterwards reads what is desired after `work`.
   * @throws PostgresError; what `work` throws; the signal's reason
   */
  withRolesLocked(target: PostgresTarget, work: () => Promise<void>, signal: AbortSignal): Promise<void>

  /**
   * Takes from a closed copy what is its source's: replication slots and subscriptions, without a word to their publishers.
   * Idempotent, and nothing is dropped once the copy is open. @throws PostgresError; the signal's reason
   */
  detach(target: PostgresTarget, signal: AbortSignal): Promise<void>

  /**
   * Lets clients into a copy that was closed. Does nothing while the copy has something of its source's, or a role has not the
   * desired password. @throws PostgresError; what `desired` throws; the signal's reason
   */
  open(target: PostgresTarget, desired: ReadDesiredRoles, signal: AbortSignal): Promise<void>

  /** Has the server read its certificate and configuration again. @throws PostgresError; the signal's reason */
  reload(target: PostgresTarget, signal: AbortSignal): Promise<void>

  /**
   * Has it write all that it holds to its files, so that a copy of them recovers fast, and says from where. It takes as
   * long as the disk takes. @throws PostgresError; the signal's reason
   */
  checkpoint(target: PostgresTarget, signal: AbortSignal): Promise<RestorePoint>
}

/** It copies a template, and waits for the disk. */
const createDatabaseTimeoutMs = 30_000
/** A commit that takes longer hangs: what a busy disk takes is far less. */
const commitTimeoutMs = 20_000
/** A hundred thousand files on a cold disk. */
const measureTimeoutMs = 120_000
/** All of a large shared_buffers, to a slow disk that others write to as well. */
const checkpointTimeoutMs = 1800_000

/**
 * Held until the connection ends, so that two operators do not change roles, or open a copy, at once. Postgres ends the
 * session of one that is frozen after a while (connection.ts). No user can take the lock: locks belong to a database, and
 * only the operator can connect to this one.
 */
const roleLock = 'SELECT pg_advisory_lock(7231904)'

export function createAdministrator({
  authority,
  now,
  logger,
}: {
  /** `known`: further ones that servers may trust instead. */
  authority: Authority & { known?: readonly Authority[] }
  now: () => number
  logger: Logger
}): PostgresAdministrator {
  const verdicts = createVerdicts({ now })
  const certificates = (authority.known ?? [authority]).map(issuer => clientCertificate(issuer, now))

  /** By the certificate of the first authority that the server trusts: it may not have heard of the newest, or of older ones. */
  const connect = async <T>(
    target: PostgresTarget,
    database: string,
    signal: AbortSignal,
    work: (connection: Connection) => Promise<T>,
    version?: number,
  ): Promise<T> => {
    let refused: unknown
    for (const certificate of certificates)
      try {
        return await withConnection(target, database, certificate(), signal, work, version)
      } catch (error) {
        if (!isRefusal(error)) throw error
        refused ??= error
      }
    throw refused
  }

  const locked = <T>(
    target: PostgresTarget,
    signal: AbortSignal,
    work: (connection: Connection) => Promise<T>,
  ): Promise<T> =>
    connect(target, maintenanceDatabase, signal, async connection => {
      await connection.rows(roleLock)
      return work(connection)
    })

  return {
    observe: async (target, { passwords, commits }, signal) => {
      try {
        const seen = await connect(target, maintenanceDatabase, signal, async connection => {
          const state = await readState(connection)
          const { certificate } = connection
          const wal = commits && !state.inRecovery ? await commit(connection) : ('unasked' as const)
          // What the disk does not take is not waited for twice.
          const hasRoom = wal === 'hangs' || (await findRoom(connection, state))
          return { state, more: { certificate, wal, hasRoom } }
        })
        return { ...(await observationOf(seen.state, passwords ?? {}, verdicts, signal)), ...seen.more }
      } catch (error) {
        if (!(error instanceof PostgresError)) throw error
        const { reason, message } = error
        return { reachable: false, reason, message }
      }
    },

    measure: (target, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        const [row] = await connection.patiently<{ bytes: number }>(sizeQuery, measureTimeoutMs)
        return row?.bytes
      }),

    measureVolume: (target, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        const [row] = await connection.patiently<{ bytes: number }>(volumeUseQuery, measureTimeoutMs)
        if (row === undefined) throw new PostgresError('statement', 'the server answered without a row')
        return row.bytes
      }),

    ensureRoles: (target, desired, signal, { opens = false } = {}) =>
      locked(target, signal, async connection => {
        const state = await ensureRolesAndDatabase(connection, await desired())
        if (!grantsMade(state) || !toolsMade(state)) {
          const work = (inside: Connection) => workInside(connection, inside, state)
          await connect(target, applicationDatabase, signal, work, state.version)
          logger.info({ host: target.host, server: target.serverName }, 'granted the privileges of the database roles')
        }
        if (opens) await openCopy(connection, desired)
      }),

    withRolesLocked: (target, work, signal) => locked(target, signal, work),

    detach: (target, signal) =>
      locked(target, signal, async connection => {
        await connection.rows(dropSlots)
        const found = await connection.rows<{ database: string; names: string[]; version: number }>(subscriptionsQuery)
        for (const { database, names, version } of found) {
          const statements = [unlessOpen, ...names.flatMap(dropSubscription)]
          await connection.rows(unlessOpen)
          await connect(target, database, signal, inside => inside.transaction(statements), version)
          logger.info({ server: target.serverName, subscriptions: names.length }, 'dropped what a copy had inherited')
        }
      }),

    open: (target, desired, signal) => locked(target, signal, connection => openCopy(connection, desired)),

    reload: (target, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        await connection.rows('SELECT pg_reload_conf()')
      }),

    checkpoint: (target, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        await connection.patiently({ text: 'CHECKPOINT' }, checkpointTimeoutMs)
        const [point] = await connection.rows<RestorePoint>(restorePointQuery)
        if (point === undefined) throw new PostgresError('statement', 'the server answered without a row')
        return point
      }),
  }
}

async function openCopy(connection: Connection, desired: ReadDesiredRoles): Promise<void> {
  const state = await readState(connection)
  const { dataDirectory, copy } = state
  if (!copy.isClosed || copy.inherited > 0 || !haveMark(state, await desired())) return
  for (const statement of openStatements(dataDirectory)) await connection.rows(statement)
}

/** Marks are written one after the other, each over what the one before left. */
async function workInside(connection: Connection, inside: Connection, state: ServerState): Promise<void> {
  if (!grantsMade(state)) await makeGrants(inside, state)
  const after = await readState(connection)
  if (toolsMade(after)) return
  const [facts] = await inside.rows<ToolsFacts>(toolsQuery)
  if (facts !== undefined) await inside.transaction([...ifUnchanged(after), ...toolStatements(after, facts)])
}

/** A client's certificate of the operator's, renewed in time. */
function clientCertificate(issuer: Authority, now: () => number): () => CertifiedKey {
  let current: CertifiedKey | undefined
  return () => {
    if (current === undefined || needsRenewal(current.cert, now))
      current = issueClientCertificate(issuer, { commonName: operatorCommonName }, now)
    return current
  }
}

/** A server that does not trust a client's certificate may just hang up, once the handshake is over on our side. */
const isRefusal = (error: unknown): boolean =>
  error instanceof PostgresError &&
  (error.reason === 'tls' || error.reason === 'auth' || error.code === 'ECONNRESET' || error.code === 'EPIPE')

async function makeGrants(connection: Connection, state: ServerState): Promise<void> {
  const schemas = await connection.rows<{ name: string }>(schemaQuery)
  const names = schemas.map(({ name }) => name)
  await connection.transaction([...ifUnchanged(state), ...grantStatements(state, names)])
}

async function readState(connection: Connection): Promise<ServerState> {
  const [row] = await connection.rows<{ state: ServerState }>(stateQuery)
  if (row === undefined) throw new PostgresError('statement', 'the server answered without a row')
  return row.state
}

/** The server cannot break off a wait for its disk, so this only stops waiting for the server. */
async function commit(connection: Connection): Promise<'written' | 'hangs'> {
  try {
    await connection.patiently({ text: committedWrite }, commitTimeoutMs)
    return 'written'
  } catch (error) {
    const { reason, code } = postgresErrorOf(error)
    if (reason === 'timeout') return 'hangs'
    // No room for WAL is no room: that is found out next.
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

/** Everything but the grants inside the application database; returns the state that this leaves. */
async function ensureRolesAndDatabase(connection: Connection, desired: DesiredRoles): Promise<ServerState> {
  const state = await readState(connection)
  const statements = [...roleStatements(state, await passwordsToSet(state, desired)), ...platformStatements(state)]
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

/** The verifiers of those roles whose password is to be set now. */
async function passwordsToSet(state: ServerState, { passwords, mark }: DesiredRoles): Promise<RolePasswords> {
  const entries = await Promise.all(
    databaseRoles.map(async role => {
      return hasMark(state, role, mark) ? [] : [[role, await scramVerifier(passwords[role])] as const]
    }),
  )
  return { mark, verifiers: Object.fromEntries(entries.flat()) }
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
