/** The services of one database while it is branched, restored, suspended, restarted, resized and deleted. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { type ApiClient, connect, eventually, query } from '../client.ts'
import type { Fetch } from '../https-fetch.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import {
  createServed,
  failuresOfNow,
  fetchingFrom,
  readServed,
  type Served,
  serviceOf,
  stopAll,
  untilRunning,
} from '../service-load.ts'
import { openStream } from './mcp-sessions.ts'
import { connectionOf, createBackup, createBranch, readBackup, succeeded } from './requests.ts'
import { type Clients, clientsOf, loadAll } from './service-clients.ts'
import { minutes } from './serving.ts'
import { remainingOf } from './storage.ts'

const tenant = 'served'
let provider: KindProvider
let api: ApiClient
let fetching: Fetch
let database: Served
let clients: Clients
let path: string

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client(tenant)
  fetching = await fetchingFrom(provider)
  database = await createServed(api, 'lived', provider.clientAddress)
  path = `/databases/${database.id}`
  clients = await clientsOf(database, fetching)
}, minutes(4))
afterAll(async () => {
  await clients?.close()
  if (database !== undefined) await api.remove(database.id)
  await provider?.stop()
})

const bearer = (token: string | undefined) => ({ headers: { authorization: `Bearer ${token}` } })
const tokensOf = (served: Served) => ({
  mcp: serviceOf(served, 'mcp').mcp_config?.init_tokens,
  rag: serviceOf(served, 'rag').bearer_token,
})
const initialize = (token: string | undefined) => ({
  method: 'POST',
  headers: {
    ...bearer(token).headers,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  },
  body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
})
/** The status of the services' responses for a token. The request is a real request that needs no session. */
const statusBy = async (served: Served, tokens: ReturnType<typeof tokensOf>) => ({
  mcp: (await fetching(`${serviceOf(served, 'mcp').uri}/v1`, initialize(tokens.mcp))).status,
  rag: (await fetching(`${serviceOf(served, 'rag').uri}/v1/pipelines`, bearer(tokens.rag))).status,
})
/** A report with hundreds of problems shows only the first of them. */
const firstFailures = async (loads: ReturnType<typeof loadAll>) => (await stopAll(loads)).slice(0, 20)
const servesAgain = async () => {
  expect(await failuresOfNow(clients.calls)).toEqual([])
}
const idsOf = ({ services }: Served) =>
  services.map(({ service_id, state, uri, mcp_config, bearer_token }) => ({
    ...{ service_id, state, uri, bearer_token },
    token: mcp_config?.init_tokens,
  }))
/** Checks that the services of the database are unchanged: same ids, addresses and tokens, and all run. */
const servicesStay = async () => expect(idsOf(await untilRunning(api, database.id))).toEqual(idsOf(database))

test(
  'a branch has services at separate addresses, which refuse the tokens of the source',
  async () => {
    const loads = loadAll(clients)
    const stream = await openStream(database, fetching)
    onTestFinished(() => stream.close())
    const requested = await createBranch(api, database.id)
    await succeeded(api, requested)
    const branchPath = `${path}/branches/${requested.body.id}`
    const branch = await eventually('the services of the branch run', async () => {
      const found = await readServed(api, branchPath)
      return found.services.every(({ state }) => state === 'running') && found
    })
    expect(branch.services.map(({ service_type }) => service_type)).toEqual(['mcp', 'rest', 'rag'])
    for (const { service_type, uri } of branch.services)
      expect(new URL(uri ?? '').hostname).not.toBe(new URL(serviceOf(database, service_type).uri).hostname)
    const [own, ofSource] = [tokensOf(branch), tokensOf(database)]
    expect([own.mcp === ofSource.mcp, own.rag === ofSource.rag]).toEqual([false, false])
    const refused = { mcp: 401, rag: 401 }
    expect(await statusBy(branch, ofSource)).toEqual(refused)
    expect(await statusBy(database, own)).toEqual(refused)
    expect(await statusBy(branch, own)).toEqual({ mcp: 200, rag: 200 })

    const ofBranch = await clientsOf(branch, fetching)
    onTestFinished(() => ofBranch.close())
    expect(await failuresOfNow(ofBranch.calls)).toEqual([])
    await query(await connectionOf(api, database.id, branch.id), 'DELETE FROM fruit WHERE id > 15')
    const rows = await (await fetching(`${serviceOf(branch, 'rest').uri}/fruit?select=id&limit=100`)).json()
    expect(rows).toHaveLength(10) // its max_rows, of the 15 remaining
    expect((await api.call('DELETE', branchPath, undefined, { prefer: 'wait=60' })).status).toBe(204)
    await eventually('the address of the branch answers 404 or 421', async () => {
      const { status } = await fetching(`${serviceOf(branch, 'rest').uri}/fruit`)
      return [404, 421].includes(status)
    })
    expect(await firstFailures(loads)).toEqual([])
    expect(stream.ended()).toBe(undefined)
  },
  minutes(6),
)

test(
  // This runs before the restore, because the restore creates a pod with another name.
  'a killed Postgres or a deleted pod causes at most 503 with Retry-After',
  async () => {
    const namespace = provider.namespace(tenant)
    const postmaster = () => provider.postmaster(namespace, database.id).catch(() => ({ id: '', kill: async () => {} }))
    const killed = await postmaster()
    const loads = loadAll(clients, { mayBeAway: true })
    await killed.kill()
    await eventually('a new postmaster runs', async () => !['', killed.id].includes((await postmaster()).id), 120_000)
    await eventually('Postgres accepts a connection', async () =>
      (await connect(await api.connection(database.id))).end().then(() => true),
    )
    await servicesStay()
    await servesAgain()
    const { id: before } = await postmaster()
    await provider.kubectl(['delete', 'pod', '-n', namespace, childNames.pod(database.id, 1), '--wait=false'])
    await eventually('a new postmaster runs', async () => !['', before].includes((await postmaster()).id), 120_000)
    await servicesStay()
    await sleep(1_000)
    expect(await firstFailures(loads)).toEqual([])
    await servesAgain()
  },
  minutes(6),
)

test(
  'a restore in place keeps the services and their clients',
  async () => {
    const backup = await createBackup(api, database.id)
    await succeeded(api, backup)
    expect((await readBackup(api, backup.body.id)).status).toBe('completed')
    await query(await api.connection(database.id), 'CREATE TABLE later (n int)')
    const loads = loadAll(clients, { mayBeAway: true })
    await succeeded(api, await api.call('POST', `${path}/restore`, { backup_id: backup.body.id }))
    await servicesStay()
    await sleep(1_000)
    expect(await firstFailures(loads)).toEqual([])
    const [{ later } = {}] = await query(await api.connection(database.id), "SELECT to_regclass('later') AS later")
    expect(later).toBe(null)
    await servesAgain()
  },
  minutes(5),
)

test(
  'a new size restarts Postgres, and causes at most 503 with Retry-After',
  async () => {
    const loads = loadAll(clients, { mayBeAway: true })
    await succeeded(api, await api.call('POST', `${path}/size`, { size: 'small' }))
    await servicesStay()
    await sleep(1_000)
    expect(await firstFailures(loads)).toEqual([])
    await servesAgain()
  },
  minutes(5),
)

test(
  'services of a suspended database answer 503 with that reason, and serve again after it is resumed',
  async () => {
    const loads = loadAll(clients, { mayBeAway: true, mayEnd: true })
    const before = clients.restAway()
    await succeeded(api, await api.call('POST', `${path}/suspend`))
    for (const { uri = '' } of database.services) {
      const answer = await fetching(`${uri}/v1`, uri.endsWith('/rag') ? bearer(tokensOf(database).rag) : {})
      expect([uri, answer.status, await answer.text()]).toEqual([uri, 503, expect.stringContaining('suspended')])
      expect(answer.headers.get('retry-after')).not.toBe(null)
    }
    // Pods of services finish their requests before they stop.
    await eventually('every pod of the database is deleted', async () =>
      (await remainingOf(provider, database.id)).every(line => !line.startsWith('Pod ')),
    )
    await succeeded(api, await api.call('POST', `${path}/resume`))
    await servicesStay()
    await sleep(1_000)
    expect(await firstFailures(loads)).toEqual([])
    const served = Object.keys(clients.calls).filter((_, index) => loads[index]?.accepted() === 0)
    expect(served.filter(name => !name.startsWith('rest'))).toEqual([])
    expect(clients.restAway()).toBeGreaterThan(before)
    await servesAgain()
  },
  minutes(5),
)

test(
  'after the deletion no object remains, and requests to its addresses get the response that they do not exist',
  async () => {
    await succeeded(api, await api.remove(database.id))
    for (const { uri } of database.services) expect([404, 421]).toContain((await fetching(`${uri}/`)).status)
    await eventually('every object of the database is deleted', async () => {
      const remaining = await remainingOf(provider, database.id)
      if (remaining.length > 0) throw new Error(remaining.join('\n'))
      return true
    })
  },
  minutes(3),
)
