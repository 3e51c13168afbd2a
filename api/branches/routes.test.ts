/** Branches through the API, on the in-process store: request, refusal, list, read and deletion. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  annotatedOperation,
  apiVersion,
  type Branch,
  childNames,
  labels,
  slotsAnnotation,
  teardownFinalizer,
  tenantName,
  tenantNamespace,
} from '../../crds/index.ts'
import {
  type Client,
  createStable,
  expectError,
  setSnapshotClass,
  startClient,
  storedDatabase,
  until,
} from '../testing/client.ts'
import { configurationOf, giveCredentials, reconcile } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient({ configuration: configurationOf({ branches: { highestDepth: 2 } }) })
  await setSnapshotClass(client, { name: 'fast', atomic: true })
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const createBranch = (id: string, body?: object, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/branches`, { ...(body === undefined ? {} : { body }), headers })
const read = (id: string, branch: string, query = '') =>
  client.call('GET', `/databases/${id}/branches/${branch}${query}`)
const list = async (id: string, query = '') => (await client.call('GET', `/databases/${id}/branches${query}`)).body
const remove = (id: string, branch: string) => client.call('DELETE', `/databases/${id}/branches/${branch}`)
const stored = async (id: string): Promise<Branch> => {
  const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: id } })
  const [branch] = items
  if (branch === undefined) throw new Error('the object is not stored')
  return branch
}
/** The status that the operator writes. */
const setStatus = async (database: string, id: string, status: NonNullable<Branch['status']>) => {
  await client.cluster.replaceStatus('Branch', { ...(await stored(id)), status })
  await until(async () => (await read(database, id)).body.status === status.phase)
}
const available: NonNullable<Branch['status']> = {
  phase: 'available',
  connectableAt: '2026-01-02T03:04:05Z',
  endpoint: { host: '127.0.0.1', port: 15433 },
  source: {
    ...{ backupName: 'b', snapshotName: 's', lsn: '0/2000100', systemIdentifier: '7', id: 'i' },
    recordedAt: '2026-01-02T03:04:04Z',
  },
}
const made = async (database: string, body?: object): Promise<string> => {
  const { body: branch } = await createBranch(database, body)
  await setStatus(database, branch.id, available)
  return branch.id
}

describe('requesting a branch', () => {
  test('returns 201 with a branch in status creating, named after its database, and its task; needs no body', async () => {
    const rules = [{ cidr: '203.0.113.0/24', label: 'office' }]
    const id = await createStable(client, 'shop', { ip_allowlist: { rules }, options: ['blue'] })
    const requested = await createBranch(id)
    expect(requested).toMatchObject({
      status: 201,
      body: {
        database_id: id,
        depth: 1,
        status: 'creating',
        region: 'local',
        size: 'small',
        pg_version: '18',
        display_name: null,
        options: ['blue'],
        services: [],
        ip_allowlist: { rules, state: 'restricted' },
      },
    })
    expect(requested.body.name).toBe(`shop-${requested.body.id.replaceAll('-', '').slice(-8)}`)
    expect(requested.body.domain).toBe(`${requested.body.name}.espalier.test`)
    for (const absent of ['connectable_at', 'deletion_requested_at', 'parent_branch_id', 'connection', 'expires_at'])
      expect(requested.body).not.toHaveProperty(absent)
    const taskId = requested.headers['x-task-id']
    expect(requested.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
    expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
      name: 'create-branch',
      subject_kind: 'branch',
      subject_id: requested.body.id,
    })
    const branch = await stored(requested.body.id)
    expect(branch.metadata.finalizers).toEqual([teardownFinalizer])
    expect(annotatedOperation(branch)?.taskId).toBe(taskId)
    expect(branch.spec).toMatchObject({ databaseName: 'shop', databaseId: id, size: { name: 'small', version: 2 } })
    expect((await client.call('GET', `/databases/${id}`)).body).toMatchObject({ status: 'available', branch_count: 1 })
    expect(await list(id)).toEqual([requested.body])
  })

  test('can replace the rules, closes the endpoint for an empty list, and masks addresses', async () => {
    const id = await createStable(client, 'rules', { ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } })
    const other = await createBranch(id, {
      display_name: 'Preview',
      ip_allowlist: { rules: [{ cidr: '198.51.100.9/24' }] },
    })
    expect(other.body).toMatchObject({
      display_name: 'Preview',
      ip_allowlist: { rules: [{ cidr: '198.51.100.0/24' }], state: 'restricted' },
    })
    const closed = await createBranch(id, { ip_allowlist: { rules: [] } })
    expect(closed.body.ip_allowlist).toEqual({ rules: [], state: 'closed' })
    await client.call('PATCH', `/databases/${id}`, { body: { ip_allowlist: { rules: [] } } })
    expect((await read(id, other.body.id)).body.ip_allowlist.state).toBe('restricted')
  })

  test('of a branch copies that branch, up to the maximum depth of this installation', async () => {
    const id = await createStable(client, 'deep')
    const first = await made(id, { ip_allowlist: { rules: [{ cidr: '198.51.100.0/24' }] } })
    const second = await createBranch(id, { source_branch_id: first })
    expect(second).toMatchObject({
      status: 201,
      body: { database_id: id, depth: 2, parent_branch_id: first, ip_allowlist: { state: 'restricted' } },
    })
    expectError(
      await createBranch(id, { source_branch_id: second.body.id }),
      400,
      /^source_branch_id: .* depth 3; .* is 2/,
    )
    await setStatus(id, second.body.id, available)
    expectError(await createBranch(id, { source_branch_id: second.body.id }), 400, /depth 3/)
    const other = await createStable(client, 'otherdeep')
    for (const unknown of [first, crypto.randomUUID()])
      expectError(
        await createBranch(other, { source_branch_id: unknown }),
        400,
        /^source_branch_id: the database has no such/,
      )
    expectError(await createBranch(other, { source_branch_id: 'x' }), 400, /^source_branch_id: must be a UUID/)
  })

  test('can set the time at which the branch is deleted', async () => {
    const id = await createStable(client, 'timed')
    const expires = new Date(Date.now() + 3600_000).toISOString()
    for (const spelt of [expires, expires.toLowerCase()])
      expect((await createBranch(id, { expires_at: spelt })).body.expires_at).toBe(expires)
    expectError(
      await createBranch(id, { expires_at: '2020-01-01T00:00:00Z' }),
      400,
      'expires_at: must be in the future',
    )
  })

  test('runs once for one Idempotency-Key', async () => {
    const id = await createStable(client, 'once')
    const headers = { 'idempotency-key': 'one-branch' }
    const [first, second] = [await createBranch(id, {}, headers), await createBranch(id, undefined, headers)]
    expect(second).toMatchObject({ status: 201, body: { id: first.body.id } })
    expect(await list(id)).toHaveLength(1)
  })

  test('is refused with the reason if its source does not serve, or the storage cannot take such a snapshot', async () => {
    const { body: fresh } = await client.create('fresh')
    expectError(await createBranch(fresh.id), 409, /^the database is creating/)
    const id = await createStable(client, 'resting')
    await client.call('POST', `/databases/${id}/suspend`)
    expectError(await createBranch(id), 409, /^the database is suspending: resume it/)
    const serving = await createStable(client, 'serving')
    const branch = (await createBranch(serving)).body.id
    expectError(await createBranch(serving, { source_branch_id: branch }), 409, /is creating/)
    await setSnapshotClass(client, { name: 'torn', atomic: false })
    await until(async () => (await createBranch(serving)).status === 409)
    expectError(await createBranch(serving), 409, /not declared to be of one instant/)
    await setSnapshotClass(client, { name: 'fast', atomic: true })
    await until(async () => (await createBranch(serving)).status === 201)
    expectError(await createBranch(crypto.randomUUID()), 404, 'database not found')
    expectError(await createBranch(serving, { sourcebranch: 'x' }), 400, /sourcebranch/)
    expectError(await createBranch(serving, { display_name: 'x'.repeat(26) }), 400, /^display_name: must be at most 25/)
  })
})

describe("live branches up to the tenant's limit", () => {
  const limited = async (branchesPerDatabase: number) => {
    const name = tenantName('acme')
    const tenant = await client.cluster.get('Tenant', { name })
    if (tenant === undefined) throw new Error('there is no tenant')
    const limits = { ...tenant.spec.limits, branchesPerDatabase }
    await client.cluster.replace('Tenant', { ...tenant, spec: { ...tenant.spec, limits } })
    const databases = await client.call('GET', '/databases')
    const any = databases.body[0].id
    await until(async () => (await client.call('GET', `/databases/${any}`)).body.branch_limit === branchesPerDatabase)
  }

  test('are created, however many requests are concurrent; a slot is free after deletion is requested', async () => {
    const id = await createStable(client, 'limited')
    await limited(2)
    const answers = await Promise.all(Array.from({ length: 5 }, () => createBranch(id)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(2)
    for (const refused of answers.filter(({ status }) => status !== 201)) {
      expect(refused.status).toBe(409)
      expect(refused.body.message).toMatch(/maximum is 2: delete one first|another client is changing/)
    }
    const [first] = await list(id)
    await setStatus(id, first.id, available)
    expect((await remove(id, first.id)).status).toBe(204)
    expect((await client.call('GET', `/databases/${id}`)).body.branch_count).toBe(1)
    expect((await createBranch(id)).status).toBe(201)
    await limited(1000)
  })

  test('an unused slot expires, and blocks deletion of the database until then', async () => {
    const id = await createStable(client, 'slots')
    const database = await storedDatabase(client, 'slots')
    const at = (ms: number) => ({
      ...database.metadata.annotations,
      [slotsAnnotation]: `somebody@${Date.now() - ms}`,
    })
    const put = async (ms: number) => {
      const current = await storedDatabase(client, 'slots')
      await client.cluster.replace('ManagedDatabase', {
        ...current,
        metadata: { ...current.metadata, annotations: at(ms) },
      })
    }
    await put(1_000)
    expectError(await client.call('DELETE', `/databases/${id}`), 409, /the database has a branch/)
    await limited(1)
    expectError(await createBranch(id), 409, /has 1 branches; the maximum is 1/)
    await put(61_000)
    expect((await createBranch(id)).status).toBe(201)
    await limited(1000)
  })
})

describe('a branch', () => {
  test('shows its own credentials only while it is available', async () => {
    const id = await createStable(client, 'secrets')
    const branch = (await createBranch(id)).body.id
    await giveCredentials(client.cluster, namespace, branch, 'branch-')
    await client.cluster.replaceStatus('Branch', {
      ...(await stored(branch)),
      status: { phase: 'creating', endpoint: { host: '127.0.0.1', port: 15433 } },
    })
    await until(async () => (await read(id, branch)).body.port === 15433)
    expect((await read(id, branch)).body).not.toHaveProperty('connection')
    await setStatus(id, branch, available)
    const shown = await read(id, branch)
    expect(shown.headers['cache-control']).toBe('no-store')
    expect(shown.body).toMatchObject({
      connectable_at: '2026-01-02T03:04:05.000Z',
      lsn: '0/2000100',
      connection: { username: 'app', password: 'password-of-branch-app', port: 15433, database: 'app' },
    })
    for (const [type, username] of [
      ['admin', 'admin'],
      ['application_read_only', 'app_read_only'],
    ])
      expect((await read(id, branch, `?user_type=${type}`)).body.connection).toMatchObject({
        username,
        password: `password-of-branch-${username}`,
      })
    expect((await list(id))[0]).not.toHaveProperty('connection')
    await setStatus(id, branch, { ...available, phase: 'failed' })
    expect((await read(id, branch)).body).not.toHaveProperty('connection')
  })

  test('is found only below its own database', async () => {
    const [id, other] = [await createStable(client, 'own'), await createStable(client, 'strange')]
    const branch = await made(id)
    expectError(await read(other, branch), 404, 'branch not found')
    expectError(await remove(other, branch), 404, 'branch not found')
    expectError(await read(id, crypto.randomUUID()), 404, 'branch not found')
  })

  test('is deleted with 204: it no longer counts, and is listed as deleted only on request', async () => {
    const id = await createStable(client, 'deleting')
    const branch = await made(id)
    const removed = await remove(id, branch)
    expect(removed.status).toBe(204)
    expect((await client.call('GET', `/databases/${id}`)).body.branch_count).toBe(0)
    const shown = (await read(id, branch)).body
    expect(shown).toMatchObject({ status: 'deleting', deletion_requested_at: expect.any(String) })
    expect((await client.call('GET', `/tasks/${removed.headers['x-task-id']}`)).body).toMatchObject({
      name: 'delete-branch',
      subject_id: branch,
    })
    expect((await remove(id, branch)).headers['x-task-id']).toBe(removed.headers['x-task-id'])
    expect((await read(id, branch)).body.deletion_requested_at).toBe(shown.deletion_requested_at)
    await setStatus(id, branch, { ...available, phase: 'deleted', deletedAt: '2026-01-02T03:05:00Z' })
    expect(await list(id)).toEqual([])
    expect(await list(id, '?include_deleted=true')).toMatchObject([{ id: branch, status: 'deleted' }])
    expect((await remove(id, branch)).status).toBe(204)
  })

  test('is not deleted while it is being created, or while another branch is copied from it', async () => {
    const id = await createStable(client, 'busy')
    const branch = (await createBranch(id)).body.id
    expectError(await remove(id, branch), 409, /^the branch is being created/)
    await setStatus(id, branch, available)
    const child = (await createBranch(id, { source_branch_id: branch })).body
    expectError(await remove(id, branch), 409, new RegExp(`${child.name} is being created from it`))
    await setStatus(id, child.id, { ...available, phase: 'creating' })
    expect((await remove(id, branch)).status).toBe(204)
  })

  test('that failed uses no slot, and can be deleted', async () => {
    const id = await createStable(client, 'failing')
    const branch = (await createBranch(id)).body.id
    await setStatus(id, branch, { phase: 'failed' })
    expect((await client.call('GET', `/databases/${id}`)).body.branch_count).toBe(0)
    expect((await remove(id, branch)).status).toBe(204)
    expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
  })
})

test('pages contain the branches of one database, oldest first', async () => {
  const id = await createStable(client, 'paged')
  const ids: string[] = []
  for (let number = 0; number < 3; number++) ids.push((await createBranch(id)).body.id)
  const page = async (query: string) => (await list(id, query)).map(({ id: found }: { id: string }) => found)
  expect(await page('')).toEqual(ids)
  expect(await page('?descending=true&limit=2')).toEqual(ids.toReversed().slice(0, 2))
  const { headers } = await client.call('GET', `/databases/${id}/branches?limit=1&offset=1`)
  expect(headers['x-total-count']).toBe('3')
  expect(headers.link).toMatch(/offset=2/)
})

test('a waiting request receives the branch as it was created', async () => {
  const id = await createStable(client, 'waiting')
  const requested = createBranch(id, undefined, { prefer: 'wait=10' })
  await until(async () => (await list(id)).length === 1)
  const [{ id: branch }] = await list(id)
  await client.cluster.replaceStatus('Branch', { ...(await stored(branch)), status: available })
  expect(await requested).toMatchObject({ status: 201, body: { id: branch, status: 'available' } })
})

test('a database with branches is not deleted without force', async () => {
  const id = await createStable(client, 'kept')
  await made(id)
  expectError(await client.call('DELETE', `/databases/${id}`), 409, /^the database has a branch: delete it first/)
  await reconcile(client.cluster, 'acme', 'kept')
  expect((await client.call('DELETE', `/databases/${id}?force=true`)).status).toBe(204)
})

test('the source of a branch is not deleted while the branch is created', async () => {
  const id = await createStable(client, 'source')
  const branch = (await createBranch(id)).body.id
  const backupId = crypto.randomUUID()
  await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name: childNames.prebranch(branch), namespace, labels: { [labels.id]: backupId } },
    spec: { databaseName: 'source', databaseId: id, kind: 'hot', purpose: 'prebranch' },
  })
  await until(async () => (await client.call('GET', `/backups?database_id=${id}`)).body.length === 1)
  expectError(await client.call('DELETE', `/backups/${backupId}`), 409, /is being created from it/)
  await setStatus(id, branch, available)
  expect((await client.call('DELETE', `/backups/${backupId}`)).status).toBe(204)
})
