/** The control-plane API and Postgres as a user's program sees them: with fetch and `pg`, without Espalier's code. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

type Json = Record<string, unknown>
type Answer<T = Json> = { status: number; headers: Headers; body: T }
export type Connection = { username: string; password: string; host: string; port: number; database: string }
export type Database = {
  id: string
  name: string
  size: string
  status: string
  display_name?: string | null
  options: string[]
  updated_at: string
  ip_allowlist: { rules: { cidr: string; label?: string }[]; state: string }
  storage_used?: number
  connection?: Connection
}

export const createApiClient = (base: string, token: string) => {
  const call = async <T = Json>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer<T>> => {
    const response = await fetch(`${base}/managed/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    // The tests assert the shape of the body. A wrong shape fails there.
    return { status: response.status, headers: response.headers, body: (text === '' ? {} : JSON.parse(text)) as T }
  }
  const wait = { prefer: 'wait=60' }
  return {
    call,
    /** The lines of the SQL endpoint, or its error. `of`: the path of a database or branch. */
    async sql(of: string, body: Json): Promise<{ status: number; lines: Json[] }> {
      const response = await fetch(`${base}/managed/v1${of}/sql`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const lines = (await response.text()).split('\n').filter(line => line !== '')
      return { status: response.status, lines: lines.map(line => JSON.parse(line)) }
    },
    create: (input: Json, headers: Record<string, string> = wait) =>
      call<Database>('POST', '/databases', { region: 'local', size: 'nano', ...input }, headers),
    read: (id: string, query = '') => call<Database>('GET', `/databases/${id}${query}`),
    change: (id: string, input: Json, headers: Record<string, string> = wait) =>
      call<Database>('PATCH', `/databases/${id}`, input, headers),
    remove: (id: string, query = '') => call('DELETE', `/databases/${id}${query}`, undefined, wait),
    /** The connection for one role. */
    async connection(id: string, userType = 'application'): Promise<Connection> {
      const { body } = await call<Database>('GET', `/databases/${id}?user_type=${userType}`)
      if (body.connection === undefined) throw new Error(`no connection in ${JSON.stringify(body)}`)
      return body.connection
    },
  }
}
export type ApiClient = ReturnType<typeof createApiClient>

/** Connects with TLS, as every client must. The caller closes the client. */
export async function connect(connection: Connection, options: pg.ClientConfig = {}): Promise<pg.Client> {
  const { username: user, password, host, port, database } = connection
  const client = new pg.Client({
    user,
    password,
    host,
    port,
    database,
    ssl: { rejectUnauthorized: false },
    connectionTimeoutMillis: 10_000,
    ...options,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Runs one statement on a separate connection. */
export async function query<T extends pg.QueryResultRow = Json>(connection: Connection, text: string): Promise<T[]> {
  const client = await connect(connection)
  try {
    return (await client.query<T>(text)).rows
  } finally {
    await client.end()
  }
}

/** The SQLSTATE of a failed attempt, or `none`. */
export async function sqlState(attempt: () => Promise<unknown>): Promise<string> {
  try {
    await attempt()
    return 'none'
  } catch (error) {
    return error instanceof pg.DatabaseError ? String(error.code) : String(error)
  }
}

/** Polls until the check returns a value. At the deadline, fails with the name of what it waited for. */
export async function eventually<T>(
  what: string,
  check: () => Promise<T | undefined | false>,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs
  let last: unknown
  while (Date.now() < deadline) {
    try {
      const value = await check()
      if (value !== undefined && value !== false) return value
    } catch (error) {
      last = error
    }
    await sleep(50)
  }
  throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause: last })
}

/** An allowlist that allows only one address. */
export const openTo = (address: string) => ({ rules: [{ cidr: `${address}/32`, label: 'this machine' }] })
export const openToThisMachine = openTo('127.0.0.1')
