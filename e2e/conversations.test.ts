/**
 * Conversations of the service `mcp`, used through its API and the gateway. They survive the replacement of its pods,
 * and backups contain them.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, type Database, eventually, openTo, query } from './client.ts'
import type { Fetch } from './https-fetch.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'
import { fetchingFrom } from './service-load.ts'

type Service = { service_type: string; state: string; uri?: string; mcp_config?: { init_tokens?: string } }
type Served = Database & { services: Service[] }

let provider: Provider
let api: ApiClient
let fetching: Fetch
let id: string

const read = async (path: string): Promise<Served> => (await api.call<Served>('GET', path)).body
const running = (path: string) =>
  eventually('the database is available and its services run', async () => {
    const found = await read(path)
    return found.status === 'available' && found.services.every(({ state }) => state === 'running') && found
  })
const uriOf = ({ services }: Served): string => {
  const [found] = services
  if (found?.uri === undefined) throw new Error(`no address in ${JSON.stringify(services)}`)
  return found.uri
}

/** Logs in again, as a user does after a server was replaced. */
async function logIn(uri: string): Promise<string> {
  const [service] = (await read(`/databases/${id}`)).services
  const headers = { authorization: `Bearer ${service?.mcp_config?.init_tokens}` }
  const client = new Client({ name: 'e2e', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${uri}/v1`), { fetch: fetching, requestInit: { headers } }),
  )
  try {
    const login = { name: 'authenticate_user', arguments: { username: 'alice', password: 'secret-of-alice' } }
    const answer = JSON.stringify(await client.callTool(login))
    const token = /session_token[^A-Za-z0-9]+([A-Za-z0-9._~+/=-]{40,})/.exec(answer)?.[1]
    if (token === undefined) throw new Error(answer)
    return token
  } finally {
    await client.close()
  }
}

/**
 * Retries with a new login. A session belongs to one server: if that server is being replaced, the next server does not
 * know the login.
 */
async function conversations(uri: string, method = 'GET', body?: object): Promise<Record<string, unknown>> {
  const send = async () =>
    fetching(`${uri}/api/conversations`, {
      method,
      headers: { authorization: `Bearer ${await logIn(uri)}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const first = await send()
  const answer = first.status === 401 ? await send() : first
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Record<string, unknown>
}
const contents = async (uri: string): Promise<string> => JSON.stringify((await conversations(uri)).conversations)
const write = (uri: string, content: string) =>
  conversations(uri, 'POST', {
    ...{ provider: 'openai', model: 'small', connection: 'app' },
    messages: [{ role: 'user', content }],
  })

beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
  fetching = await fetchingFrom(provider)
  const { status, body } = await api.create({
    name: 'conversing',
    ip_allowlist: openTo(provider.clientAddress),
    services: [
      {
        ...{ service_type: 'mcp', ip_allowlist: openTo(provider.clientAddress) },
        mcp_config: { init_users: 'alice:secret-of-alice' },
      },
    ],
  })
  expect(status, JSON.stringify(body)).toBe(200)
  ;({ id } = body)
  await running(`/databases/${id}`)
})
afterAll(async () => {
  if (id !== undefined) await api.remove(id)
  await provider?.stop()
})

test('a change of the service, which replaces its pod, keeps conversations, and no role of the user can access them', async () => {
  const uri = uriOf(await running(`/databases/${id}`))
  await write(uri, 'first words')
  const mcp = { service_type: 'mcp', mcp_config: { allow_writes: true } }
  expect((await api.change(id, { services: [mcp] })).status).toBe(200)
  await running(`/databases/${id}`)
  expect(await contents(uri)).toContain('first words')
  const admin = await api.connection(id, 'admin')
  await expect(query({ ...admin, database: 'espalier' }, 'SELECT 1')).rejects.toMatchObject({ code: '42501' })
})

test('a restore in place resets conversations to the backup, and a branch starts without conversations', async () => {
  const uri = uriOf(await read(`/databases/${id}`))
  const wait = { prefer: 'wait=60' }
  const { body: backup } = await api.call<Served>('POST', `/databases/${id}/backup`, { kind: 'hot' }, wait)
  await write(uri, 'later words')
  const { body: branch } = await api.call<Served>('POST', `/databases/${id}/branches`, {}, wait)
  const path = `/databases/${id}/branches/${branch.id}`
  await running(path)
  // A branch does not have the users of its source, which shows that its Postgres has another database.
  const { body: ofBranch } = await api.call<Served>('GET', `${path}?user_type=admin`)
  if (ofBranch.connection === undefined) throw new Error('the branch has no connection')
  const number = "SELECT oid::text FROM pg_database WHERE datname = 'espalier'"
  const [own, source] = [await query(ofBranch.connection, number), await query(await api.connection(id), number)]
  expect(own).toHaveLength(1)
  expect(own).not.toEqual(source)
  expect((await api.call('DELETE', path, undefined, wait)).status).toBe(204)

  await api.call('POST', `/databases/${id}/restore`, { backup_id: backup.id }, wait)
  await running(`/databases/${id}`)
  const restored = await eventually('the service returns the conversations', () => contents(uri).catch(() => undefined))
  expect(restored).toContain('first words')
  expect(restored).not.toContain('later words')
  // After the restore, the tool server may start again without its sessions, so the client logs in again.
  await eventually('the service stores a message', () => write(uri, 'words after the restore').catch(() => undefined))
}, 180_000)
