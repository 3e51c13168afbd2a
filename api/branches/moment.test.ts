/** Branches from the archive through the API, on the in-process store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion, type Backup, type Branch, labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'

let client: Client
let id: string
let durableId: string
beforeAll(async () => {
  client = await startClient()
  id = await createStable(client, 'shop')
  const stored = await storedDatabase(client, 'shop')
  const archiving = await client.cluster.replace('ManagedDatabase', {
    ...stored,
    spec: { ...stored.spec, backup: { ...stored.spec.backup, durable: true } },
  })
  const archive = { incarnation: 1, archived: '0/9000000', archivedAt: '2026-01-31T13:00:00Z' }
  // The database does not serve, because a branch from the archive does not need that.
  const status = { ...archiving.status, phase: 'failed' as const, archive }
  await client.cluster.replaceStatus('ManagedDatabase', { ...archiving, status })
  durableId = await backup('shop-1', id)
  await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'failed')
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const createBranch = (databaseId: string, body: object) =>
  client.call('POST', `/databases/${databaseId}/branches`, { body })

async function backup(name: string, databaseId: string, more: Partial<Backup['spec']> = {}): Promise<string> {
  const backupId = crypto.randomUUID()
  const made = await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name, namespace, labels: { [labels.id]: backupId } },
    spec: { databaseName: 'shop', databaseId, kind: 'durable', purpose: 'user', ...more },
  })
  const status: Backup['status'] = {
    ...{ phase: 'completed', incarnation: 1, cutAt: '2026-01-31T12:00:00Z', endLsn: '0/5000000' },
    ...{ systemIdentifier: '7', sizeBytes: 1 },
  }
  await client.cluster.replaceStatus('Backup', { ...made, status })
  await until(async () => (await client.call('GET', `/backups/${backupId}`)).body.status === 'completed')
  return backupId
}

describe('a branch at a target time', () => {
  test.each<[string, () => object, NonNullable<Branch['spec']['target']>]>([
    ['a time', () => ({ target_time: '2026-01-31T12:30:00Z' }), { time: '2026-01-31T12:30:00Z' }],
    ['a position', () => ({ target_lsn: '0/6000000' }), { lsn: '0/6000000' }],
    ['a named point', () => ({ target_name: 'before' }), { pointName: 'before' }],
    ['a durable backup', () => ({ backup_id: durableId }), { backupName: 'shop-1' }],
  ])('is created from %s, without snapshots and from a database that does not serve', async (_, body, target) => {
    const requested = await createBranch(id, body())
    expect(requested).toMatchObject({ status: 201, body: { status: 'creating', depth: 1, database_id: id } })
    const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: requested.body.id } })
    expect(items[0]?.spec.target).toEqual(target)
    const task = await client.call('GET', `/tasks/${requested.headers['x-task-id']}`)
    expect(task.body.request).toMatchObject(body())
  })

  test('is refused without a reachable target', async () => {
    const time = { target_time: '2026-01-31T12:30:00Z' }
    const window = /^target_time: .*2026-01-31T12:00:00.000Z to 2026-01-31T13:00:00.000Z/
    expectError(await createBranch(id, { target_time: '2026-01-31T11:00:00Z' }), 400, window)
    expectError(
      await createBranch(id, { ...time, backup_id: durableId }),
      400,
      /target_time: cannot be combined with backup_id/,
    )
    expectError(
      await createBranch(id, { ...time, source_branch_id: crypto.randomUUID() }),
      400,
      /^target_time: cannot be combined with source/,
    )
    expectError(await createBranch(id, { backup_id: crypto.randomUUID() }), 404, /backup/)
    const hot = await backup('shop-hot', id, { kind: 'hot' })
    expectError(await createBranch(id, { backup_id: hot }), 400, /backup_id: the backup is hot/)
    const other = await backup('other-1', crypto.randomUUID())
    expectError(await createBranch(id, { backup_id: other }), 400, /backup_id: the backup belongs to another database/)
    const plain = await createStable(client, 'plain')
    expectError(await createBranch(plain, time), 400, /target_time: the durable tier of the database is off/)
  })
})

describe('a move to another target', () => {
  /** Creates a branch that is available at 12:30, with the status that the operator records. */
  async function made(status: Branch['status'] = {}): Promise<Branch> {
    const { body } = await createBranch(id, { target_time: '2026-01-31T12:30:00Z' })
    const branch = await stored(body.id)
    const target = { time: '2026-01-31T12:30:00Z' }
    const recovery = { backupName: 'shop-1', backupId: durableId, incarnation: 1, systemIdentifier: '7' }
    const more = { backupName: 'shop-1', systemIdentifier: '7', id, recordedAt: '2026-01-31T13:00:00Z' }
    const source = { ...more, target, recovery }
    const available = { phase: 'available' as const, connectableAt: '2026-01-31T13:00:01Z', source, ...status }
    return client.cluster.replaceStatus('Branch', { ...branch, status: available })
  }
  const stored = async (branchId: string): Promise<Branch> => {
    const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: branchId } })
    const [branch] = items
    if (branch === undefined) throw new Error('there is no branch')
    return branch
  }
  const idOf = ({ metadata }: Branch) => metadata.labels?.[labels.id] ?? ''
  const move = (branchId: string, body: object, headers: Record<string, string> = {}) =>
    client.call('PATCH', `/databases/${id}/branches/${branchId}`, { body, headers })
  const later = { target_time: '2026-01-31T12:40:00Z' }

  test('keeps the branch, which is moving as soon as the response arrives', async () => {
    const branchId = idOf(await made())
    const headers = { 'idempotency-key': 'move-1' }
    const requested = await move(branchId, later, headers)
    expect(requested).toMatchObject({
      status: 202,
      body: { id: branchId, status: 'creating', target_time: '2026-01-31T12:30:00Z' },
    })
    const { spec } = await stored(branchId)
    expect(spec.target).toEqual({ time: later.target_time })
    const taskId = requested.headers['x-task-id']
    const task = await client.call('GET', `/tasks/${taskId}`)
    expect(task.body).toMatchObject({ name: 'move-branch', subject_kind: 'branch', request: later })
    expect(await move(branchId, later, headers)).toMatchObject({ status: 202, headers: { 'x-task-id': taskId } })
    expectError(await move(branchId, { target_lsn: '0/6000000' }), 409, /^the branch is moving/)
    const restored = await client.call('POST', `/databases/${id}/restore`, { body: { branch_id: branchId } })
    expectError(restored, 409, /is creating: its target can be restored once/)
    expect((await client.call('DELETE', `/databases/${id}/branches/${branchId}`)).status).toBe(204)
    expectError(await move(branchId, later), 409, /^the branch is deleting/)
  })

  test('to the current target changes nothing, but is tried again after a failure', async () => {
    const branch = await made()
    const branchId = idOf(branch)
    const same = await move(branchId, { target_time: '2026-01-31T12:30:00Z' })
    expect(same).toMatchObject({ status: 202, body: { status: 'available' } })
    expect(same.headers['x-task-id']).toBeUndefined()
    const first = await move(branchId, later)
    const failed = {
      ...{ target: { time: later.target_time }, taskId: String(first.headers['x-task-id']), error: 'why' },
      ...{ startedAt: '2026-01-31T13:10:00Z', endedAt: '2026-01-31T13:11:00Z' },
    }
    const moved = await stored(branchId)
    await client.cluster.replaceStatus('Branch', { ...moved, status: { ...moved.status, move: failed } })
    const read = () => client.call('GET', `/databases/${id}/branches/${branchId}`)
    await until(async () => (await read()).body.status === 'available')
    const again = await move(branchId, later)
    expect(again).toMatchObject({ status: 202, body: { status: 'creating' } })
    expect(again.headers['x-task-id']).not.toBe(failed.taskId)
  })

  test('is refused without exactly one reachable target, for a copy, and before the branch is created', async () => {
    const branchId = idOf(await made())
    expectError(await move(branchId, {}), 400, /^backup_id: is required, or one of target_time/)
    expectError(await move(branchId, { ...later, target_lsn: '0/1' }), 400, /^target_lsn: cannot be combined/)
    expectError(await move(branchId, { target_time: '2026-01-31T14:00:00Z' }), 400, /^target_time: .* is not within/)
    expectError(await move(branchId, { ...later, size: 'large' }), 400, /size/)
    expect((await move(branchId, later, { 'if-match': '"another"' })).status).toBe(412)
    expectError(await move(crypto.randomUUID(), later), 404, 'branch not found')
    expectError(
      await move(idOf(await made({ phase: 'creating', connectableAt: undefined })), later),
      409,
      /is creating/,
    )
    const { target: _, ...spec } = (await stored(branchId)).spec
    const metadata = { name: 'shop-copy', namespace, labels: { [labels.id]: crypto.randomUUID() } }
    await client.cluster.create('Branch', { apiVersion, kind: 'Branch', metadata, spec })
    expectError(await move(metadata.labels[labels.id] ?? '', later), 400, /^the branch is a copy of the data/)
  })

  test('by kubectl is possible from one target to another, but never from or to current data', async () => {
    const branch = await made()
    const { target: _, ...bare } = branch.spec
    await expect(client.cluster.replace('Branch', { ...branch, spec: bare })).rejects.toThrow(/target is immutable/)
    const two = { lsn: '0/6000000', time: '2026-01-31T12:40:00Z' }
    await expect(client.cluster.replace('Branch', { ...branch, spec: { ...bare, target: two } })).rejects.toThrow(
      /exactly one of/,
    )
    const moved = await client.cluster.replace('Branch', { ...branch, spec: { ...bare, target: { lsn: two.lsn } } })
    expect(moved.spec.target).toEqual({ lsn: two.lsn })
    const metadata = { name: 'shop-copy-2', namespace, labels: { [labels.id]: crypto.randomUUID() } }
    const copy = await client.cluster.create('Branch', { apiVersion, kind: 'Branch', metadata, spec: bare })
    const targeted = { ...copy, spec: { ...bare, target: { lsn: two.lsn } } }
    await expect(client.cluster.replace('Branch', targeted)).rejects.toThrow(/target is immutable/)
  })
})
