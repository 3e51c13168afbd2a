/**
 * One connection of the operator to a Postgres, as its superuser, with a client certificate. From the first message on,
 * the session overrides everything that a user can set for a database or a role. So a superuser session runs no code of
 * users.
 */
import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Client, type QueryConfig, type QueryResultRow } from 'pg'
import type { CertifiedKey } from '../pki/index.ts'
import { operatorCommonName, superuser } from './configuration.ts'
import { PostgresError, postgresErrorOf } from './errors.ts'

/** The address of a Postgres, and the data to authenticate it. */
export type PostgresTarget = {
  host: string
  port: number
  /** The name in its certificate: the DNS name of its Service. */
  serverName: string
  /** The authority that signed its certificate, PEM. */
  ca: string
}

export type Connection = {
  /** SHA-256 of the certificate that the server presented, in the format of Node's fingerprints. */
  readonly certificate: string | undefined
  rows<Row extends QueryResultRow>(query: string | QueryConfig): Promise<Row[]>
  /** Runs all statements or none, in one round trip. */
  transaction(statements: readonly string[]): Promise<void>
  /** Runs a statement that cannot run in a transaction. `timeoutMs`: how long it may take. */
  alone(statement: string, timeoutMs: number): Promise<void>
  /** Queries rows. `timeoutMs`: how long the query may take. The server cancels it if the client has disconnected. */
  patiently<Row extends QueryResultRow>(query: QueryConfig, timeoutMs: number): Promise<Row[]>
}

/** How long the machine may take to accept a connection. The kernel accepts it even if Postgres is busy. */
const acceptTimeoutMs = 3_000
/** How long Postgres may take to complete the login. A busy Postgres forks and authenticates slowly. */
const connectTimeoutMs = 4_000
const statementTimeoutMs = 5_000
/** The server cancels a statement at its own timeout. This one is for a server that no longer can. */
const answerTimeoutMs = statementTimeoutMs + 1_000
const closeTimeoutMs = 1_000

/**
 * Set at the session's start, these override settings by ALTER DATABASE and ALTER ROLE, including `role`. Postgres
 * neither logs the operator's statements nor shows them in pg_stat_activity, because they may contain verifiers.
 */
const sessionSettings: Record<string, string> = {
  search_path: 'pg_catalog,pg_temp',
  role: 'none',
  statement_timeout: String(statementTimeoutMs),
  lock_timeout: '2000',
  idle_in_transaction_session_timeout: '10000',
  // The longest time for which a frozen operator can hold the lock on roles.
  idle_session_timeout: '30000',
  local_preload_libraries: '',
  default_transaction_read_only: 'off',
  synchronous_commit: 'on',
  default_transaction_isolation: 'read\\ committed',
  standard_conforming_strings: 'on',
  client_min_messages: 'warning',
  track_activities: 'off',
  log_statement: 'none',
  log_duration: 'off',
  log_min_duration_statement: '-1',
  log_min_error_statement: 'panic',
  // pg_stat_statements records no statement of the operator; if the library is not loaded, this setting has no effect.
  'pg_stat_statements.track': 'none',
}

/**
 * Settings that only some versions have, by server_version_num. Other versions would refuse a session that sets them.
 */
const newerSettings: [since: number, name: string, value: string][] = [[170_000, 'transaction_timeout', '0']]

function optionsFor(version: number): string {
  const newer = newerSettings.filter(([since]) => version >= since).map(([, name, value]) => [name, value])
  return [...Object.entries(sessionSettings), ...newer].map(([name, value]) => `-c ${name}=${value}`).join(' ')
}

/**
 * Connects, runs `work`, and closes the connection in any case. After the signal has aborted, nothing continues.
 * `version`: as server_version_num; for a user's database, whose settings must all be overridden.
 * @throws PostgresError; the signal's reason if it aborted
 */
export async function withConnection<T>(
  target: PostgresTarget,
  database: string,
  certificate: CertifiedKey,
  signal: AbortSignal,
  work: (connection: Connection) => Promise<T>,
  version = 0,
): Promise<T> {
  signal.throwIfAborted()
  const socket = new Socket()
  const client = new Client({
    host: target.host,
    port: target.port,
    database,
    user: superuser,
    application_name: operatorCommonName,
    options: optionsFor(version),
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: answerTimeoutMs,
    stream: () => socket,
    ssl: { ...certificate, ca: target.ca, servername: target.serverName, minVersion: 'TLSv1.2' },
  })
  client.on('error', () => {
    // A query in progress rejects with the reason. Without one, the next query rejects.
  })
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  const accepted = acceptance(socket)
  try {
    await Promise.race([client.connect(), accepted.timedOut])
    accepted.cancel()
    return await work(connectionOf(client))
  } catch (error) {
    accepted.cancel()
    signal.throwIfAborted()
    throw postgresErrorOf(error)
  } finally {
    const timer = setTimeout(abort, closeTimeoutMs)
    await client.end().catch(() => {})
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
    socket.destroy()
  }
}

/** Fails if no machine at the address accepts the connection in time. A slow Postgres does not cause this. */
function acceptance(socket: Socket): { timedOut: Promise<never>; cancel(): void } {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => {}) // the caller may have stopped waiting
  const timer = setTimeout(() => {
    reject(new PostgresError('silent', `no connection within ${acceptTimeoutMs} ms`, 'ETIMEDOUT'))
  }, acceptTimeoutMs)
  const cancel = () => clearTimeout(timer)
  socket.once('connect', cancel)
  return { timedOut: promise, cancel }
}

/** The certificate of the connection's TLS session. The types of `pg` do not declare the socket. */
function shownCertificate(client: Client): string | undefined {
  const { connection } = client as unknown as { connection?: { stream?: unknown } }
  const stream = connection?.stream
  return stream instanceof TLSSocket ? stream.getPeerX509Certificate()?.fingerprint256 : undefined
}

/** How often a server checks during a long query whether its client is still connected. */
const clientCheckMs = 5_000

const connectionOf = (client: Client): Connection => ({
  certificate: shownCertificate(client),
  rows: async <Row extends QueryResultRow>(query: string | QueryConfig) => (await client.query<Row>(query)).rows,
  transaction: async statements => {
    if (statements.length === 0) return
    // Postgres runs statements that are sent together as one transaction. If one fails, it rolls back all.
    await client.query(statements.join(';\n'))
  },
  alone: async (statement, timeoutMs) => {
    await client.query(`SET statement_timeout = ${timeoutMs}`)
    // a valid option that pg's types do not declare
    const query: QueryConfig & { query_timeout: number } = { text: statement, query_timeout: timeoutMs + 1_000 }
    await client.query(query)
    await client.query(`SET statement_timeout = ${statementTimeoutMs}`)
  },
  patiently: async <Row extends QueryResultRow>(query: QueryConfig, timeoutMs: number) => {
    await client.query(`SET statement_timeout = ${timeoutMs}; SET client_connection_check_interval = ${clientCheckMs}`)
    const withTimeout: QueryConfig & { query_timeout: number } = { ...query, query_timeout: timeoutMs + 1_000 }
    return (await client.query<Row>(withTimeout)).rows
  },
})
