/** Restoring databases through the API, on the in-process store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  apiVersion,
  type Backup,
  type Branch,
  type DatabasePhase,
  labels,
  readOperation,
  requestedRestore,
  tenantNamespace,
} from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const restore = (id: string, backupId: string, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/restore`, { body: { backup_id: backupId }, headers })

/** Creates a backup with the status that the operator writes. */
async function backup(
  name: string,
  databaseId: string,
  phase: NonNullable<Backup['status']>['phase'] = 'completed',
  more: Partial<Backup['spec']> = {},
): Promise<string> {
  const id = crypto.randomUUID()
  const made = await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name, namespace, labels: { [labels.id]: id } },
    spec: { databaseName: name, databaseId, kind: 'hot', purpose: 'user', ...more },
  })
  await client.cluster.replaceStatus('Backup', { ...made, status: { phase } })
  await until(async () => (await client.call('GET', `/backups/${id}`)).body.status === phase)
  return id
}

test('returns 202 with a task, sets the status restoring, and repeats the response for the same Idempotency-Key', async () => {
  const id = await createStable(client, 'wrong')
  const backupId = await backup('wrong-1', id)
  const headers = { 'idempotency-key': 'back-1' }
  const restored = await restore(id, backupId, headers)
  expect(restored).toMatchObject({ status: 202, body: { id, name: 'wrong', status: 'restoring' } })
  const taskId = restored.headers['x-task-id']
  expect(restored.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
  expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('restoring')
  const stored = await storedDatabase(client, 'wrong')
  expect(readOperation(stored)).toMatchObject({ name: 'restore-managed', taskId })
  expect(requestedRestore(stored)).toMatchObject({ backupName: 'wrong-1' })
  expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
    name: 'restore-managed',
    subject_kind: 'database',
    request: { backup_id: backupId },
  })
  expect(await restore(id, backupId, headers)).toMatchObject({ status: 202, headers: { 'x-task-id': taskId } })
  expectError(await restore(id, backupId), 409, /the database is restoring/)

  await reconcile(client.cluster, 'acme', 'wrong')
  await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
  const second = await restore(id, backupId)
  expect(second.status).toBe(202)
  expect(requestedRestore(await storedDatabase(client, 'wrong'))?.name).not.toBe(requestedRestore(stored)?.name)
})

describe('the response for a database that is', () => {
  test.each<[DatabasePhase, number]>([
    ['available', 202],
    ['degraded', 202],
    ['failed', 202],
    ['suspended', 202],
    ['creating', 409],
    ['modifying', 409],
    ['suspending', 409],
  ])('%s: %d', async (phase, status) => {
    const id = await createStable(client, `is${phase}`)
    const backupId = await backup(`is${phase}-1`, id)
    if (phase === 'suspended') {
      const stored = await storedDatabase(client, `is${phase}`)
      await client.cluster.replace('ManagedDatabase', { ...stored, spec: { ...stored.spec, suspended: true } })
    }
    await reconcile(client.cluster, 'acme', `is${phase}`, { phase })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === phase)
    const answer = await restore(id, backupId)
    expect(answer.status).toBe(status)
    if (status === 202) expect(answer.body.status).toBe('restoring')
    else expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  })
})

describe('is refused', () => {
  test('with 409 while a suspended database is being resized', async () => {
    const id = await createStable(client, 'resting')
    const backupId = await backup('resting-1', id)
    const stored = await storedDatabase(client, 'resting')
    await client.cluster.replace('ManagedDatabase', { ...stored, spec: { ...stored.spec, suspended: true } })
    await reconcile(client.cluster, 'acme', 'resting', { phase: 'suspended' })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'suspended')
    expect((await client.call('POST', `/databases/${id}/size`, { body: { size: 'large' } })).status).toBe(204)
    expectError(await restore(id, backupId), 409, /^another operation is running/)
    await reconcile(client.cluster, 'acme', 'resting', { phase: 'suspended' })
    await until(async () => (await restore(id, backupId)).status === 202)
  })

  test('with 404 for a missing backup, or a backup of another tenant', async () => {
    const id = await createStable(client, 'strange')
    const backupId = await backup('strange-1', id)
    expectError(await restore(crypto.randomUUID(), backupId), 404, 'database not found')
    expectError(await restore(id, crypto.randomUUID()), 404, 'backup not found')
    const otherTenant = await client.call('POST', `/databases/${id}/restore`, {
      body: { backup_id: backupId },
      claims: { tenant: 'other' },
    })
    expectError(otherTenant, 404)
  })

  test('with 400 for a backup of another database, for a backup of a branch, and for an incomplete backup', async () => {
    const id = await createStable(client, 'picky')
    const other = await createStable(client, 'another')
    expectError(
      await restore(id, await backup('another-1', other)),
      400,
      /^backup_id: the backup belongs to another database/,
    )
    const sourceBranch = { name: 'b', id: crypto.randomUUID() }
    expectError(await restore(id, await backup('picky-b', id, 'completed', { sourceBranch })), 400, /is of a branch/)
    for (const phase of ['pending', 'running', 'failed'] as const)
      expectError(await restore(id, await backup(`picky-${phase}`, id, phase)), 400, `the backup is ${phase}`)
    expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('available')
  })

  test.each<[unknown, RegExp]>([
    [{}, /backup_id/],
    [{ backup_id: 'x' }, /backup_id/],
    [{ backup_id: crypto.randomUUID(), time: 'now' }, /time/],
    [{ target_time: 'noon' }, /target_time/],
    [{ target_lsn: '0-16B3748' }, /target_lsn/],
    [
      { target_time: '2026-01-31T12:00:00Z', target_lsn: '0/16B3748' },
      /^target_lsn: cannot be combined with target_time/,
    ],
    [{ target_lsn: '0/16B3748' }, /^target_lsn: the durable tier of the database is off/],
  ])('with 400 for %j', async (body, message) => {
    const id = await createStable(
      client,
      `bad${Math.random()
        .toString(36)
        .slice(2, 8)
        .replaceAll(/[^a-z]/g, 'x')}`,
    )
    expectError(await client.call('POST', `/databases/${id}/restore`, { body }), 400, message)
  })
})

describe('with the durable tier', () => {
  /** Creates a database that archives, with a base backup. */
  async function archiving(name: string): Promise<string> {
    const id = await createStable(client, name)
    const stored = await storedDatabase(client, name)
    const spec = { ...stored.spec, backup: { ...stored.spec.backup, durable: true } }
    await client.cluster.replace('ManagedDatabase', { ...stored, spec })
    await reconcile(client.cluster, 'acme', name)
    const available = await storedDatabase(client, name)
    const archive = { incarnation: 1, archived: '0/9000000', archivedAt: '2026-01-31T13:00:00Z' }
    await client.cluster.replaceStatus('ManagedDatabase', { ...available, status: { ...available.status, archive } })
    const backupId = await backup(`${name}-1`, id, 'completed', { kind: 'durable' })
    const made = await client.cluster.get('Backup', { namespace, name: `${name}-1` })
    if (made === undefined) throw new Error('there is no backup')
    const at = { cutAt: '2026-01-31T12:00:00Z', endLsn: '0/5000000', incarnation: 1, systemIdentifier: '7' }
    await client.cluster.replaceStatus('Backup', { ...made, status: { ...made.status, ...at } })
    await until(async () => (await windowOf(id)).body.latest_lsn === archive.archived)
    expect(backupId).toBeDefined()
    return id
  }
  const windowOf = (id: string) => client.call('GET', `/databases/${id}/recovery-window`)
  const restoreTo = (id: string, body: unknown) => client.call('POST', `/databases/${id}/restore`, { body })

  test('a restore accepts exactly the recovery window, by time and by position', async () => {
    const id = await archiving('moments')
    expect((await windowOf(id)).body).toEqual({
      ...{ earliest_time: '2026-01-31T12:00:00.000Z', latest_time: '2026-01-31T13:00:00.000Z' },
      ...{ latest_lsn: '0/9000000', gaps: [] },
    })
    expectError(await restoreTo(id, { target_time: '2026-01-31T13:00:01Z' }), 400, /^target_time: .* is not within/)
    expectError(await restoreTo(id, { target_lsn: '0/9000001' }), 400, /^target_lsn: .* is not within/)
    const restored = await restoreTo(id, { target_time: '2026-01-31T12:30:00Z' })
    expect(restored).toMatchObject({ status: 202, body: { status: 'restoring' } })
    expect(requestedRestore(await storedDatabase(client, 'moments'))).toMatchObject({ time: '2026-01-31T12:30:00Z' })
    const task = await client.call('GET', `/tasks/${restored.headers['x-task-id']}`)
    expect(task.body.request).toEqual({ target_time: '2026-01-31T12:30:00Z' })
  })

  /** Creates a branch at the target. The branch has become connectable, as the operator records it. */
  async function branchAt(id: string, name: string, body: object, more: Branch['status'] = {}): Promise<string> {
    const requested = await client.call('POST', `/databases/${id}/branches`, { body })
    expect(requested.status).toBe(201)
    const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: requested.body.id } })
    const [branch] = items
    const durable = await client.cluster.get('Backup', { namespace, name: `${name}-1` })
    if (branch === undefined || durable === undefined) throw new Error('there is no branch')
    const recovery = {
      ...{ backupName: `${name}-1`, backupId: durable.metadata.labels?.[labels.id] ?? '' },
      ...{ incarnation: 1, systemIdentifier: '7', through: '0/9000000' },
    }
    const { target } = branch.spec
    const recorded = { target, recovery, recordedAt: '2026-01-31T13:00:00Z' }
    const source = { backupName: `${name}-1`, systemIdentifier: '7', id, ...recorded }
    const status = { phase: 'available' as const, connectableAt: '2026-01-31T13:00:01Z', source, ...more }
    await client.cluster.replaceStatus('Branch', { ...branch, status })
    return requested.body.id
  }

  test.each<[string, object, object]>([
    ['atime', { target_time: '2026-01-31T12:30:00Z' }, { time: '2026-01-31T12:30:00Z' }],
    ['alsn', { target_lsn: '0/6000000' }, { lsn: '0/6000000' }],
    ['aname', { target_name: 'before' }, { pointName: 'before' }],
  ])('restores to the target of a branch: %s', async (name, body, target) => {
    const id = await archiving(name)
    const branchId = await branchAt(id, name, body)
    expectError(
      await restoreTo(id, { ...body, branch_id: branchId }),
      400,
      /^branch_id: cannot be combined with target_/,
    )
    const accepted = await restoreTo(id, { branch_id: branchId })
    expect(accepted).toMatchObject({ status: 202, body: { status: 'restoring' } })
    expect(requestedRestore(await storedDatabase(client, name))).toEqual({ name: expect.any(String), ...target })
    const task = await client.call('GET', `/tasks/${accepted.headers['x-task-id']}`)
    expect(task.body.request).toEqual({ branch_id: branchId })
    expectError(await restoreTo(id, { branch_id: branchId }), 409, /the database is restoring/)
  })

  test('restores the durable backup of a branch, but no other backup with its name', async () => {
    const id = await archiving('ofbackup')
    const durable = await client.cluster.get('Backup', { namespace, name: 'ofbackup-1' })
    const body = { backup_id: durable?.metadata.labels?.[labels.id] }
    const branchId = await branchAt(id, 'ofbackup', body)
    const gone = 'the backup ofbackup-1, which the branch was created from, is deleted'
    const relabelled = (backupId: string) =>
      client.cluster.get('Backup', { namespace, name: 'ofbackup-1' }).then(async found => {
        if (found === undefined) throw new Error('there is no backup')
        const metadata = { ...found.metadata, labels: { ...found.metadata.labels, [labels.id]: backupId } }
        await client.cluster.replace('Backup', { ...found, metadata })
      })
    await relabelled(crypto.randomUUID())
    expectError(await restoreTo(id, { branch_id: branchId }), 409, gone)
    await relabelled(body.backup_id ?? '')
    expect((await restoreTo(id, { branch_id: branchId })).status).toBe(202)
    expect(requestedRestore(await storedDatabase(client, 'ofbackup'))).toMatchObject({ backupName: 'ofbackup-1' })
  })

  test('refuses a branch that has another database, no target, no recovery yet, or another volume', async () => {
    const id = await archiving('refusing')
    const time = { target_time: '2026-01-31T12:30:00Z' }
    expectError(await restoreTo(id, { branch_id: crypto.randomUUID() }), 404, 'branch not found')
    const young = await branchAt(id, 'refusing', time, { phase: 'creating', connectableAt: undefined })
    const early = await restoreTo(id, { branch_id: young })
    expectError(early, 409, /is creating: its target can be restored once/)
    expect(Number(early.headers['retry-after'])).toBeGreaterThan(0)
    const [first] = (await client.cluster.list('Branch', { namespace, labels: { [labels.id]: young } })).items
    if (first === undefined) throw new Error('there is no branch')
    const { target: _, ...copied } = first.spec
    const metadata = { name: 'refusing-copy', namespace, labels: { [labels.id]: crypto.randomUUID() } }
    await client.cluster.create('Branch', { apiVersion, kind: 'Branch', metadata, spec: copied })
    expectError(
      await restoreTo(id, { branch_id: metadata.labels[labels.id] }),
      400,
      /^branch_id: the branch was created without a target/,
    )
    const other = await archiving('refusingtoo')
    expectError(await restoreTo(other, { branch_id: young }), 400, /^branch_id: the branch belongs to another database/)

    const good = await branchAt(id, 'refusing', { target_lsn: '0/6000000' })
    const stored = await storedDatabase(client, 'refusing')
    const archive = { incarnation: 2, archived: '0/9000000', archivedAt: '2026-01-31T14:00:00Z' }
    await client.cluster.replaceStatus('ManagedDatabase', { ...stored, status: { ...stored.status, archive } })
    await backup('refusing-2', id, 'completed', { kind: 'durable' })
    const second = await client.cluster.get('Backup', { namespace, name: 'refusing-2' })
    if (second === undefined) throw new Error('there is no backup')
    const at = { cutAt: '2026-01-31T13:30:00Z', endLsn: '0/5000000', incarnation: 2, systemIdentifier: '7' }
    await client.cluster.replaceStatus('Backup', { ...second, status: { ...second.status, ...at } })
    await until(async () => (await windowOf(id)).body.gaps.length === 1)
    expectError(await restoreTo(id, { branch_id: good }), 409, /^the database was restored after the branch/)
    expect((await client.call('DELETE', `/databases/${id}/branches/${good}`)).status).toBe(204)
    expectError(await restoreTo(id, { branch_id: good }), 409, /^the branch refusing-[0-9a-f]+ is deleting$/)
  })

  test('a database without the durable tier has an empty window', async () => {
    const id = await createStable(client, 'nomoments')
    const { body } = await windowOf(id)
    expect(body).toEqual({ earliest_time: null, latest_time: null, latest_lsn: null, gaps: [] })
    expectError(await windowOf(crypto.randomUUID()), 404, 'database not found')
  })
})
