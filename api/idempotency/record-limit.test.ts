/** The number of a tenant's keys is limited. No key within the limit is deleted before it expires. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient } from '../testing/client.ts'
import { configurationOf } from '../testing/harness.ts'
import { createIdempotency } from './idempotency.ts'
import { idempotencyComponent } from './record.ts'

const namespace = tenantNamespace('acme')
const most = 20
const dayMs = 24 * 3600 * 1000
let client: Client
let other: Client
/** How many milliseconds both replicas' clocks are ahead. */
let aheadMs: number
beforeEach(async () => {
  aheadMs = 0
  const options = {
    configuration: configurationOf({ idempotency: { recordsPerTenant: most } }),
    now: () => Date.now() + aheadMs,
  }
  client = await startClient(options)
  other = await startClient({ ...options, beside: client })
})
afterEach(async () => {
  await other.close()
  await client.close()
})

const records = async () =>
  (await client.cluster.list('ConfigMap', { namespace, labels: { [labels.component]: idempotencyComponent } })).items
const change = (id: string, key: string, options = [key], { replica = client, tenant = 'acme' } = {}) =>
  replica.call('PATCH', `/databases/${id}`, {
    body: { options },
    headers: { 'idempotency-key': key },
    claims: { tenant, exp: Math.floor(Date.now() / 1000) + 3 * 24 * 3600 },
  })

test('of many new keys at once, only as many as allowed are accepted; those get their response again, the others a time to retry', async () => {
  const id = await createStable(client, 'bounded')
  const keys = Array.from({ length: most + 15 }, (_, n) => `k${n}`)
  // No record is created before all requests have requested capacity.
  const { promise: allCounted, resolve } = Promise.withResolvers<void>()
  client.cluster.before = async (operation, kind) => {
    if (operation === 'create' && kind === 'ConfigMap') await allCounted
  }
  setTimeout(resolve, 200)
  const answers = await Promise.all(keys.map(async key => ({ key, answer: await change(id, key) })))
  client.cluster.before = undefined
  const taken = answers.filter(({ answer }) => answer.status === 200)
  expect(taken).toHaveLength(most)
  expect(await records()).toHaveLength(most)
  for (const { answer } of answers.filter(each => !taken.includes(each))) {
    expectError(answer, 429, /^Idempotency-Key: the account has used 20 new keys within 24 hours/)
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(dayMs / 1000 - 120)
    expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(dayMs / 1000)
    expect(answer.headers).toMatchObject({
      'ratelimit-policy': '"keys";q=20;w=86400',
      ratelimit: `"keys";r=0;t=${answer.headers['retry-after']}`,
    })
  }
  for (const { key, answer } of taken)
    expect((await change(id, key, [key], { replica: other })).body).toEqual(answer.body)
  expectError(await change(id, 'one-more', ['x'], { replica: other }), 429)
  // Requests without a key, and other tenants' requests, are not limited.
  const plain = await client.call('PATCH', `/databases/${id}`, { body: { options: ['plain'] } })
  expect(plain.status).toBe(200)
  const body = { name: 'theirs', region: 'local', size: 'small' }
  const headers = { 'idempotency-key': 'k' }
  expect((await client.call('POST', '/databases', { body, headers, claims: { tenant: 'b' } })).status).toBe(200)
})

test('capacity is free again after any replica has deleted expired keys, and after a refusal releases a key', async () => {
  const id = await createStable(client, 'renewed')
  const missing = '0198c0de-0000-7000-8000-000000000001'
  for (let n = 0; n < 3 * most; n++) expectError(await change(missing, `m${n}`), 404)
  expect(await records()).toHaveLength(0)
  for (let n = 0; n < most; n++) expect((await change(id, `k${n}`)).status).toBe(200)
  expectError(await change(id, 'late'), 429)
  aheadMs = dayMs + 1000
  expect((await change(id, 'late')).status).toBe(200)
  expect(await records()).toHaveLength(1)
})

test('repeated requests without capacity do not make the cluster count repeatedly', async () => {
  const id = await createStable(client, 'asked')
  for (let n = 0; n < most; n++) await change(id, `k${n}`)
  let lists = 0
  client.cluster.before = (operation, kind) => {
    if (operation === 'list' && kind === 'ConfigMap') lists++
  }
  for (let n = 0; n < 30; n++) expectError(await change(id, `over${n}`), 429)
  expect(lists).toBeLessThan(3)
})

test('cleanup reads the records in pages, and deletes only expired records', async () => {
  await createStable(client, 'swept')
  const draft = (name: string, data: Record<string, string>) =>
    client.cluster.create('ConfigMap', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace, labels: { [labels.component]: idempotencyComponent } },
      data,
    })
  const record = (claimedAt: number) =>
    JSON.stringify({
      request: 'r',
      claimedAt,
      objectId: 'o',
      taskId: 't',
      answer: { status: 204, body: '', headers: {} },
    })
  const now = Date.now()
  for (let n = 0; n < 1200; n++) await draft(`idempotency-${n}`, { 'record.json': record(now - (n % 2) * dayMs) })
  for (const [name, text] of [
    ['cut', '{"request'],
    ['none', 'null'],
    ['other', '[]'],
  ] as const)
    await draft(`idempotency-${name}`, { 'record.json': text })
  let lists = 0
  client.cluster.before = (operation, kind) => {
    if (operation === 'list' && kind === 'ConfigMap') lists++
  }
  await createIdempotency(client.cluster, () => now, most).sweep()
  client.cluster.before = undefined
  expect(lists).toBe(3)
  const remaining = await records()
  expect(remaining).toHaveLength(600)
  expect(remaining.every(({ metadata }) => Number(metadata.name.split('-')[1]) % 2 === 0)).toBe(true)
})

test('renders a response that is too long to be stored again, from the current object', async () => {
  const id = await createStable(client, 'long')
  const rules = Array.from({ length: 50 }, (_, n) => ({ cidr: `10.0.${n}.0/24`, label: '\u{1f40d}'.repeat(64) }))
  const options = Array.from({ length: 32 }, () => '"'.repeat(64))
  const replace = (replica: Client) =>
    replica.call('PATCH', `/databases/${id}`, {
      body: { options, ip_allowlist: { rules } },
      headers: { 'idempotency-key': 'long' },
    })
  const first = await replace(client)
  expect(first.status).toBe(200)
  expect(JSON.stringify(first.body).length).toBeGreaterThan(8 * 1024)
  const [stored] = await records()
  expect(JSON.stringify(stored?.data).length).toBeLessThan(20 * 1024)
  const again = await replace(other)
  expect(again.body).toEqual(first.body)
  expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
  await client.cluster.delete('ManagedDatabase', { namespace, name: 'long' })
  await expect.poll(async () => (await replace(other)).status).toBe(409)
  expectError(await replace(other), 409, /too long to be stored/)
})
