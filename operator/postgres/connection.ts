/**
 * One connection of the operator to a Postgres, as its superuser, by client certificate. Whatever a user can set for a
 * database or a role is overridden from the first message on: a superuser session runs nothing of theirs.
 */
import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Client, type QueryConfig, type QueryResultRow } from 'pg'
import type { CertifiedKey } from '../pki/index.ts'
import { operatorCommonName, superuser } from './configuration.ts'
import { PostgresError, postgresErrorOf } from './errors.ts'

/** Where a Postgres is, and how it proves that it is the one. */
export type PostgresTarget = {
  host: string
  port: number
  /** The name its certificate must be for: the DNS name of its Service. */
  serverName: string
  /** The authority that its certificate must be from, PEM. */
  ca: string
}

export type Connection = {
  /** SHA-256 of the certificate that the server showed, as Node writes fingerprints. */
  readonly certificate: string | undefined
  rows<Row extends QueryResultRow>(query: string | QueryConfig): Promise<Row[]>
  /** Runs all or none, in one round trip. */
  transaction(statements: readonly string[]): Promise<void>
  /** Runs a statement that cannot stand in a transaction, and may take this long. */
  alone(statement: string, timeoutMs: number): Promise<void>
  /** Asks for rows that may take this long; the server gives up where nobody waits for them any more. */
  patiently<Row extends QueryResultRow>(query: QueryConfig, timeoutMs: number): Promise<Row[]>
}

/** How long the machine may take to accept a connection: its kernel does, however busy Postgres is. */
const acceptTimeoutMs = 3_000
/** How long Postgres may take to let the operator in: a busy one forks, and proves who it is, slowly. */
const connectTimeoutMs = 4_000
const statementTimeoutMs = 5_000
/** The server ends a statement by itself; this is for one that cannot say so any more. */
const answerTimeoutMs = statementTimeoutMs + 1_000
const closeTimeoutMs = 1_000

/**
 * Sent at the start of the session, these come before what ALTER DATABASE and ALTER ROLE set, `role` included. Nothing
 * that we send is logged or shown in pg_stat_activity, since it may hold verifiers.
 */
const sessionSettings: Record<string, string> = {
  search_path: 'pg_catalog,pg_temp',
  role: 'none',
  statement_timeout: String(statementTimeoutMs),
  lock_timeout: '2000',
  idle_in_transaction_session_timeout: '10000',
  // The longest that the lock on roles is held for an operator that is frozen.
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
  // Of an operator's statements none is kept; where the library is not loaded this names nothing.
  'pg_stat_statements.track': 'none',
}

/** Settings that only some versions know, by server_version_num; the others would refuse a session that names them. */
const newerSettings: [since: number, name: string, value: string][] = [[170_000, 'transaction_timeout', '0']]

function optionsFor(version: number): string {
  const newer = newerSettings.filter(([since]) => version >= since).map(([, name, value]) => [name, value])
  return [...Object.entries(sessionSettings), ...newer].map(([name, value]) => `-c ${name}=${value}`).join(' ')
}

/**
 * Connects, does the work, and closes, however it ends. Nothing outlives the signal. `version`, as server_version_num: for
 * a database that is a user's, whose settings must all be overridden.
 * @throws PostgresError; the signal's reason where it aborted
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
    // A query that is under way rejects with it; between queries the next one does.
  })
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  const accepted = acceptance(socket)
  try {
    await Promise.race([client.connect(), accepted.inVain])
    accepted.settle()
    return await work(connectionOf(client))
  } catch (error) {
    accepted.settle()
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

/** Fails where no machine at the address accepts the connection in time: that is no slowness of Postgres's. */
function acceptance(socket: Socket): { inVain: Promise<never>; settle(): void } {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => {}) // nobody may be waiting any more
  const timer = setTimeout(() => {
    reject(new PostgresError('silent', `no connection within ${acceptTimeoutMs} ms`, 'ETIMEDOUT'))
  }, acceptTimeoutMs)
  const settle = () => clearTimeout(timer)
  socket.once('connect', settle)
  return { inVain: promise, settle }
}

/** The certificate of the connection's TLS session. `pg` keeps the socket where its types do not show it. */
function shownCertificate(client: Client): string | undefined {
  const { connection } = client as unknown as { connection?: { stream?: unknown } }
  const stream = connection?.stream
  return stream instanceof TLSSocket ? stream.getPeerX509Certificate()?.fingerprint256 : undefined
}

/** How often a server that works for long looks whether its client is still there. */
const clientCheckMs = 5_000

const connectionOf = (client: Client): Connection => ({
  certificate: shownCertificate(client),
  rows: async <Row extends QueryResultRow>(query: string | QueryConfig) => (await client.query<Row>(query)).rows,
  transaction: async statements => {
    if (statements.length === 0) return
    // Statements sent together are one transaction of their own; the first that fails undoes all.
    await client.query(statements.join(';\n'))
  },
  alone: async (statement, timeoutMs) => {
    await client.query(`SET statement_timeout = ${timeoutMs}`)
    // pg knows this option, its types do not.
    const query: QueryConfig & { query_timeout: number } = { text: statement, query_timeout: timeoutMs + 1_000 }
    await client.query(query)
    await client.query(`SET statement_timeout = ${statementTimeoutMs}`)
  },
  patiently: async <Row extends QueryResultRow>(query: QueryConfig, timeoutMs: number) => {
    await client.query(`SET statement_timeout = ${timeoutMs}; SET client_connection_check_interval = ${clientCheckMs}`)
    const patient: QueryConfig & { query_timeout: number } = { ...query, query_timeout: timeoutMs + 1_000 }
    return (await client.query<Row>(patient)).rows
  },
})
