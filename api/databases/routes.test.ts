/** Creating and reading databases through the API on the in-process store. The test makes the operator's writes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  apiVersion,
  childNames,
  desiredHash,
  labels,
  readOperation,
  systemNamespace,
  teardownFinalizer,
  tenantName,
  tenantNamespace,
} from '../../crds/index.ts'
import { sealingKeySecret } from '../../sealing/credentials.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

const namespace = tenantNamespace('acme')
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const stored = (name: string) => storedDatabase(client, name)

describe('create', () => {
  test('writes the resource and its task, and returns everything except a password', async () => {
    const { status, headers, body } = await client.create('full', {
      display_name: 'Full',
      ip_allowlist: { rules: [{ cidr: '203.0.113.77/24', label: 'office' }, { cidr: '198.51.100.7' }], state: 'open' },
      options: ['a'],
      pg_version: '16',
      services: [],
    })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      name: 'full',
      region: 'local',
      size: 'small',
      status: 'creating',
      display_name: 'Full',
      pg_version: '16',
      options: ['a'],
      deletion_protection: false,
      branch_count: 0,
      branch_limit: null,
      services: [],
      domain: `full-${body.id.slice(-8)}.espalier.test`,
      ip_allowlist: {
        rules: [{ cidr: '203.0.113.0/24', label: 'office' }, { cidr: '198.51.100.7/32' }],
        state: 'restricted',
      },
    })
    expect(body.id).toMatch(uuid)
    expect(body).not.toHaveProperty('connection')
    expect(headers.location).toBe(`/managed/v1/tasks/${headers['x-task-id']}`)
    const object = await stored('full')
    expect(object.spec.size).toEqual({ name: 'small', version: 2 })
    expect(object.metadata.labels?.[labels.id]).toBe(body.id)
    expect(readOperation(object)).toEqual({
      taskId: headers['x-task-id'],
      name: 'create-managed',
      hash: desiredHash(object.spec),
    })
    const { body: task } = await client.call('GET', `/tasks/${headers['x-task-id']}`)
    expect(task).toMatchObject({
      name: 'create-managed',
      status: 'queued',
      subject_id: body.id,
      subject_kind: 'database',
    })
  })

  test('creates a closed database with the default version if the optional fields are omitted', async () => {
    const { body } = await client.create('plain')
    expect(body).toMatchObject({ pg_version: '18', options: [], display_name: null })
    expect(body.ip_allowlist).toEqual({ rules: [], state: 'closed' })
  })

  test('an allowlist keeps duplicates with their labels, and reports when it is open', async () => {
    const rules = [{ cidr: '10.0.0.1', label: 'a' }, { cidr: '10.0.0.1/32', label: 'b' }, { cidr: '0.0.0.0/0' }]
    const { body } = await client.create('open', { ip_allowlist: { rules } })
    expect(body.ip_allowlist.rules.map((rule: { cidr: string }) => rule.cidr)).toEqual([
      '10.0.0.1/32',
      '10.0.0.1/32',
      '0.0.0.0/0',
    ])
    expect(body.ip_allowlist.state).toBe('open')
  })

  test('refuses unavailable values, and lists the available values', async () => {
    expectError(await client.create('x', { region: 'moon' }), 400, /^region: .*available: local/)
    expectError(await client.create('x', { size: 'huge' }), 400, /^size: unknown size; available: small, large/)
    expectError(await client.create('x', { size: 'old' }), 400, /^size: this size is deprecated/)
    expectError(await client.create('x', { size: 'ancient' }), 400, /^size: this size is retired/)
    expect((await client.call('GET', '/databases?limit=1000')).body.map((d: { name: string }) => d.name)).not.toContain(
      'x',
    )
  })

  test('one of several concurrent creates with the same name succeeds', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.create('contested')))
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    for (const lost of answers.filter(({ status }) => status !== 200)) expectError(lost, 400, /^name: another database/)
    expect((await stored('contested')).metadata.labels?.[labels.id]).toBe(won[0]?.body.id)
  })

  test('refuses the name of a database that is still being deleted', async () => {
    await client.create('going')
    const object = await stored('going')
    await client.cluster.replace('ManagedDatabase', {
      ...object,
      metadata: { ...object.metadata, finalizers: [teardownFinalizer] },
    })
    await client.cluster.delete('ManagedDatabase', { namespace, name: 'going' })
    expectError(await client.create('going'), 400, /^name: .*still being deleted/)
  })

  test('reports an exceeded tenant limit as the limit, and another exceeded quota as a quota', async () => {
    const claims = { tenant: 'quotas' }
    const create = (name: string) =>
      client.call('POST', '/databases', { claims, body: { name, region: 'local', size: 'small' } })
    expect((await create('first')).status).toBe(200)
    const namespace = tenantNamespace('quotas')
    const quota = (name: string, most: string) =>
      client.cluster.apply('ResourceQuota', {
        apiVersion: 'v1',
        kind: 'ResourceQuota',
        metadata: { namespace, name },
        spec: { hard: { 'count/manageddatabases.espalier.dev': most } },
      })
    // The quota as the operator maintains it. Another replica created the last allowed database, and this replica has
    // not seen it yet.
    await quota('espalier-limits', '1')
    expectError(await create('second'), 403, /^the account has reached its limit of 1 databases$/)
    await quota('espalier-limits', '10')
    await quota('a', '1')
    expectError(await create('second'), 403, /^a resource quota of the account is used up$/)
  })

  test("enforces the tenant's limit of databases, for any number of concurrent requests", async () => {
    const tenantId = 'small-account'
    const claims = { tenant: tenantId }
    await client.cluster.create('Tenant', {
      apiVersion,
      kind: 'Tenant',
      metadata: { name: tenantName(tenantId) },
      spec: { tenantId, limits: { databases: 3 } },
    })
    // All six requests are between decision and write at the same time.
    client.cluster.before = async (operation, kind) => {
      if (operation === 'create' && kind === 'ManagedDatabase') await new Promise(resolve => setTimeout(resolve, 100))
    }
    const create = (n: number) =>
      client.call('POST', '/databases', { body: { name: `n${n}`, region: 'local', size: 'small' }, claims })
    const answers = await Promise.all([1, 2, 3, 4, 5, 6].map(create))
    client.cluster.before = undefined
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 403, 403, 403])
    expectError(await create(9), 403, /limit of 3 databases/)
    const { body: list } = await client.call('GET', '/databases', { claims })
    expect(list).toHaveLength(3)
    await client.call('DELETE', `/databases/${list[0].id}`, { claims, headers: { prefer: 'wait=5' } })
    expect((await create(9)).status).toBe(200)
  })
})

describe('cached responses', () => {
  test("are as new as this replica's last write, even if the watch is late", async () => {
    const id = await createStable(client, 'prompt')
    const pages = ['/databases?limit=1000', '/databases?limit=100']
    const find = async (path: string, name: string) =>
      (await client.call('GET', path)).body.find((database: { name: string }) => database.name === name)
    for (const path of pages) expect(await find(path, 'prompt')).toMatchObject({ status: 'available' })
    const { promise, resolve } = Promise.withResolvers<void>()
    client.cluster.silence = promise
    try {
      const created = await client.create('prompter')
      const task = await client.call('GET', `/tasks/${created.headers['x-task-id']}`)
      expect(task.status).toBe(200)
      await client.call('PATCH', `/databases/${id}`, { body: { ip_allowlist: { rules: [{ cidr: '10.0.0.1' }] } } })
      expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('modifying')
      for (const path of pages) {
        expect(await find(path, 'prompt')).toMatchObject({ status: 'modifying' })
        expect(await find(path, 'prompter')).toMatchObject({ id: created.body.id })
      }
      await client.call('DELETE', `/databases/${created.body.id}`)
      expect(await find('/databases?limit=100', 'prompter')).toMatchObject({ status: 'deleting' })
    } finally {
      client.cluster.silence = undefined
      resolve()
    }
    await until(async () => (await find('/databases?limit=100', 'prompter')) === undefined)
  })

  test('are rendered again after a branch, a region or the account has changed', async () => {
    const claims = { tenant: 'surrounded' }
    const body = { name: 'center', region: 'local', size: 'small' }
    const { body: created } = await client.call('POST', '/databases', { body, claims })
    const views = [
      async () => (await client.call('GET', `/databases/${created.id}`, { claims })).body,
      async () => (await client.call('GET', '/databases', { claims })).body[0],
    ]
    for (const view of views) expect(await view()).toMatchObject({ branch_count: 0, branch_limit: null })
    await client.cluster.create('Branch', {
      apiVersion,
      kind: 'Branch',
      metadata: { name: 'twig', namespace: tenantNamespace('surrounded') },
      spec: {
        databaseName: 'center',
        databaseId: created.id,
        region: 'local',
        size: { name: 'small', version: 2 },
        pgVersion: '18',
      },
    })
    const seen = async (field: string, value: unknown) => {
      for (const view of views) await until(async () => (await view())[field] === value)
    }
    await seen('branch_count', 1)
    const tenant = await client.cluster.get('Tenant', { name: tenantName('surrounded') })
    if (tenant === undefined) throw new Error('no tenant')
    const limits = { ...tenant.spec.limits, branchesPerDatabase: 7 }
    await client.cluster.replace('Tenant', { ...tenant, spec: { ...tenant.spec, limits } })
    await seen('branch_limit', 7)
    const region = await client.cluster.get('Region', { name: 'local' })
    if (region === undefined) throw new Error('no region')
    await client.cluster.replace('Region', { ...region, spec: { ...region.spec, domain: 'moved.test' } })
    await seen('domain', `center-${created.id.slice(-8)}.moved.test`)
    const moved = await client.cluster.get('Region', { name: 'local' })
    if (moved !== undefined) await client.cluster.replace('Region', { ...moved, spec: region.spec })
    await seen('domain', created.domain)
  })
})

describe('read', () => {
  test('returns the connection of the role of user_type, once available', async () => {
    const { body: created } = await client.create('connected')
    expect((await client.call('GET', `/databases/${created.id}`)).body).not.toHaveProperty('connection')
    await reconcile(client.cluster, 'acme', 'connected', {
      endpoint: { host: 'gateway.test', port: 15440, externalIpAddress: '203.0.113.9' },
    })
    const roles = {
      '': 'app',
      '?user_type=application': 'app',
      '?user_type=admin': 'admin',
      '?user_type=application_read_only': 'app_read_only',
    }
    await until(async () => (await client.call('GET', `/databases/${created.id}`)).body.status === 'available')
    for (const [query, role] of Object.entries(roles)) {
      const { body, headers } = await client.call('GET', `/databases/${created.id}${query}`)
      expect(body.connection).toEqual({
        username: role,
        password: `password-of-${role}`,
        port: 15440,
        database: 'app',
        host: 'gateway.test',
        external_ip_address: '203.0.113.9',
      })
      expect(body).toMatchObject({ port: 15440, storage_used: 4096 })
      expect(headers['cache-control']).toBe('no-store')
    }
  })

  test('an id in upper case is the same id', async () => {
    const { body } = await client.create('upper')
    expect((await client.call('GET', `/databases/${body.id.toUpperCase()}`)).body.id).toBe(body.id)
  })

  test('uses a changed credential, and returns no connection for a role without one', async () => {
    const id = await createStable(client, 'rotated')
    const name = childNames.credentials(id)
    const secret = await client.cluster.get('Secret', { namespace, name })
    if (secret?.data === undefined) throw new Error('no credentials')
    const { app_read_only: _, ...data } = secret.data
    await client.cluster.replace('Secret', { ...secret, data })
    const path = `/databases/${id}?user_type=application_read_only`
    await until(async () => !('connection' in (await client.call('GET', path)).body))
    expect((await client.call('GET', `/databases/${id}`)).body.connection.password).toBe('password-of-app')
  })

  test('a credential that cannot be decrypted causes a 503, without details', async () => {
    const id = await createStable(client, 'sealed')
    const name = childNames.credentials(id)
    const secret = await client.cluster.get('Secret', { namespace, name })
    if (secret === undefined) throw new Error('no credentials')
    await client.cluster.replace('Secret', { ...secret, data: { ...secret.data, app: secret.data?.admin ?? '' } })
    const read = () => client.call('GET', `/databases/${id}`)
    await until(async () => (await read()).status === 503)
    expectError(await read(), 503, /credentials .* cannot be read/)
  })

  test('a Secret without the credentials label is not decrypted', async () => {
    const id = await createStable(client, 'unlabelled')
    const key = { namespace, name: childNames.credentials(id) }
    const secret = await client.cluster.get('Secret', key)
    if (secret === undefined) throw new Error('no credentials')
    await client.cluster.replace('Secret', { ...secret, metadata: { ...secret.metadata, labels: {} } })
    await until(async () => !('connection' in (await client.call('GET', `/databases/${id}`)).body))
  })

  test('passwords are decrypted again after a missing or wrong sealing key is fixed', async () => {
    const replica = await startClient()
    try {
      const key = { namespace: systemNamespace, name: sealingKeySecret }
      const right = await replica.cluster.get('Secret', key)
      if (right === undefined) throw new Error('no sealing key')
      const { uid: _, resourceVersion: __, ...metadata } = right.metadata
      await replica.cluster.delete('Secret', key)
      const { body } = await replica.create('sealed')
      await reconcile(replica.cluster, 'acme', 'sealed')
      const read = () => replica.call('GET', `/databases/${body.id}`)
      await until(async () => (await read()).status === 503)
      await replica.cluster.create('Secret', { ...right, metadata, data: { key: Buffer.alloc(32).toString('base64') } })
      expect((await read()).status).toBe(503)
      await replica.cluster.delete('Secret', key)
      await replica.cluster.create('Secret', { ...right, metadata })
      expect((await read()).body.connection.password).toBe('password-of-app')
    } finally {
      await replica.close()
    }
  })

  test('updated_at changes with writes and conditions', async () => {
    const { body: created } = await client.create('dated')
    expect(Date.parse(created.updated_at)).toBeGreaterThanOrEqual(Date.parse(created.created_at))
    const condition = { type: 'Ready', status: 'True' as const, reason: 'Serves', message: '' }
    const conditions = [{ ...condition, lastTransitionTime: '2130-01-01T01:00:00+01:00' }]
    await reconcile(client.cluster, 'acme', 'dated', { conditions })
    const read = async () => (await client.call('GET', `/databases/${created.id}`)).body
    await until(async () => (await read()).updated_at.startsWith('2130'))
    // All writers' times become one format: Kubernetes writes whole seconds, people write offsets.
    expect((await read()).updated_at).toBe('2130-01-01T00:00:00.000Z')
    expect(created.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  })
})
