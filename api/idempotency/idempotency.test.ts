/** Idempotency-Key: a write is executed once, with any retries, replicas and crashes. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import { labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, setSnapshotClass, startClient, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'
import { createIdempotency } from './idempotency.ts'
import { idempotencyComponent } from './record.ts'

const namespace = tenantNamespace('acme')
let client: Client
let other: Client
beforeEach(async () => {
  client = await startClient()
  other = await startClient({ beside: client })
})
afterEach(async () => {
  await other.close()
  await client.close()
})

const post = (replica: Client, key: string, name = 'once', more: object = {}) =>
  replica.call('POST', '/databases', {
    body: { name, region: 'local', size: 'small', ...more },
    headers: { 'idempotency-key': key },
  })
const count = async () => (await client.cluster.list('ManagedDatabase', { namespace })).items.length
const records = async () =>
  (await client.cluster.list('ConfigMap', { namespace, labels: { [labels.component]: idempotencyComponent } })).items

describe('the same key', () => {
  test('and body return the first response again, from either replica', async () => {
    const first = await post(client, 'k1')
    expect(first.status).toBe(200)
    for (const replica of [client, other, client]) {
      const again = await post(replica, 'k1')
      expect(again.body).toEqual(first.body)
      expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
    }
    expect(await count()).toBe(1)
    expect((await client.cluster.list('Task', { namespace })).items).toHaveLength(1)
  })

  test('and the same fields in another order are the same request', async () => {
    const first = await post(client, 'k1')
    const body = { size: 'small', region: 'local', name: 'once' }
    const again = await client.call('POST', '/databases', { body, headers: { 'idempotency-key': 'k1' } })
    expect(again.body.id).toBe(first.body.id)
  })

  test('and another body are refused, and create nothing', async () => {
    await post(client, 'k1')
    expectError(await post(other, 'k1', 'another'), 400, /^Idempotency-Key: already used for another request$/)
    expect(await count()).toBe(1)
  })

  test('in many concurrent requests at both replicas creates one database, with one response', async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => post(n % 2 ? client : other, 'k1')))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect(new Set(answers.map(({ headers }) => headers['x-task-id'])).size).toBe(1)
    expect(await count()).toBe(1)
  })

  test('in many concurrent requests with different bodies makes one request succeed', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => post(n % 2 ? client : other, 'k1', `n${n}`)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(await count()).toBe(1)
  })

  test('of another tenant counts as another key', async () => {
    await post(client, 'k1')
    const body = { name: 'once', region: 'local', size: 'small' }
    const headers = { 'idempotency-key': 'k1' }
    expect((await client.call('POST', '/databases', { body, headers, claims: { tenant: 'b' } })).status).toBe(200)
  })

  test('is free again after a refusal', async () => {
    await post(client, 'k1', 'taken')
    expectError(await post(client, 'k2', 'taken'), 400, /^name: /)
    expect((await post(client, 'k2', 'free')).status).toBe(200)
  })

  test('after an internal error stays reserved for the same request, and for no other', async () => {
    await client.create('warm')
    client.cluster.before = (operation, kind) => {
      if (operation === 'create' && kind === 'ManagedDatabase') throw new ClusterError('NotFound', 'no namespace')
    }
    expectError(await post(client, 'k1'), 503, /^the account is still being set up/)
    const [claimed] = await records()
    client.cluster.before = undefined
    expectError(await post(other, 'k1', 'another'), 400, /^Idempotency-Key: already used for another request$/)
    const retried = await post(other, 'k1')
    expect(retried.status).toBe(200)
    expect(claimed?.data?.['record.json']).toContain(retried.body.id)
    expect(await count()).toBe(2)
  })

  test('after the database is deleted still returns the first response, and creates nothing', async () => {
    const first = await post(client, 'k1')
    await client.cluster.delete('ManagedDatabase', { namespace, name: 'once' })
    expect((await post(client, 'k1')).body).toEqual(first.body)
    expect(await count()).toBe(0)
  })
})

describe('a repeated request that prefers to wait', () => {
  const withKey = { 'idempotency-key': 'w1', prefer: 'wait=30' }
  test('waits, and returns the current state; without a wait it returns the first response', async () => {
    const first = await post(client, 'w1', 'waited')
    expect(first.body.status).toBe('creating')
    const body = { name: 'waited', region: 'local', size: 'small' }
    const pending = other.call('POST', '/databases', { body, headers: withKey })
    await reconcile(client.cluster, 'acme', 'waited')
    const waited = await pending
    expect(waited).toMatchObject({ status: 200, body: { id: first.body.id, status: 'available' } })
    expect(waited.headers).toMatchObject({
      'preference-applied': 'wait=30',
      'x-task-id': first.headers['x-task-id'],
      location: first.headers.location,
    })
    expect(waited.body).not.toHaveProperty('connection')
    expect((await post(client, 'w1', 'waited')).body).toEqual(first.body)
    expect((await records()).length).toBe(1)
  })

  test('returns the first response if the object was deleted meanwhile', async () => {
    const first = await post(client, 'w1', 'gone')
    await client.cluster.delete('ManagedDatabase', { namespace, name: 'gone' })
    await until(async () => (await client.call('GET', `/databases/${first.body.id}`)).status === 404)
    const body = { name: 'gone', region: 'local', size: 'small' }
    expect((await client.call('POST', '/databases', { body, headers: withKey })).body).toEqual(first.body)
  })

  test('stores the first response before any wait', async () => {
    const waiting = client.call('POST', '/databases', {
      body: { name: 'dying', region: 'local', size: 'small' },
      headers: withKey,
    })
    await until(async () => (await records()).some(({ data }) => data?.['record.json']?.includes('"answer"')))
    client.stop.abort()
    expect((await waiting).body.status).toBe('creating')
  })
})

describe('PATCH and DELETE', () => {
  test('are executed once, and their keys are separate', async () => {
    const id = await createStable(client, 'changed')
    const headers = { 'idempotency-key': 'p1' }
    const patch = (options: string[]) => client.call('PATCH', `/databases/${id}`, { body: { options }, headers })
    const first = await patch(['a'])
    expect((await client.call('PATCH', `/databases/${id}`, { body: { options: ['b'] } })).status).toBe(200)
    expect(await patch(['a'])).toMatchObject({ status: 200, body: first.body })
    expect((await client.call('GET', `/databases/${id}`)).body.options).toEqual(['b'])
    expectError(await patch(['c']), 400, /^Idempotency-Key: already used/)
    expectError(await client.call('DELETE', `/databases/${id}`, { headers }), 400, /^Idempotency-Key: already used/)
  })

  test('return the same task for an allowlist change in progress, from either replica', async () => {
    const id = await createStable(client, 'listed')
    const body = { ip_allowlist: { rules: [{ cidr: '10.0.0.0/8' }] } }
    const headers = { 'idempotency-key': 'p2' }
    const answers = await Promise.all(
      [client, other].map(it => it.call('PATCH', `/databases/${id}`, { body, headers })),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(new Set(answers.map(answer => answer.headers['x-task-id'])).size).toBe(1)
    const tasks = await client.cluster.list('Task', { namespace })
    expect(tasks.items.filter(({ spec }) => spec.name === 'update-managed-ip-allowlists')).toHaveLength(1)
  })

  test('return the first response for a completed deletion', async () => {
    const id = await createStable(client, 'deleted')
    const remove = (query = '') =>
      client.call('DELETE', `/databases/${id}${query}`, { headers: { 'idempotency-key': 'd1' } })
    const first = await remove()
    await until(async () => (await client.call('GET', `/databases/${id}`)).status === 404)
    expect(await remove()).toMatchObject({ status: 204, headers: { 'x-task-id': first.headers['x-task-id'] } })
    expectError(await remove('?force=true'), 400, /^Idempotency-Key/)
    expectError(await client.call('DELETE', `/databases/${id}`), 404)
  })

  test('of an account without objects cause a 404', async () => {
    const options = { headers: { 'idempotency-key': 'n1' }, claims: { tenant: 'fresh' } }
    const path = '/databases/0198c0de-0000-7000-8000-000000000001'
    expectError(await client.call('DELETE', path, options), 404)
    expectError(await client.call('PATCH', path, { ...options, body: {} }), 404)
    expectError(await client.call('POST', `${path}/restart`, options), 404)
  })
})

test('store no password, no token and no connection details', async () => {
  await setSnapshotClass(client, { name: 'snapshots', atomic: true })
  const id = await createStable(client, 'secret')
  expect((await client.call('GET', `/databases/${id}`)).body.connection.password).toBe('password-of-app')
  const allStable = async () => {
    await reconcile(client.cluster, 'acme', 'secret')
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
  }
  let key = 0
  const send = async (method: 'POST' | 'PATCH', path: string, body?: unknown) => {
    const headers = { 'idempotency-key': `s${++key}`, prefer: 'wait=0' }
    const answer = await client.call(method, `/databases/${id}${path}`, { body, headers })
    expect({ path, status: answer.status < 300 }).toEqual({ path, status: true })
  }
  await send('POST', '/backup', { kind: 'hot' })
  await send('POST', '/branches')
  await send('PATCH', '', { options: ['a'] })
  await send('POST', '/size', { size: 'large' })
  await allStable()
  await send('POST', '/roles/app/rotate-password')
  await allStable()
  await send('POST', '/restart')
  await allStable()
  await send('POST', '/suspend')
  const stored = await records()
  expect(stored).toHaveLength(key)
  for (const { data } of stored) expect(data?.['record.json']).not.toMatch(/connection"|password-of|_tokens|_key"/)
})

describe('a crashed process', () => {
  // In each run, one of a create's writes fails, and so does the request. The retry completes the work.
  test.each([
    ['create', 'ConfigMap'],
    ['create', 'ManagedDatabase'],
    ['create', 'Task'],
    ['replace', 'ConfigMap'],
  ] as const)('before %s %s: the retry creates one database with one task', async (operation, kind) => {
    await client.create('warm')
    client.cluster.before = (seen, of) => {
      if (seen === operation && of === kind) throw new ClusterError('Unavailable', 'gone')
    }
    const failed = await post(client, 'k1')
    expect(failed.status).toBe(kind === 'Task' ? 200 : 503)
    client.cluster.before = undefined
    const retried = await post(other, 'k1')
    expect(retried.status).toBe(200)
    expect(await count()).toBe(2)
    const object = await client.cluster.get('ManagedDatabase', { namespace, name: 'once' })
    expect(object?.metadata.labels?.[labels.id]).toBe(retried.body.id)
    expect(object?.metadata.annotations?.['espalier.dev/operation']).toContain(String(retried.headers['x-task-id']))
    expect((await post(client, 'k1')).body.id).toBe(retried.body.id)
  })
})

describe('a record', () => {
  test('contains no secret, and is deleted after 24 hours', async () => {
    await post(client, 'my-secret-key')
    const [record] = await records()
    expect(JSON.stringify(record)).not.toContain('my-secret-key')
    expect(JSON.stringify(record)).not.toContain('password')
    const idempotency = createIdempotency(client.cluster, () => Date.now() + 24 * 3600 * 1000 - 60_000, 100)
    await idempotency.sweep()
    expect(await records()).toHaveLength(1)
    await createIdempotency(client.cluster, () => Date.now() + 24 * 3600 * 1000 + 1000, 100).sweep()
    expect(await records()).toHaveLength(0)
  })

  test('that has expired no longer counts, deleted or not', async () => {
    await post(client, 'k1')
    client.now.ms = 24 * 3600 * 1000 + 1000
    const { authorization } = await import('../testing/harness.ts').then(({ bearer }) =>
      bearer({ exp: Math.floor(Date.now() / 1000) + 2 * 24 * 3600 }),
    )
    const response = await client.app.inject({
      method: 'POST',
      url: '/managed/v1/databases',
      headers: { authorization, 'idempotency-key': 'k1' },
      payload: { name: 'later', region: 'local', size: 'small' },
    })
    expect(response.statusCode).toBe(200)
    expect(await count()).toBe(2)
  })

  test('that is unreadable is replaced', async () => {
    await post(client, 'k1')
    const [record] = await records()
    if (record === undefined) throw new Error('no record')
    await client.cluster.replace('ConfigMap', { ...record, data: { 'record.json': '{"x":1}' } })
    expect((await post(client, 'k1', 'another')).status).toBe(200)
  })
})

test.each(['', ' ', 'a b', 'ü', 'a'.repeat(256)])('the key %j is refused', async key => {
  const answer = await post(client, key)
  expectError(answer, 400, /^Idempotency-Key: must be 1 to 255 visible ASCII characters$/)
})
