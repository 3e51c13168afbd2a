/** A database with all three services, and clients that send requests to it during a test's action. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { type ApiClient, type Database, eventually, openTo, query } from './client.ts'
import { type Fetch, httpsFetch } from './https-fetch.ts'
import type { Provider } from './providers/provider.ts'

type Service = {
  service_type: string
  service_id: string
  state: string
  uri?: string
  port?: number
  public_domain?: string | null
  mcp_config?: { init_tokens?: string }
  rest_config?: { max_rows: number }
  bearer_token?: string
}
export type Served = Database & { services: Service[] }
export type Reached = Service & { uri: string }

/** A `fetch` that verifies the installation's authority and connects to the gateway's port on this machine. */
export async function fetchingFrom({ api }: Pick<Provider, 'api'>): Promise<Fetch> {
  // An installation that has just started may not have its authority yet.
  const authority = await eventually('the API returns the certificate of the authority', async () => {
    const answer = await fetch(`${api}/managed/v1/ca.pem`)
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`${answer.status} ${text}`)
    return text
  })
  return httpsFetch({ authority, address: '127.0.0.1' })
}

export const rest = (rows: number) => ({
  service_type: 'rest',
  rest_config: { db_schemas: 'public', db_anon_role: 'visitor', max_rows: rows },
})
const llm = { provider: 'openai', model: 'a-model', api_key: 'sk-none' }
export const rag = {
  service_type: 'rag',
  rag_config: {
    embedding_llm: llm,
    completion_llm: llm,
    pipelines: [{ name: 'docs', tables: [{ table: 'fruit', text_column: 'name', vector_column: 'vector' }] }],
  },
}
export const mcp = { service_type: 'mcp' }

export const readServed = async (api: ApiClient, path: string): Promise<Served> =>
  (await api.call<Served>('GET', path)).body

export const untilRunning = (api: ApiClient, id: string, timeoutMs = 90_000): Promise<Served> =>
  eventually(
    'the services run',
    async () => {
      const found = await readServed(api, `/databases/${id}`)
      const isRunning = found.status === 'available' && (found.services ?? []).every(({ state }) => state === 'running')
      if (!isRunning) throw new Error(JSON.stringify(found))
      return found
    },
    timeoutMs,
  )

/** A table of 20 rows that each service can read. */
async function createTable(api: ApiClient, id: string): Promise<void> {
  await query(await api.connection(id, 'admin'), 'CREATE EXTENSION IF NOT EXISTS vector; CREATE ROLE visitor NOLOGIN')
  await query(
    await api.connection(id),
    `CREATE TABLE fruit (id int PRIMARY KEY, name text, vector vector(3));
     INSERT INTO fruit SELECT n, 'fruit ' || n, '[1,2,3]' FROM generate_series(1, 20) n; GRANT SELECT ON fruit TO visitor`,
  )
}

const addServices = (api: ApiClient, id: string, clientAddress: string) =>
  api.change(id, {
    services: [mcp, rest(10), rag].map(service => ({ ...service, ip_allowlist: openTo(clientAddress) })),
  })

/** @returns a database with that table, once its services run */
export async function createServed(api: ApiClient, name: string, clientAddress: string): Promise<Served> {
  // The API answers 503 while the operator has not set up the tenant yet.
  const body = await eventually('the API creates the database', async () => {
    const created = await api.create({ name, ip_allowlist: openTo(clientAddress) })
    if (created.status >= 300) throw new Error(`${created.status} ${JSON.stringify(created.body)}`)
    return created.body
  })
  await untilRunning(api, body.id)
  await createTable(api, body.id)
  const { status, body: answer } = await addServices(api, body.id, clientAddress)
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(answer)}`)
  return untilRunning(api, body.id)
}

export function serviceOf(database: Served, type: string): Reached {
  const found = database.services.find(({ service_type }) => service_type === type)
  if (found?.uri === undefined) throw new Error(`no ${type} with an address in ${JSON.stringify(database.services)}`)
  return { ...found, uri: found.uri }
}

/** A response that does not match the request. */
class Refused extends Error {
  readonly status: number
  readonly retryAfter: string | null
  constructor({ status, headers }: Response, text: string) {
    super(`${status} ${text}`)
    this.status = status
    this.retryAfter = headers.get('retry-after')
  }
}

/** The tool server reports an unavailable database as the result of a tool. */
export class ToolError extends Error {}

/**
 * Whether this is the allowed response of a service while its Postgres is unavailable: 503 with the time of the next
 * attempt.
 */
export const isAway = (error: unknown): boolean =>
  error instanceof Refused ? error.status === 503 && error.retryAfter !== null : error instanceof ToolError

async function textOf(answer: Response): Promise<string> {
  const text = await answer.text()
  if (answer.status !== 200) throw new Refused(answer, text)
  return text
}

/** One request to each service. The servers keep no state between two requests. */
export function requestsTo(database: Served, fetching: Fetch) {
  const bearer = (token: string | undefined) => ({ headers: { authorization: `Bearer ${token}` } })
  const found = (type: string) => database.services.some(({ service_type }) => service_type === type)
  const of = (type: string) => (found(type) ? serviceOf(database, type) : { uri: '' })
  const [tools, table, retrieval]: Partial<Reached>[] = [of('mcp'), of('rest'), of('rag')]
  return {
    rest: async (): Promise<number> => JSON.parse(await textOf(await fetching(`${table?.uri}/fruit?select=id`))).length,
    rag: async (): Promise<string> =>
      textOf(await fetching(`${retrieval?.uri}/v1/pipelines`, bearer(retrieval?.bearer_token))),
    mcp: async (): Promise<string> => {
      const answer = await fetching(`${tools?.uri}/v1`, {
        method: 'POST',
        headers: {
          ...bearer(tools?.mcp_config?.init_tokens).headers,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({
          ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
          params: { name: 'query_database', arguments: { query: 'SELECT count(*) FROM fruit' } },
        }),
      })
      const text = await textOf(answer)
      if (/"isError": ?true|"error":/.test(text)) throw new ToolError(text)
      return text
    },
  }
}

/** A client of the newer revision, with the official SDK. The caller must close it. */
export async function connectTools(database: Served, fetching: Fetch, path = '/v1'): Promise<Client> {
  const tools = serviceOf(database, 'mcp')
  const client = new Client({ name: 'e2e', version: '1' })
  const requestInit = { headers: { authorization: `Bearer ${tools.mcp_config?.init_tokens}` } }
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${tools.uri}${path}`), { fetch: fetching, requestInit }),
  )
  return client
}

type Load = {
  failures: string[]
  count(): number
  stop(): Promise<void>
}

/**
 * Sends one request after another. Every failure is recorded with the time of its request. `accepts`: whether a failure
 * is allowed. `pauseMs`: the pause between two requests.
 */
export function load(
  name: string,
  send: () => Promise<unknown>,
  accepts: (error: unknown) => boolean = () => false,
  pauseMs = 20,
): Load & { accepted(): number } {
  const failures: string[] = []
  let count = 0
  let accepted = 0
  let stopped = false
  const run = async () => {
    while (!stopped) {
      const began = new Date().toISOString()
      await send().catch(error => {
        if (accepts(error)) accepted++
        else failures.push(`${name} at ${began}: ${error instanceof Error ? error.message : error}`)
      })
      count++
      await sleep(pauseMs)
    }
  }
  const running = run()
  return {
    failures,
    count: () => count,
    accepted: () => accepted,
    stop: async () => {
      stopped = true
      await running
    },
  }
}

/** @returns the failures of requests sent in the next two seconds */
export async function failuresOfNow(send: Record<string, () => Promise<unknown>>): Promise<string[]> {
  const loads = Object.entries(send).map(([name, one]) => load(name, one))
  await sleep(2_000)
  return stopAll(loads)
}

export async function stopAll(loads: readonly Load[]): Promise<string[]> {
  for (const each of loads) await each.stop()
  return loads.flatMap(({ failures }) => failures)
}
