/** Restoring databases through the API, on the one-machine store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  apiVersion,
  askedRestore,
  type Backup,
  type DatabasePhase,
  labels,
  readOperation,
  tenantNamespace,
} from '../../crds/index.ts'
import { type Client, createSettled, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { settle } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const ask = (id: string, backupId: string, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/restore`, { body: { backup_id: backupId }, headers })

/** A backup as the operator left it. */
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

test('it is 202 with its task, restoring from the answer on, and the same where it is asked again with its key', async () => {
  const id = await createSettled(client, 'wrong')
  const backupId = await backup('wrong-1', id)
  const headers = { 'idempotency-key': 'back-1' }
  const asked = await ask(id, backupId, headers)
  expect(asked).toMatchObject({ status: 202, body: { id, name: 'wrong', status: 'restoring' } })
  const taskId = asked.headers['x-task-id']
  expect(asked.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
  expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('restoring')
  const stored = await storedDatabase(client, 'wrong')
  expect(readOperation(stored)).toMatchObject({ name: 'restore-managed', taskId })
  expect(askedRestore(stored)).toMatchObject({ backupName: 'wrong-1' })
  expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
    name: 'restore-managed',
    subject_kind: 'database',
    request: { backup_id: backupId },
  })
  expect(await ask(id, backupId, headers)).toMatchObject({ status: 202, headers: { 'x-task-id': taskId } })
  expectError(await ask(id, backupId), 409, /the database is restoring/)

  await settle(client.cluster, 'acme', 'wrong')
  await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
  const second = await ask(id, backupId)
  expect(second.status).toBe(202)
  expect(askedRestore(await storedDatabase(client, 'wrong'))?.name).not.toBe(askedRestore(stored)?.name)
})

describe('is taken of one that is', () => {
  test.each<[DatabasePhase, number]>([
    ['available', 202],
    ['degraded', 202],
    ['failed', 202],
    ['suspended', 202],
    ['creating', 409],
    ['modifying', 409],
    ['suspending', 409],
  ])('%s: %d', async (phase, status) => {
    const id = await createSettled(client, `is${phase}`)
    const backupId = await backup(`is${phase}-1`, id)
    if (phase === 'suspended') {
      const stored = await storedDatabase(client, `is${phase}`)
      await client.cluster.replace('ManagedDatabase', { ...stored, spec: { ...stored.spec, suspended: true } })
    }
    await settle(client.cluster, 'acme', `is${phase}`, { phase })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === phase)
    const answer = await ask(id, backupId)
    expect(answer.status).toBe(status)
    if (status === 202) expect(answer.body.status).toBe('restoring')
    else expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  })
})

describe('is refused', () => {
  test('with 409 while a resize of one that is suspended is under way', async () => {
    const id = await createSettled(client, 'resting')
    const backupId = await backup('resting-1', id)
    const stored = await storedDatabase(client, 'resting')
    await client.cluster.replace('ManagedDatabase', { ...stored, spec: { ...stored.spec, suspended: true } })
    await settle(client.cluster, 'acme', 'resting', { phase: 'suspended' })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'suspended')
    expect((await client.call('POST', `/databases/${id}/size`, { body: { size: 'large' } })).status).toBe(204)
    expectError(await ask(id, backupId), 409, /^another operation is under way/)
    await settle(client.cluster, 'acme', 'resting', { phase: 'suspended' })
    await until(async () => (await ask(id, backupId)).status === 202)
  })

  test('with 404 of what there is not, or is somebody else’s', async () => {
    const id = await createSettled(client, 'strange')
    const backupId = await backup('strange-1', id)
    expectError(await ask(crypto.randomUUID(), backupId), 404, 'database not found')
    expectError(await ask(id, crypto.randomUUID()), 404, 'backup not found')
    const theirs = await client.call('POST', `/databases/${id}/restore`, {
      body: { backup_id: backupId },
      claims: { tenant: 'other' },
    })
    expectError(theirs, 404)
  })

  test('with 400 of a backup of another database, of a branch, or not completed', async () => {
    const id = await createSettled(client, 'picky')
    const other = await createSettled(client, 'another')
    expectError(await ask(id, await backup('another-1', other)), 400, /^backup_id: the backup is of another database/)
    const sourceBranch = { name: 'b', id: crypto.randomUUID() }
    expectError(await ask(id, await backup('picky-b', id, 'completed', { sourceBranch })), 400, /is of a branch/)
    for (const phase of ['pending', 'running', 'failed'] as const)
      expectError(await ask(id, await backup(`picky-${phase}`, id, phase)), 400, `the backup is ${phase}`)
    expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('available')
  })

  test.each<[unknown, RegExp]>([
    [{}, /backup_id/],
    [{ backup_id: 'x' }, /backup_id/],
    [{ backup_id: crypto.randomUUID(), time: 'now' }, /time/],
  ])('with 400 for %j', async (body, message) => {
    const id = await createSettled(
      client,
      `bad${Math.random()
        .toString(36)
        .slice(2, 8)
        .replaceAll(/[^a-z]/g, 'x')}`,
    )
    expectError(await client.call('POST', `/databases/${id}/restore`, { body }), 400, message)
  })
})
