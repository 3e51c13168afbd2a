/**
 * Connects to the two servers of a move. Their URIs are in the environment variables SOURCE and TARGET, because other
 * users of the machine could read passwords on the command line.
 */
import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { Client } from 'pg'
import type { Endpoint } from '../../../instance/import/contract.ts'
import { prelude } from '../../../instance/import/session.ts'
import { parseSourceUri } from '../../../values/source-uri.ts'
import { UsageError } from '../../command.ts'

/** Parses a URI, and resolves its host. @throws UsageError that names the variable and the rule, without the URI */
export async function endpointOf(variable: 'SOURCE' | 'TARGET', uri: string | undefined): Promise<Endpoint> {
  if (uri === undefined || uri === '')
    throw new UsageError(`the environment variable ${variable} must be a Postgres URI`)
  // parseSourceUri does not read libpq's parameter `sslrootcert`, because imports through the API do not have it.
  const [file] = /(?<=[?&]sslrootcert=)[^&]*/.exec(uri) ?? []
  const plain = uri.replace(/[?&]sslrootcert=[^&]*/, match => (match.startsWith('?') ? '?' : '')).replace(/\?&?$/, '')
  try {
    const source = parseSourceUri(plain.replace('?&', '?'))
    const { address } = await lookup(source.host)
    const ca = file === undefined ? undefined : await readFile(decodeURIComponent(file), 'utf8')
    return { ...source, address, ...(ca === undefined ? {} : { ca }) }
  } catch (error) {
    throw new UsageError(`${variable}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function tlsOf({ sslmode, host, ca }: Endpoint) {
  if (sslmode === 'disable') return false
  if (sslmode === 'require') return { rejectUnauthorized: false }
  const trusted = ca === undefined ? {} : { ca }
  if (sslmode === 'verify-ca') return { ...trusted, checkServerIdentity: () => undefined }
  return { ...trusted, host, ...(isIP(host) === 0 ? { servername: host } : {}) }
}

const connectMs = 15_000

/** The settings for the text format of values. Both servers must use the same format. */
const formats =
  "SET datestyle = ISO; SET intervalstyle = postgres; SET extra_float_digits = 3; SET bytea_output = hex; SET timezone = 'UTC'"

async function connect(endpoint: Endpoint, replication?: 'database'): Promise<Client> {
  const { address, port, user, password, database, channelBinding } = endpoint
  const options = {
    ...{ host: address, port, user, password, database, ssl: tlsOf(endpoint), replication },
    ...{ enableChannelBinding: channelBinding !== 'disable', application_name: 'espalier move' },
    ...{ connectionTimeoutMillis: connectMs, keepAlive: true, keepAliveInitialDelayMillis: 30_000 },
    ...{ client_encoding: 'UTF8' },
  }
  const client = new Client(options)
  client.on('error', () => {}) // the next statement reports the error
  await client.connect()
  return client
}

/** Opens a session without timeouts. The caller ends it. */
export async function openSession(endpoint: Endpoint): Promise<Client> {
  const client = await connect(endpoint)
  await client.query(`${prelude}; ${formats}`)
  return client
}

/** Opens a connection for replication commands. A connection pooler does not forward these commands. */
export async function openReplication(endpoint: Endpoint): Promise<Client> {
  const client = await connect(endpoint, 'database')
  for (const setting of formats.split('; ')) await client.query(setting)
  return client
}

/** Runs `work` with a new session, and ends the session. */
export async function withSession<T>(endpoint: Endpoint, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await openSession(endpoint)
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Runs a statement with one row and one column, and returns the value. */
export async function queryValue<T>(client: Client, sql: string, values: unknown[] = []): Promise<T> {
  const { rows } = await client.query({ text: sql, values, rowMode: 'array' })
  return rows[0]?.[0] as T // the caller knows the type of its statement
}
