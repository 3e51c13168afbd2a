/**
 * The SQL side of the operator: looks at a Postgres, and brings its roles and their privileges in order. Both are one
 * short connection or two; nothing is kept between calls but the client certificate. Retrying is the caller's.
 */
import type { Logger } from 'pino'
import { applicationDatabase, type DatabaseRole, databaseRoles } from '../../crds/index.ts'
import { type Authority, type CertifiedKey, issueClientCertificate, needsRenewal } from '../pki/index.ts'
import { operatorCommonName } from './configuration.ts'
import { type Connection, type PostgresTarget, withConnection } from './connection.ts'
import { diskFull, PostgresError, type PostgresErrorReason, postgresErrorOf } from './errors.ts'
import {
  createDatabase,
  grantStatements,
  grantsMade,
  parseMark,
  type RolePasswords,
  roleStatements,
  schemaQuery,
} from './roles.ts'
import { fitsVerifier, scramVerifier } from './scram.ts'
import { maintenanceDatabase, roomStatements, type ServerState, stateQuery } from './state.ts'

export type { PostgresTarget } from './connection.ts'
export { diskFull, PostgresError, type PostgresErrorReason } from './errors.ts'

export type RoleObservation = {
  exists: boolean
  /**
   * `ours`: the password given is the role's. `changed`: the role has another. `absent`: the role has none, or there is
   * no role. `unknown`: no password was given to compare with.
   */
  password: 'ours' | 'changed' | 'absent' | 'unknown'
  /** The mark of the credentials whose password was last set by us (see ensureRoles). */
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
      /** Size of the application database; 0 where there is none. */
      databaseBytes: number
      /** Whether something more can be written to its volume. */
      hasRoom: boolean
      /** Whether ensureRoles would find nothing to do but passwords. */
      privilegesInOrder: boolean
    }

type Reachable = Extract<PostgresObservation, { reachable: true }>

export type DesiredRoles = {
  passwords: Readonly<Record<DatabaseRole, string>>
  /** Names these passwords: the uid of the Secret they stand in. */
  mark: string
}

export type PostgresAdministrator = {
  /** Looks at a Postgres. One that cannot be reached is an observation, not an error. @throws the signal's reason */
  observe(
    target: PostgresTarget,
    passwords: Readonly<Partial<Record<DatabaseRole, string>>> | undefined,
    signal: AbortSignal,
  ): Promise<PostgresObservation>

  /**
   * Makes the three roles, the application database and its grants, or restores what differs; idempotent, and safe to
   * break off and to run twice at once. A role's password is set where the role is new or carries another mark; a role
   * that carries this mark and another password was changed by its user, and keeps it.
   * @throws PostgresError; RangeError for a password that is not printable ASCII; the signal's reason
   */
  ensureRoles(target: PostgresTarget, desired: DesiredRoles, signal: AbortSignal): Promise<void>

  /** Has the server read its certificate and configuration again. @throws PostgresError; the signal's reason */
  reload(target: PostgresTarget, signal: AbortSignal): Promise<void>
}

/** It copies a template, and waits for the disk. */
const createDatabaseTimeoutMs = 30_000

/**
 * Held until the connection ends, so that two operators do not grant at once. No user can take it: locks belong to a
 * database, and only the operator can connect to this one.
 */
const roleLock = 'SELECT pg_advisory_lock(7231904)'

export function createAdministrator({
  authority,
  now,
  logger,
}: {
  authority: Authority
  now: () => number
  logger: Logger
}): PostgresAdministrator {
  let current: CertifiedKey | undefined
  const certificate = (): CertifiedKey => {
    if (current === undefined || needsRenewal(current.cert, now)) {
      current = issueClientCertificate(authority, { commonName: operatorCommonName }, now)
    }
    return current
  }

  const connect = <T>(
    target: PostgresTarget,
    database: string,
    signal: AbortSignal,
    work: (connection: Connection) => Promise<T>,
    version?: number,
  ): Promise<T> => withConnection(target, database, certificate(), signal, work, version)

  return {
    observe: async (target, passwords, signal) => {
      try {
        const [state, hasRoom] = await connect(target, maintenanceDatabase, signal, async connection => {
          const state = await readState(connection)
          return [state, await findRoom(connection, state)] as const
        })
        return { ...(await observationOf(state, passwords ?? {})), hasRoom }
      } catch (error) {
        if (!(error instanceof PostgresError)) throw error
        const { reason, message } = error
        return { reachable: false, reason, message }
      }
    },

    ensureRoles: (target, desired, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        await connection.rows(roleLock)
        const state = await ensureRolesAndDatabase(connection, desired)
        if (grantsMade(state)) return
        await connect(target, applicationDatabase, signal, inside => makeGrants(inside, state), state.version)
        logger.info({ host: target.host, server: target.serverName }, 'granted the privileges of the database roles')
      }),

    reload: (target, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        await connection.rows('SELECT pg_reload_conf()')
      }),
  }
}

async function makeGrants(connection: Connection, state: ServerState): Promise<void> {
  const schemas = await connection.rows<{ name: string }>(schemaQuery)
  const names = schemas.map(({ name }) => name)
  await connection.transaction(grantStatements(state, names))
}

async function readState(connection: Connection): Promise<ServerState> {
  const [row] = await connection.rows<{ state: ServerState }>(stateQuery)
  if (row === undefined) throw new PostgresError('statement', 'the server answered without a row')
  return row.state
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
  const statements = roleStatements(state, await passwordsToSet(state, desired))
  await connection.transaction(statements)
  if (state.database === null && !state.hasInitialDatabase) {
    await connection.alone(createDatabase, createDatabaseTimeoutMs)
  }
  return statements.length > 0 || state.database === null ? readState(connection) : state
}

/** The verifiers of those roles whose password is to be set now. */
async function passwordsToSet(state: ServerState, { passwords, mark }: DesiredRoles): Promise<RolePasswords> {
  const entries = await Promise.all(
    databaseRoles.map(async role => {
      const existing = state.roles[role]
      const isOurs = existing !== undefined && parseMark(existing.comment).credentials === mark
      return isOurs ? [] : [[role, await scramVerifier(passwords[role])] as const]
    }),
  )
  return { mark, verifiers: Object.fromEntries(entries.flat()) }
}

async function observationOf(
  state: ServerState,
  passwords: Readonly<Partial<Record<DatabaseRole, string>>>,
): Promise<Omit<Reachable, 'hasRoom'>> {
  const observed = await Promise.all(databaseRoles.map(role => observeRole(state, role, passwords[role])))
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
    databaseBytes: state.database?.bytes ?? 0,
    privilegesInOrder: roleStatements(state).length === 0 && grantsMade(state),
  }
}

async function observeRole(
  state: ServerState,
  role: DatabaseRole,
  password: string | undefined,
): Promise<RoleObservation> {
  const existing = state.roles[role]
  const verifier = existing?.verifier ?? null
  const compare = async () => {
    if (verifier === null) return 'absent'
    if (password === undefined) return 'unknown'
    return (await fitsVerifier(password, verifier)) ? 'ours' : 'changed'
  }
  return {
    exists: existing !== undefined,
    password: await compare(),
    credentialsMark: parseMark(existing?.comment).credentials,
  }
}
