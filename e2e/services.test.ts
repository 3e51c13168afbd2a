/** A database with services, used by the clients that users have, through the gateway. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { PostgrestClient } from '@supabase/postgrest-js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, type Database, eventually, openTo, query } from './client.ts'
import { type Fetch, httpsFetch } from './https-fetch.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

type Service = {
  service_type: string
  service_id: string
  state: string
  uri?: string
  port?: number
  public_domain: string | null
  mcp_config?: { init_tokens?: string }
}
type Served = Database & { services: Service[] }

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

function serviceOf(database: Served, type: string): Service & { uri: string } {
  const found = database.services.find(({ service_type }) => service_type === type)
  if (found?.uri === undefined) throw new Error(`no ${type} with an address in ${JSON.stringify(database.services)}`)
  return { ...found, uri: found.uri }
}

async function callTool(service: Service & { uri: string }, sql: string): Promise<string> {
  const client = new Client({ name: 'e2e', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${service.uri}/v1`), {
      fetch: fetching,
      requestInit: { headers: { authorization: `Bearer ${service.mcp_config?.init_tokens}` } },
    }),
  )
  try {
    return JSON.stringify(await client.callTool({ name: 'query_database', arguments: { query: sql } }))
  } finally {
    await client.close()
  }
}

test('a database serves MCP and REST clients through the gateway', { timeout: 300_000 }, async () => {
  const everybodyHere = openTo(provider.clientAddress)
  const { status, body } = await api.create({
    name: 'served',
    ip_allowlist: everybodyHere,
    services: [
      { service_type: 'mcp', ip_allowlist: everybodyHere },
      {
        service_type: 'rest',
        ip_allowlist: everybodyHere,
        rest_config: { db_schemas: 'public', db_anon_role: 'web_anonymous' },
      },
    ],
  })
  expect(status, JSON.stringify(body)).toBe(200)
  const { id } = body
  const database = await eventually(
    'the services',
    async () => {
      const found = await read(id)
      return found.status === 'available' && found.services.every(({ state }) => state === 'running') && found
    },
    200_000,
  )
  await query(await api.connection(id, 'admin'), 'CREATE ROLE web_anonymous NOLOGIN; GRANT web_anonymous TO app')
  await query(
    await api.connection(id),
    `CREATE TABLE fruit (id int PRIMARY KEY, name text); INSERT INTO fruit VALUES (1, 'pear');
     GRANT SELECT ON fruit TO web_anonymous`,
  )
  const rest = new PostgrestClient(serviceOf(database, 'rest').uri, { fetch: fetching })
  await eventually('the table by REST', async () => {
    const { data } = await rest.from('fruit').select('name')
    return data?.length === 1 && data[0]?.name === 'pear'
  })
  expect(await callTool(serviceOf(database, 'mcp'), 'SELECT name FROM fruit')).toContain('pear')
  await api.remove(id)
})
