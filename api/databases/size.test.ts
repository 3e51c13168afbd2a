/** Resizing databases through the API, on the in-process store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { desiredHash, type ManagedDatabaseStatus, readOperation, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

const namespace = tenantNamespace('acme')
const small = { name: 'small', version: 2 }
const large = { name: 'large', version: 1 }

let client: Client
beforeAll(async () => {
  client = await startClient()
  const model = await client.cluster.get('Size', { name: 'large-v1' })
  if (model === undefined) throw new Error('no size')
  const { spec, apiVersion, kind } = model
  const shape = { ...spec.shape, storageSize: '1Mi' }
  await client.cluster.create('Size', {
    apiVersion,
    kind,
    metadata: { name: 'tiny-v1' },
    spec: { ...spec, id: crypto.randomUUID(), name: 'tiny', shape },
  })
})
afterAll(() => client.close())

const stored = async (name: string) => {
  const database = await client.cluster.get('ManagedDatabase', { namespace, name })
  if (database === undefined) throw new Error(`${name} is not stored`)
  return database
}
const resize = (id: string, size: unknown, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/size`, { body: { size }, headers })
const shown = async (id: string) => (await client.call('GET', `/databases/${id}`)).body
const SizeApplied = (reason: string, message: string) => ({
  type: 'SizeApplied',
  status: 'False' as const,
  reason,
  message,
  lastTransitionTime: '2026-01-01T00:00:00Z',
})

/** Sets the operator's condition for a resize that is not applied yet. */
async function hindered(name: string, status: Partial<ManagedDatabaseStatus> = {}): Promise<void> {
  const conditions = [SizeApplied('GrowthRefused', 'the cluster refused to grow the volume: exceeded quota')]
  await reconcile(client.cluster, 'acme', name, { size: small, conditions, ...status })
  const id = (await stored(name)).metadata.labels?.['espalier.dev/id'] ?? ''
  await until(async () => (await shown(id)).status === (status.phase ?? 'available'))
}

test('returns 204 with its task; reads return the old size until the new size is applied', async () => {
  const id = await createStable(client, 'grown')
  const answer = await resize(id, 'large')
  expect(answer).toMatchObject({ status: 204, body: '' })
  const database = await stored('grown')
  expect(database.spec.size).toEqual(large)
  expect(readOperation(database)).toMatchObject({ name: 'update-managed-size', taskId: answer.headers['x-task-id'] })
  const { body } = await client.call('GET', `/tasks/${answer.headers['x-task-id']}`)
  expect(body).toMatchObject({ name: 'update-managed-size', subject_id: id, request: { size: 'large' } })
  expect((await shown(id)).status).toBe('modifying')
  await reconcile(client.cluster, 'acme', 'grown', { phase: 'modifying', size: small, appliedHash: 'before' })
  await until(async () => (await shown(id)).size === 'small')
  expectError(await resize(id, 'small'), 409, /is modifying/)
  await reconcile(client.cluster, 'acme', 'grown', { size: large })
  await until(async () => (await shown(id)).size === 'large')
})

test('a database without a recorded size returns the requested size', async () => {
  const id = await createStable(client, 'older')
  expect((await shown(id)).size).toBe('small')
})

describe('refused with 400', () => {
  test.each([
    ['a size that does not exist', 'huge', /^size: unknown size/],
    ['a deprecated size', 'old', /^size: this size is deprecated/],
    ['a retired size', 'ancient', /^size: this size is retired/],
    ['the current size', 'small', /^size: the database has this size already/],
    [
      'a size with less storage',
      'tiny',
      /^size: tiny has 1Mi of storage, less than the .* of small: volumes cannot shrink/,
    ],
    ['a size that is not text', 5, /^size: must be a string/],
    ['none', undefined, /^size: is required/],
  ])('%s', async (what, size, message) => {
    const id = await createStable(client, `no${what.replaceAll(/[^a-z]/g, '')}`)
    expectError(await resize(id, size), 400, message)
  })
})

describe('a database that waits for its first volume', () => {
  const pending = { ...SizeApplied('Pending', 'the volume does not exist yet'), type: 'VolumeReady' }
  const volume = { claim: 'db', uid: 'uid', systemIdentifier: '7' }

  test.each(['creating', 'failed', 'modifying'] as const)('accepts a smaller size, while %s', async phase => {
    const name = `first${phase}`
    const id = await createStable(client, name)
    await reconcile(client.cluster, 'acme', name, { phase, conditions: [pending] })
    await until(async () => (await shown(id)).status === phase)
    expect((await resize(id, 'tiny')).status).toBe(204)
    expect((await stored(name)).spec.size).toEqual({ name: 'tiny', version: 1 })
  })

  test('refuses a smaller size after the first volume exists', async () => {
    const id = await createStable(client, 'firsthad')
    await reconcile(client.cluster, 'acme', 'firsthad', { phase: 'failed', conditions: [pending], volume })
    await until(async () => (await shown(id)).status === 'failed')
    expectError(await resize(id, 'tiny'), 409, /is failed/)
  })
})

test("causes a 404 for another tenant's database", async () => {
  expectError(await resize(crypto.randomUUID(), 'large'), 404)
})

describe('a size that cannot be applied', () => {
  test.each([
    ['available', 'available'],
    ['degraded', 'degraded'],
    ['suspended', 'suspended'],
  ] as const)('is replaced by the applied size, while %s', async (name, phase) => {
    const id = await createStable(client, `given${name}`)
    await resize(id, 'large')
    await hindered(`given${name}`, { phase })
    expect(await shown(id)).toMatchObject({ status: phase, size: 'small' })
    expectError(
      await resize(id, 'large'),
      409,
      /size was already requested: the cluster refused to grow the volume: exceeded quota/,
    )
    expect((await resize(id, 'small')).status).toBe(204)
    expect((await stored(`given${name}`)).spec.size).toEqual(small)
  })

  test('can be replaced while the volume grows, but not while Postgres restarts with it', async () => {
    const id = await createStable(client, 'waiting')
    await resize(id, 'large')
    const { spec } = await stored('waiting')
    const operation = {
      taskId: crypto.randomUUID(),
      name: 'update-managed-size' as const,
      hash: desiredHash(spec),
      startedAt: '2026-01-01T00:00:00Z',
      deadlineAt: '2026-01-01T00:10:00Z',
    }
    const growing = { phase: 'modifying' as const, appliedHash: 'before', operation }
    await hindered('waiting', {
      ...growing,
      conditions: [SizeApplied('Restarting', 'Postgres is being restarted with the requested size')],
    })
    expectError(await resize(id, 'small'), 409, /is modifying/)
    await hindered('waiting', { ...growing, operation: { ...operation, name: 'update-managed' } })
    expectError(await resize(id, 'small'), 409, /is modifying/)
    await hindered('waiting', growing)
    await until(async () => (await resize(id, 'small')).status === 204)
  })

  test('can be replaced by the previous version, although a newer version is available', async () => {
    const id = await createStable(client, 'versions')
    await resize(id, 'large')
    await hindered('versions', { size: { name: 'small', version: 1 } })
    expect((await resize(id, 'small')).status).toBe(204)
    expect((await stored('versions')).spec.size).toEqual({ name: 'small', version: 1 })
  })
})

test('runs once for one Idempotency-Key', async () => {
  const id = await createStable(client, 'once')
  const headers = { 'idempotency-key': 'resize-once' }
  const first = await resize(id, 'large', headers)
  const again = await resize(id, 'large', headers)
  expect([first.status, again.status]).toEqual([204, 204])
  expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
  await reconcile(client.cluster, 'acme', 'once', { size: large })
  expect((await resize(id, 'large', headers)).status).toBe(204)
})
