/** Services under load through the gateway: a change of one service and a new password cost no request of any. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { PostgrestClient } from '@supabase/postgrest-js'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type ApiClient, type Database, eventually, openTo, query } from '../client.ts'
import { type Fetch, httpsFetch } from '../https-fetch.ts'
import { startProvider } from '../provider.ts'
import type { Provider } from '../providers/provider.ts'

type Service = {
  service_type: string
  state: string
  uri?: string
  mcp_config?: { init_tokens?: string }
  rest_config?: { max_rows: number }
  bearer_token?: string
}
type Served = Database & { services: Service[] }
type Reached = Service & { uri: string }

let provider: Provider
let api: ApiClient
let fetching: Fetch
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
  const authority = await (await fetch(`${provider.api}/managed/v1/ca.pem`)).text()
  fetching = httpsFetch({ authority, address: '127.0.0.1' })
})
afterAll(() => provider?.stop())

const read = async (id: string): Promise<Served> => (await api.call<Served>('GET', `/databases/${id}`)).body
const untilRunning = (id: string): Promise<Served> =>
  eventually('the services run', async () => {
    const found = await read(id)
    return found.status === 'available' && found.services.every(({ state }) => state === 'running') && found
  })

function serviceOf(database: Served, type: string): Reached {
  const found = database.services.find(({ service_type }) => service_type === type)
  if (found?.uri === undefined) throw new Error(`no ${type} with an address in ${JSON.stringify(database.services)}`)
  return { ...found, uri: found.uri }
}

/** Asks over and over, one request after another; every failure is kept with the time it was asked at. */
function load(name: string, ask: () => Promise<unknown>) {
  const failures: string[] = []
  let count = 0
  let stopped = false
  const run = async () => {
    while (!stopped) {
      const began = new Date().toISOString()
      await ask().catch(error =>
        failures.push(`${name} at ${began}: ${error instanceof Error ? error.message : error}`),
      )
      count++
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
  const running = run()
  return {
    failures,
    count: () => count,
    stop: async () => {
      stopped = true
      await running
    },
  }
}

const rest = (rows: number) => ({
  service_type: 'rest',
  rest_config: { db_schemas: 'public', db_anon_role: 'visitor', max_rows: rows },
})
const llm = { provider: 'openai', model: 'a-model', api_key: 'sk-none' }
const rag = {
  service_type: 'rag',
  rag_config: {
    embedding_llm: llm,
    completion_llm: llm,
    pipelines: [{ name: 'docs', tables: [{ table: 'fruit', text_column: 'name', vector_column: 'vector' }] }],
  },
}

test('a change of one service and a new password cost no request of any', async () => {
  const here = { ip_allowlist: openTo(provider.clientAddress) }
  const { body } = await api.create({ name: 'loaded', ...here })
  const { id } = body
  onTestFinished(async () => void (await api.remove(id)))
  await query(await api.connection(id, 'admin'), 'CREATE EXTENSION IF NOT EXISTS vector; CREATE ROLE visitor NOLOGIN')
  await query(
    await api.connection(id),
    `CREATE TABLE fruit (id int PRIMARY KEY, name text, vector vector(3));
     INSERT INTO fruit SELECT n, 'fruit ' || n, '[1,2,3]' FROM generate_series(1, 20) n; GRANT SELECT ON fruit TO visitor`,
  )
  const added = await api.change(id, {
    services: [
      { service_type: 'mcp', ...here },
      { ...rest(10), ...here },
      { ...rag, ...here },
    ],
  })
  expect(added, JSON.stringify(added.body)).toMatchObject({ status: 200 })
  const database = await untilRunning(id)

  const [tools, table, retrieval] = ['mcp', 'rest', 'rag'].map(type => serviceOf(database, type))
  if (tools === undefined || table === undefined || retrieval === undefined) throw new Error('three services')
  const postgrest = new PostgrestClient(table.uri, { fetch: fetching })
  const rows = async () => {
    const { data, error, status } = await postgrest.from('fruit').select('id')
    if (error !== null) throw new Error(`${status} ${JSON.stringify(error)}`)
    return data.length
  }
  const connect = async (path: string) => {
    const client = new Client({ name: 'e2e', version: '1' })
    const requestInit = { headers: { authorization: `Bearer ${tools.mcp_config?.init_tokens}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(path), { fetch: fetching, requestInit }))
    return client
  }
  const call = async (client: Client) => {
    const answer = await client.callTool({ name: 'query_database', arguments: { query: 'SELECT count(*) FROM fruit' } })
    if (answer.isError) throw new Error(JSON.stringify(answer.content))
    return JSON.stringify(answer)
  }
  const pipelines = async (token = retrieval.bearer_token) => {
    const answer = await fetching(`${retrieval.uri}/v1/pipelines`, { headers: { authorization: `Bearer ${token}` } })
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`${answer.status} ${text}`)
    return text
  }
  const direct = await connect(`${tools.uri}/v1`)
  onTestFinished(() => direct.close())
  expect(await rows()).toBe(10)
  expect(await call(direct)).toContain('20')
  expect(await pipelines()).toContain('docs')
  await expect(pipelines('wrong')).rejects.toThrow('401')
  const bridged = await connect(tools.uri)
  onTestFinished(() => bridged.close())
  expect(await call(bridged)).toContain('20')

  const older = load('mcp by its bridge', () => call(bridged))
  const loads = [load('rest', rows), load('mcp', () => call(direct)), load('rag', () => pipelines()), older]
  const failures = () => loads.flatMap(({ failures }) => failures)
  const changed = await api.change(id, {
    services: [{ service_type: 'mcp' }, rest(5), { service_type: 'rag', rag_config: rag.rag_config }],
  })
  expect(changed, JSON.stringify(changed.body)).toMatchObject({ status: 200 })
  await untilRunning(id)
  await eventually('the new configuration', async () => (await rows()) === 5, 5_000)
  // A new password of its role gives mcp a new pod, and with the old one the sessions of its bridge end.
  await older.stop()
  expect(failures()).toEqual([])
  for (const role of ['app_read_only', 'app']) {
    const rotated = await api.call('POST', `/databases/${id}/roles/${role}/rotate-password`, undefined, {
      prefer: 'wait=60',
    })
    expect(rotated.status).toBe(204)
  }
  await untilRunning(id)
  await new Promise(resolve => setTimeout(resolve, 3_000))
  for (const each of loads) await each.stop()
  expect(failures()).toEqual([])
  for (const { count } of loads) expect(count()).toBeGreaterThan(20)
})
