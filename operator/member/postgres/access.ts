/**
 * The operator's access to a Postgres: administration, and a login like a client's. One type has all calls, so that a
 * test can count, interrupt or replace them.
 */
import { Socket } from 'node:net'
import { Client } from 'pg'
import type { Logger } from 'pino'
import { applicationDatabase } from '../../../sealing/credentials.ts'
import type { Authority } from '../../pki/index.ts'
import { createAdministrator, type PostgresAdministrator, type PostgresTarget } from '../../postgres/administrator.ts'
import { operatorCommonName } from '../../postgres/configuration.ts'
import { postgresErrorOf } from '../../postgres/errors.ts'

export type Login =
  | { result: 'succeeded' }
  | { result: 'refused'; message: string }
  /** No server answers at the address. */
  | { result: 'unreachable'; message: string }
  /** Postgres has no free connection. This is no sign of a failure. */
  | { result: 'busy' }
  /** The login timed out, so its result is unknown. */
  | { result: 'slow' }

export type PostgresAccess = PostgresAdministrator & {
  /** Logs in as `app` with its password and queries one row, like a user's client. @throws the signal's reason */
  login(target: PostgresTarget, password: string, signal: AbortSignal): Promise<Login>
}

const loginTimeoutMs = 10_000

async function login(target: PostgresTarget, password: string, signal: AbortSignal): Promise<Login> {
  signal.throwIfAborted()
  const socket = new Socket()
  const client = new Client({
    host: target.host,
    port: target.port,
    database: applicationDatabase,
    user: 'app',
    password,
    application_name: operatorCommonName,
    connectionTimeoutMillis: loginTimeoutMs,
    query_timeout: loginTimeoutMs,
    stream: () => socket,
    ssl: { ca: target.ca, servername: target.serverName, minVersion: 'TLSv1.2' },
  })
  client.on('error', () => {
    // `pg` also rejects the calls in progress with this error.
  })
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  try {
    await client.connect()
    await client.query('SELECT 1')
    return { result: 'succeeded' }
  } catch (error) {
    signal.throwIfAborted()
    const { reason, message } = postgresErrorOf(error)
    if (reason === 'timeout') return { result: 'slow' }
    if (reason === 'network' || reason === 'silent') return { result: 'unreachable', message }
    return reason === 'busy' ? { result: 'busy' } : { result: 'refused', message }
  } finally {
    signal.removeEventListener('abort', abort)
    await client.end().catch(() => {})
    socket.destroy()
  }
}

export const createAccess = (options: {
  authority: Authority & { known?: readonly Authority[] }
  now: () => number
  logger: Logger
}): PostgresAccess => ({
  ...createAdministrator(options),
  login,
})
