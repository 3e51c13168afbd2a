/**
 * Opens a connection to a database as one of its roles. `pg` does the login. Then the caller uses the socket directly.
 * The server's certificate must be from the installation's authority, and contain the name of the Service.
 */
import { Socket } from 'node:net'
import pg from 'pg'
import type { Backend } from '../../wire/cancel.ts'

export type Target = {
  readonly host: string
  readonly port: number
  /** The name that the server's certificate must contain. */
  readonly serverName: string
  /** The authority's certificate as PEM. */
  readonly ca: string
  readonly user: string
  readonly password: string
  readonly database: string
}

type SessionSettings = {
  readonly isReadOnly: boolean
  readonly statementTimeoutMs: number
  /** The session runs statements of the API itself, so no name in them may refer to a user's object. */
  readonly isOwn?: boolean
}

/** The connection could not be opened. */
export class ConnectError extends Error {
  override readonly name = 'ConnectError'
  /**
   * `silent`: nothing at the address accepted the connection in time, for example because the network drops packets.
   * `refused`: the login failed with `sqlState`. `canceled`: the signal aborted. `failed`: any other cause.
   */
  readonly kind: 'silent' | 'refused' | 'canceled' | 'failed'
  readonly sqlState: string | undefined
  constructor(kind: ConnectError['kind'], message: string, options: { sqlState?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.kind = kind
    this.sqlState = options.sqlState
  }
}

export type Opened = { readonly socket: Socket; readonly backend: Backend }

/** The timeout of the TCP connection. It is short, because the kernel accepts connections even if Postgres is busy. */
const acceptMs = 4_000
const loginMs = 10_000
/** The lock timeout is limited, because a statement that waits for a lock blocks later statements. */
const lockTimeoutMs = 10_000
/** How long an open transaction may be idle. */
const idleInTransactionMs = 60_000
/** How often Postgres checks during a statement that this process is still connected. */
const clientCheckMs = 5_000

const optionsOf = ({ isReadOnly, statementTimeoutMs, isOwn = false }: SessionSettings): string =>
  Object.entries({
    statement_timeout: statementTimeoutMs,
    lock_timeout: Math.min(lockTimeoutMs, statementTimeoutMs),
    idle_in_transaction_session_timeout: idleInTransactionMs,
    client_connection_check_interval: clientCheckMs,
    // This setting changes how Postgres parses string literals, and so where a statement ends.
    standard_conforming_strings: 'on',
    // A database's owner can set search_path for all roles. Then the owner's SQL operators could replace pg_catalog's.
    ...(isOwn ? { search_path: 'pg_catalog,pg_temp' } : {}),
    ...(isReadOnly ? { default_transaction_read_only: 'on' } : {}),
  })
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ')

/** Declares the part of `pg`'s client that is missing in its types. */
type Insides = Backend & { connection: { stream: Socket } }

/** Stops the login if the signal aborts. @throws ConnectError */
export async function openConnection(target: Target, settings: SessionSettings, signal: AbortSignal): Promise<Opened> {
  const socket = new Socket()
  let isSilent = false
  const acceptance = setTimeout(() => {
    isSilent = true
    socket.destroy()
  }, acceptMs)
  socket.once('connect', () => clearTimeout(acceptance))
  const leave = () => void socket.destroy()
  signal.addEventListener('abort', leave)
  const { host, port, user, password, database, ca, serverName: servername } = target
  const client = new pg.Client({
    ...{ host, port, user, password, database },
    application_name: 'espalier sql',
    options: optionsOf(settings),
    keepAlive: true,
    connectionTimeoutMillis: loginMs,
    enableChannelBinding: true,
    stream: () => socket,
    ssl: { ca, servername, minVersion: 'TLSv1.2', rejectUnauthorized: true },
  })
  client.on('error', () => {})
  try {
    signal.throwIfAborted()
    await client.connect()
    signal.throwIfAborted()
  } catch (error) {
    socket.destroy()
    if (signal.aborted) throw new ConnectError('canceled', 'canceled')
    throw isSilent ? new ConnectError('silent', `no connection within ${acceptMs} ms`) : failureOf(error)
  } finally {
    clearTimeout(acceptance)
    signal.removeEventListener('abort', leave)
  }
  // `stream` is internal to pg. The version of pg is pinned, and tests of this folder use this code.
  const insides = client as unknown as Insides
  const stream = insides.connection.stream
  for (const event of ['data', 'end', 'error', 'close']) stream.removeAllListeners(event)
  const { processID, secretKey, ssl } = insides
  return { socket: stream, backend: { processID, secretKey, host, port, ssl } }
}

function failureOf(error: unknown): ConnectError {
  const { message, code } = error as Error & { code?: unknown } // Node or pg throws this error
  const sqlState = typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
  return sqlState === undefined
    ? new ConnectError('failed', message, { cause: error })
    : new ConnectError('refused', message, { sqlState, cause: error })
}
