/** Branches through the API, on the one-machine store: what is asked for, refused, listed, shown and let go. */
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
  createSettled,
  expectError,
  setSnapshotClass,
  startClient,
  storedDatabase,
  until,
} from '../testing/client.ts'
import { configurationOf, giveCredentials, settle } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient({ configuration: configurationOf({ branches: { highestDepth: 2 } }) })
  await setSnapshotClass(client, { name: 'fast', atomic: true })
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const ask = (id: string, body?: object, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/branches`, { ...(body === undefined ? {} : { body }), headers })
const read = (id: string, branch: string, query = '') =>
  client.call('GET', `/databases/${id}/branches/${branch}${query}`)
const list = async (id: string, query = '') => (await client.call('GET', `/databases/${id}/branches${query}`)).body
const remove = (id: string, branch: string) => client.call('DELETE', `/databases/${id}/branches/${branch}`)
const stored = async (id: string): Promise<Branch> => {
  const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: id } })
  const [branch] = items
  if (branch === undefined) throw new Error('it is not stored')
  return branch
}
/** What the operator says of it. */
const says = async (database: string, id: string, status: NonNullable<Branch['status']>) => {
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
  const { body: branch } = await ask(database, body)
  await says(database, branch.id, available)
  return branch.id
}

describe('asking for a branch', () => {
  test('is 201 with one that is being created, named after its database, and its task; no body is needed', async () => {
    const rules = [{ cidr: '203.0.113.0/24', label: 'office' }]
    const id = await createSettled(client, 'shop', { ip_allowlist: { rules }, options: ['blue'] })
    const asked = await ask(id)
    expect(asked).toMatchObject({
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
    expect(asked.body.name).toBe(`shop-${asked.body.id.replaceAll('-', '').slice(-8)}`)
    expect(asked.body.domain).toBe(`${asked.body.name}.espalier.test`)
    for (const absent of ['connectable_at', 'deletion_requested_at', 'parent_branch_id', 'connection', 'expires_at'])
      expect(asked.body).not.toHaveProperty(absent)
    const taskId = asked.headers['x-task-id']
    expect(asked.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
    expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
      name: 'create-branch',
      subject_kind: 'branch',
      subject_id: asked.body.id,
    })
    const branch = await stored(asked.body.id)
    expect(branch.metadata.finalizers).toEqual([teardownFinalizer])
    expect(annotatedOperation(branch)?.taskId).toBe(taskId)
    expect(branch.spec).toMatchObject({ databaseName: 'shop', databaseId: id, size: { name: 'small', version: 2 } })
    expect((await client.call('GET', `/databases/${id}`)).body).toMatchObject({ status: 'available', branch_count: 1 })
    expect(await list(id)).toEqual([asked.body])
  })

  test('replaces the rules, or closes it with none, and masks what is given', async () => {
    const id = await createSettled(client, 'rules', { ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } })
    const other = await ask(id, { display_name: 'Preview', ip_allowlist: { rules: [{ cidr: '198.51.100.9/24' }] } })
    expect(other.body).toMatchObject({
      display_name: 'Preview',
      ip_allowlist: { rules: [{ cidr: '198.51.100.0/24' }], state: 'restricted' },
    })
    const closed = await ask(id, { ip_allowlist: { rules: [] } })
    expect(closed.body.ip_allowlist).toEqual({ rules: [], state: 'closed' })
    await client.call('PATCH', `/databases/${id}`, { body: { ip_allowlist: { rules: [] } } })
    expect((await read(id, other.body.id)).body.ip_allowlist.state).toBe('restricted')
  })

  test('of a branch copies that one, as deep as this installation allows', async () => {
    const id = await createSettled(client, 'deep')
    const first = await made(id, { ip_allowlist: { rules: [{ cidr: '198.51.100.0/24' }] } })
    const second = await ask(id, { source_branch_id: first })
    expect(second).toMatchObject({
      status: 201,
      body: { database_id: id, depth: 2, parent_branch_id: first, ip_allowlist: { state: 'restricted' } },
    })
    expectError(await ask(id, { source_branch_id: second.body.id }), 400, /^source_branch_id: .* depth 3, .* allows 2/)
    await says(id, second.body.id, available)
    expectError(await ask(id, { source_branch_id: second.body.id }), 400, /depth 3/)
    const other = await createSettled(client, 'otherdeep')
    for (const unknown of [first, crypto.randomUUID()])
      expectError(await ask(other, { source_branch_id: unknown }), 400, /^source_branch_id: the database has no such/)
    expectError(await ask(other, { source_branch_id: 'x' }), 400, /^source_branch_id: must be a UUID/)
  })

  test('with a time after which it goes', async () => {
    const id = await createSettled(client, 'timed')
    const expires = new Date(Date.now() + 3600_000).toISOString()
    for (const spelt of [expires, expires.toLowerCase()])
      expect((await ask(id, { expires_at: spelt })).body.expires_at).toBe(expires)
    expectError(await ask(id, { expires_at: '2020-01-01T00:00:00Z' }), 400, 'expires_at: must be in the future')
  })

  test('is done once for one Idempotency-Key', async () => {
    const id = await createSettled(client, 'once')
    const headers = { 'idempotency-key': 'one-branch' }
    const [first, second] = [await ask(id, {}, headers), await ask(id, undefined, headers)]
    expect(second).toMatchObject({ status: 201, body: { id: first.body.id } })
    expect(await list(id)).toHaveLength(1)
  })

  test('is refused with the reason where its source does not serve, or storage takes no such snapshot', async () => {
    const { body: fresh } = await client.create('fresh')
    expectError(await ask(fresh.id), 409, /^the database is creating/)
    const id = await createSettled(client, 'resting')
    await client.call('POST', `/databases/${id}/suspend`)
    expectError(await ask(id), 409, /^the database is suspending: resume it/)
    const serving = await createSettled(client, 'serving')
    const branch = (await ask(serving)).body.id
    expectError(await ask(serving, { source_branch_id: branch }), 409, /is creating/)
    await setSnapshotClass(client, { name: 'torn', atomic: false })
    await until(async () => (await ask(serving)).status === 409)
    expectError(await ask(serving), 409, /not declared to be of one instant/)
    await setSnapshotClass(client, { name: 'fast', atomic: true })
    await until(async () => (await ask(serving)).status === 201)
    expectError(await ask(crypto.randomUUID()), 404, 'database not found')
    expectError(await ask(serving, { sourcebranch: 'x' }), 400, /sourcebranch/)
    expectError(await ask(serving, { display_name: 'x'.repeat(26) }), 400, /^display_name: must be at most 25/)
  })
})

describe('no more live branches than the tenant may have', () => {
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

  test('are made, however many are asked for at once; the slot is free as soon as the deletion is asked for', async () => {
    const id = await createSettled(client, 'limited')
    await limited(2)
    const answers = await Promise.all(Array.from({ length: 5 }, () => ask(id)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(2)
    for (const refused of answers.filter(({ status }) => status !== 201)) {
      expect(refused.status).toBe(409)
      expect(refused.body.message).toMatch(/may have 2: delete one first|is being changed by somebody else/)
    }
    const [first] = await list(id)
    await says(id, first.id, available)
    expect((await remove(id, first.id)).status).toBe(204)
    expect((await client.call('GET', `/databases/${id}`)).body.branch_count).toBe(1)
    expect((await ask(id)).status).toBe(201)
    await limited(1000)
  })

  test('a slot that nothing came of is free again, and meanwhile keeps the database from being deleted', async () => {
    const id = await createSettled(client, 'slots')
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
    expectError(await ask(id), 409, /has 1 branches, and may have 1/)
    await put(61_000)
    expect((await ask(id)).status).toBe(201)
    await limited(1000)
  })
})

describe('a branch', () => {
  test('shows its own credentials while it is available, and at no other time', async () => {
    const id = await createSettled(client, 'secrets')
    const branch = (await ask(id)).body.id
    await giveCredentials(client.cluster, namespace, branch, 'branch-')
    await client.cluster.replaceStatus('Branch', {
      ...(await stored(branch)),
      status: { phase: 'creating', endpoint: { host: '127.0.0.1', port: 15433 } },
    })
    await until(async () => (await read(id, branch)).body.port === 15433)
    expect((await read(id, branch)).body).not.toHaveProperty('connection')
    await says(id, branch, available)
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
    await says(id, branch, { ...available, phase: 'failed' })
    expect((await read(id, branch)).body).not.toHaveProperty('connection')
  })

  test('is found below its own database only', async () => {
    const [id, other] = [await createSettled(client, 'own'), await createSettled(client, 'strange')]
    const branch = await made(id)
    expectError(await read(other, branch), 404, 'branch not found')
    expectError(await remove(other, branch), 404, 'branch not found')
    expectError(await read(id, crypto.randomUUID()), 404, 'branch not found')
  })

  test('is deleted with 204: at once it counts no more, and is listed as deleted only if asked', async () => {
    const id = await createSettled(client, 'deleting')
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
    await says(id, branch, { ...available, phase: 'deleted', deletedAt: '2026-01-02T03:05:00Z' })
    expect(await list(id)).toEqual([])
    expect(await list(id, '?include_deleted=true')).toMatchObject([{ id: branch, status: 'deleted' }])
    expect((await remove(id, branch)).status).toBe(204)
  })

  test('is not deleted while it is made, nor while another is copied from it', async () => {
    const id = await createSettled(client, 'busy')
    const branch = (await ask(id)).body.id
    expectError(await remove(id, branch), 409, /^the branch is being created/)
    await says(id, branch, available)
    const child = (await ask(id, { source_branch_id: branch })).body
    expectError(await remove(id, branch), 409, new RegExp(`${child.name} is being made from it`))
    await says(id, child.id, { ...available, phase: 'creating' })
    expect((await remove(id, branch)).status).toBe(204)
  })

  test('that failed counts for nothing, and can be deleted', async () => {
    const id = await createSettled(client, 'failing')
    const branch = (await ask(id)).body.id
    await says(id, branch, { phase: 'failed' })
    expect((await client.call('GET', `/databases/${id}`)).body.branch_count).toBe(0)
    expect((await remove(id, branch)).status).toBe(204)
    expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
  })
})

test('pages are of the branches of one database, oldest first', async () => {
  const id = await createSettled(client, 'paged')
  const ids: string[] = []
  for (let number = 0; number < 3; number++) ids.push((await ask(id)).body.id)
  const page = async (query: string) => (await list(id, query)).map(({ id: found }: { id: string }) => found)
  expect(await page('')).toEqual(ids)
  expect(await page('?descending=true&limit=2')).toEqual(ids.toReversed().slice(0, 2))
  const { headers } = await client.call('GET', `/databases/${id}/branches?limit=1&offset=1`)
  expect(headers['x-total-count']).toBe('3')
  expect(headers.link).toMatch(/offset=2/)
})

test('a request that waits is answered with the branch as it was made', async () => {
  const id = await createSettled(client, 'waiting')
  const asked = ask(id, undefined, { prefer: 'wait=10' })
  await until(async () => (await list(id)).length === 1)
  const [{ id: branch }] = await list(id)
  await client.cluster.replaceStatus('Branch', { ...(await stored(branch)), status: available })
  expect(await asked).toMatchObject({ status: 201, body: { id: branch, status: 'available' } })
})

test('a database is not deleted beside its branches without force', async () => {
  const id = await createSettled(client, 'kept')
  await made(id)
  expectError(await client.call('DELETE', `/databases/${id}`), 409, /^the database has a branch: delete it first/)
  await settle(client.cluster, 'acme', 'kept')
  expect((await client.call('DELETE', `/databases/${id}?force=true`)).status).toBe(204)
})

test('what a branch is being made from is not deleted under it', async () => {
  const id = await createSettled(client, 'source')
  const branch = (await ask(id)).body.id
  const backupId = crypto.randomUUID()
  await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name: childNames.prebranch(branch), namespace, labels: { [labels.id]: backupId } },
    spec: { databaseName: 'source', databaseId: id, kind: 'hot', purpose: 'prebranch' },
  })
  await until(async () => (await client.call('GET', `/backups?database_id=${id}`)).body.length === 1)
  expectError(await client.call('DELETE', `/backups/${backupId}`), 409, /is being made from it/)
  await says(id, branch, available)
  expect((await client.call('DELETE', `/backups/${backupId}`)).status).toBe(204)
})
