/** Event streams over real sockets, for several accounts and two replicas. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { tenantName } from '../../crds/index.ts'
import { type Client, createStable, setSnapshotClass, startClient, until } from '../testing/client.ts'
import { bearer, type Claims } from '../testing/harness.ts'

let client: Client
let other: Client
let addresses: [string, string]
/** The callbacks of `setInterval` with 15 s, which are the beats of both replicas. */
let beats: (() => void)[]
const opened: AbortController[] = []

beforeAll(async () => {
  client = await startClient()
  other = await startClient({ beside: client })
  const listen = ({ app }: Client) => app.listen({ host: '127.0.0.1', port: 0 })
  const first = await listen(client)
  addresses = [first, await listen(other)]
})
afterAll(async () => {
  await other?.close()
  await client?.close()
})
beforeEach(() => {
  beats = []
  const real = setInterval
  vi.spyOn(globalThis, 'setInterval').mockImplementation(((call: () => void, ms: number) => {
    if (ms === 15_000) beats.push(call)
    return real(call, ms)
  }) as typeof setInterval)
})
afterEach(async () => {
  for (const controller of opened.splice(0)) controller.abort()
  await until(async () => (await streams()) === 0)
  vi.restoreAllMocks()
})

const beatNow = () => {
  for (const beat of beats) beat()
}
const gauge = async ({ metrics }: Client) =>
  Number((await metrics.registry.metrics()).match(/^espalier_api_event_streams (\d+)$/m)?.[1])
const streams = async () => (await gauge(client)) + (await gauge(other))

type Stream = { headers: Headers; text: () => string; changes: () => Record<string, unknown>[]; ended: () => boolean }

async function open(claims: Claims = {}, address = addresses[0]): Promise<Stream> {
  const controller = new AbortController()
  opened.push(controller)
  const response = await fetch(`${address}/managed/v1/events`, {
    headers: await bearer(claims),
    signal: controller.signal,
  })
  expect(response.status).toBe(200)
  let text = ''
  let isEnded = false
  const read = async () => {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString()
    isEnded = true
  }
  read().catch(() => {})
  await until(() => text.startsWith('retry: 2000\nevent: refresh\ndata: {}\n\n'))
  return {
    headers: response.headers,
    text: () => text,
    changes: () => [...text.matchAll(/^event: change\ndata: (.*)$/gm)].map(([, data = '']) => JSON.parse(data)),
    ended: () => isEnded,
  }
}

const create = async (name: string, claims: Claims = {}) =>
  (await client.call('POST', '/databases', { body: { name, region: 'local', size: 'small' }, claims })).body.id

test('has headers that prevent proxies from storing or buffering the stream', async () => {
  const { headers } = await open()
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-request-id': expect.any(String),
    'ratelimit-policy': expect.any(String),
  })
})

test('reports changes of every kind, at each replica, with ids and status only', async () => {
  const here = await open()
  const there = await open({}, addresses[1])
  await setSnapshotClass(client, { name: 'snapshots', atomic: true })
  const id = await createStable(client, 'followed')
  const { body: backup } = await client.call('POST', `/databases/${id}/backup`, { body: { kind: 'hot' } })
  const { body: branch } = await client.call('POST', `/databases/${id}/branches`)
  expect({ backup, branch }).toMatchObject({ backup: { id: expect.any(String) }, branch: { id: expect.any(String) } })
  for (const stream of [here, there]) {
    const has = (expected: object) =>
      until(() =>
        stream.changes().some(change => Object.entries(expected).every(([key, value]) => change[key] === value)),
      )
    await has({ kind: 'database', id, database_id: id, status: 'available' })
    await has({ kind: 'task', database_id: id, status: 'queued' })
    await has({ kind: 'backup', id: backup.id, database_id: id })
    await has({ kind: 'branch', id: branch.id, database_id: id, status: 'creating' })
    for (const change of stream.changes())
      expect(Object.keys(change).filter(key => !['kind', 'id', 'database_id', 'status'].includes(key))).toEqual([])
  }
  await client.call('DELETE', `/databases/${id}?force=true`)
  await until(() => here.changes().some(change => change.kind === 'database' && change.status === 'deleted'))
})

test('an account receives no id of another account', async () => {
  const ownStream = await open({ tenant: 'own' })
  const otherStream = await open({ tenant: 'other' })
  const secret = await create('secret', { tenant: 'other' })
  await until(() => otherStream.changes().some(({ id }) => id === secret))
  const own = await create('own', { tenant: 'own' })
  await until(() => ownStream.changes().some(({ id }) => id === own))
  expect(ownStream.text()).not.toContain(secret)
  expect(otherStream.text()).not.toContain(own)
  const ids = new Set(ownStream.changes().map(change => change.database_id))
  expect(ids).toEqual(new Set([own]))
})

test('needs a token, refuses parameters, and has no HEAD', async () => {
  expect((await client.call('GET', '/events', { token: null })).status).toBe(401)
  expect((await client.call('GET', '/events?since=1')).status).toBe(400)
  expect(await client.call('HEAD', '/events')).toMatchObject({ status: 405, headers: { allow: 'GET' } })
})

test('beats keep the stream open until the token must be verified again', async () => {
  const stream = await open()
  beatNow()
  await until(() => stream.text().endsWith(': \n\n'))
  client.now.ms += 300_001
  try {
    beatNow()
    await until(stream.ended)
  } finally {
    client.now.ms = 0
  }
})

test('ends if the member is removed from the account', async () => {
  const stream = await open({ tenant: 'own', sub: 'eve' })
  const remaining = await open({ tenant: 'own', sub: 'ada' })
  const name = tenantName('own')
  const tenant = await client.cluster.get('Tenant', { name })
  if (tenant === undefined) throw new Error('no tenant')
  await client.cluster.replace('Tenant', { ...tenant, spec: { ...tenant.spec, revokedMembers: ['eve'] } })
  await until(() => {
    beatNow()
    return stream.ended()
  })
  expect(remaining.ended()).toBe(false)
})

test('an account can have fifty streams; a closed stream makes space for a new one', async () => {
  const many = await Promise.all(Array.from({ length: 50 }, () => open({ tenant: 'greedy' })))
  const refused = await client.call('GET', '/events', { claims: { tenant: 'greedy' } })
  expect(refused).toMatchObject({
    status: 429,
    headers: { 'retry-after': '5' },
    body: { code: 429, message: 'the account has 50 event streams here: close one, then retry' },
  })
  await open({ tenant: 'modest' })
  expect(await gauge(client)).toBe(many.length + 1)
  opened[0]?.abort()
  await until(async () => (await gauge(client)) === 50)
  await open({ tenant: 'greedy' })
})

test('ends cleanly when the server stops', async () => {
  const third = await startClient({ beside: client })
  const stream = await open({}, await third.app.listen({ host: '127.0.0.1', port: 0 }))
  const began = performance.now()
  await third.close()
  await until(stream.ended)
  expect(performance.now() - began).toBeLessThan(5_000)
})
