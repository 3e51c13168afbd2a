/**
 * The operator's SQL: observes a Postgres, and creates or corrects its roles and their privileges. Each call opens one
 * or two short connections. Only the client certificate is reused between calls. The caller retries.
 */
import type { Logger } from 'pino'
import { maintenanceDatabase } from './configuration.ts'
import type { Connection, PostgresTarget } from './connection.ts'
import { dropSlots, dropSubscription, subscriptionsQuery, unlessOpen } from './copy.ts'
import { ensureRoles, openCopy, type ReadDesiredRoles } from './ensure-roles.ts'
import { PostgresError } from './errors.ts'
import { type ObserveOptions, observeServer, type PostgresObservation } from './observation.ts'
import { createPasswordChecks } from './password-checks.ts'
import { createSessions, type Sessions, type SigningAuthorities } from './sessions.ts'
import { type RestorePoint, restorePointQuery, sizeQuery, volumeUseQuery } from './state.ts'

export type { AuthenticatorObservation, DesiredAuthenticator } from './authenticator.ts'
export type { PostgresTarget } from './connection.ts'
export type { DesiredRoles, ReadDesiredRoles } from './ensure-roles.ts'
export { diskFull, isPassing, PostgresError } from './errors.ts'
export type { DesiredMcpState, McpStateObservation } from './mcp-state.ts'
export type { PostgresObservation, RoleObservation } from './observation.ts'
export type { FoundReferences, References, ReferencesAnswer, TableReference } from './references.ts'
export type { ChecksumFailures, RestorePoint } from './state.ts'

export type PostgresAdministrator = {
  /** Observes a Postgres. An unreachable one is an observation, not an error. @throws the signal's reason */
  observe(target: PostgresTarget, options: ObserveOptions, signal: AbortSignal): Promise<PostgresObservation>

  /**
   * The size of the application database in bytes. Undefined if the database does not exist. With many files this takes
   * long, so no other work may wait for it. @throws PostgresError; the signal's reason
   */
  measure(target: PostgresTarget, signal: AbortSignal): Promise<number | undefined>

  /**
   * The size of all databases, their WAL and their temporary files on the volume, in bytes. It takes as long as `measure`.
   * @throws PostgresError; the signal's reason
   */
  measureVolume(target: PostgresTarget, signal: AbortSignal): Promise<number>

  /**
   * Creates the roles, the application database and its grants, or corrects differences. Idempotent. Can be cancelled,
   * and can run in several operators at the same time. Sets a role's password if the role is new or records another
   * password version. If a role records this version but has another password, a user changed the password, and the
   * role keeps it. `opens`: afterwards also opens the copy, like `open`. `keepsPasswords`: sets no password of a user's
   * role.
   * @throws PostgresError; RangeError for a password that is not printable ASCII; errors of `desired`; the signal's
   *   reason
   */
  ensureRoles(
    target: PostgresTarget,
    desired: ReadDesiredRoles,
    signal: AbortSignal,
    then?: { opens?: boolean | undefined; keepsPasswords?: boolean | undefined },
  ): Promise<void>

  /**
   * Runs `work` while no other operator changes the roles. An operator that changes them later reads the desired roles
   * after `work`.
   * @throws PostgresError; errors of `work`; the signal's reason
   */
  withRolesLocked(target: PostgresTarget, work: () => Promise<void>, signal: AbortSignal): Promise<void>

  /**
   * Drops the replication slots and subscriptions that a closed copy inherited from its source, without a connection to
   * their publishers. Idempotent. Drops nothing after the copy is open. @throws PostgresError; the signal's reason
   */
  dropInherited(target: PostgresTarget, signal: AbortSignal): Promise<void>

  /**
   * Opens a closed copy to clients. Does nothing if the copy still has its source's slots or subscriptions, or if a
   * role does not have the desired password. @throws PostgresError; errors of `desired`; the signal's reason
   */
  open(target: PostgresTarget, desired: ReadDesiredRoles, signal: AbortSignal): Promise<void>

  /** Reloads the server's certificate and configuration. @throws PostgresError; the signal's reason */
  reload(target: PostgresTarget, signal: AbortSignal): Promise<void>

  /**
   * Makes a checkpoint, so that a copy of the files recovers fast. @returns the WAL position where recovery starts. The
   * duration depends on the disk. @throws PostgresError; the signal's reason
   */
  checkpoint(target: PostgresTarget, signal: AbortSignal): Promise<RestorePoint>
}

/** Long enough for a hundred thousand files on a cold disk. */
const measureTimeoutMs = 120_000
/** Long enough to write a large shared_buffers to a slow, busy disk. */
const checkpointTimeoutMs = 1800_000

type AdministratorOptions = { authority: SigningAuthorities; now: () => number; logger: Logger }

export function createAdministrator({ authority, now, logger }: AdministratorOptions): PostgresAdministrator {
  const passwordChecks = createPasswordChecks({ now })
  const sessions = createSessions(authority, now)
  const { connect, locked } = sessions
  return {
    observe: async (target, options, signal) => {
      try {
        return await observeServer(sessions, target, options, passwordChecks, signal)
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

    measureVolume: (target, signal) => connect(target, maintenanceDatabase, signal, measureVolume),

    ensureRoles: (target, desired, signal, { opens = false, keepsPasswords = false } = {}) =>
      locked(target, signal, async connection => {
        await ensureRoles(sessions, connection, { target, desired, keepsPasswords, signal, logger })
        if (opens) await openCopy(connection, desired)
      }),

    withRolesLocked: (target, work, signal) => locked(target, signal, work),

    dropInherited: (target, signal) =>
      locked(target, signal, connection => dropInherited(sessions, connection, target, signal, logger)),

    open: (target, desired, signal) => locked(target, signal, connection => openCopy(connection, desired)),

    reload: (target, signal) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        await connection.rows('SELECT pg_reload_conf()')
      }),

    checkpoint: (target, signal) => connect(target, maintenanceDatabase, signal, checkpoint),
  }
}

async function measureVolume(connection: Connection): Promise<number> {
  const [row] = await connection.patiently<{ bytes: number }>(volumeUseQuery, measureTimeoutMs)
  if (row === undefined) throw new PostgresError('statement', 'the server returned no row')
  return row.bytes
}

async function checkpoint(connection: Connection): Promise<RestorePoint> {
  await connection.patiently({ text: 'CHECKPOINT' }, checkpointTimeoutMs)
  const [point] = await connection.rows<RestorePoint>(restorePointQuery)
  if (point === undefined) throw new PostgresError('statement', 'the server returned no row')
  return point
}

/** Drops the slots and subscriptions that a closed copy inherited from its source. Holds the lock on roles. */
async function dropInherited(
  { connect }: Sessions,
  connection: Connection,
  target: PostgresTarget,
  signal: AbortSignal,
  logger: Logger,
): Promise<void> {
  await connection.rows(dropSlots)
  const found = await connection.rows<{ database: string; names: string[]; version: number }>(subscriptionsQuery)
  for (const { database, names, version } of found) {
    const statements = [unlessOpen, ...names.flatMap(dropSubscription)]
    await connection.rows(unlessOpen)
    await connect(target, database, signal, inside => inside.transaction(statements), version)
    logger.info(
      { server: target.serverName, subscriptions: names.length },
      'dropped slots and subscriptions that a copy had inherited',
    )
  }
}
