/** Previous volumes, which are kept after restores, through the API on the in-process store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  annotations,
  apiVersion,
  labels,
  type PreviousVolume,
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
const previous: PreviousVolume[] = [
  {
    ...{ incarnation: 1, claim: 'one-1', uid: 'first', bytes: 1000, backup: 'one-back-prerestore' },
    ...{ replacedAt: '2026-01-31T12:00:00Z', keptUntil: '2026-02-01T12:00:00Z' },
    ...{ reason: 'KeptForADay', message: 'it is kept for a day after the restore' },
  },
  {
    incarnation: 3,
    claim: 'one-3',
    uid: 'third',
    bytes: 200,
    reason: 'RestoreFailed',
    message: 'the restore x failed',
  },
]

/** Sets the state that the operator leaves after restores. */
async function restored(name: string, more = {}): Promise<string> {
  const id = await createStable(client, name)
  await reconcile(client.cluster, 'acme', name, { incarnation: 4, previous, ...more })
  await until(async () => (await client.call('GET', `/databases/${id}/previous`)).body.length === 2)
  return id
}

const agreed = async (name: string) =>
  (await storedDatabase(client, name)).metadata.annotations?.[annotations.discardPrevious]

test('lists previous volumes, each with its backup, and counts them in storage_used', async () => {
  const id = await restored('listed')
  const backupId = crypto.randomUUID()
  await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name: 'one-back-prerestore', namespace, labels: { [labels.id]: backupId } },
    spec: { databaseName: 'listed', databaseId: id, kind: 'hot', purpose: 'prerestore' },
  })
  await until(async () => (await client.call('GET', `/databases/${id}/previous`)).body[0].backup_id === backupId)
  const answer = await client.call('GET', `/databases/${id}/previous`)
  expect(answer).toMatchObject({ status: 200 })
  expect(answer.body).toEqual([
    {
      ...{ incarnation: 1, replaced_at: '2026-01-31T12:00:00Z', backup_id: backupId, storage_used: 1000 },
      ...{ kept_until: '2026-02-01T12:00:00Z', reason: 'KeptForADay', message: previous[0]?.message },
    },
    { incarnation: 3, storage_used: 200, reason: 'RestoreFailed', message: 'the restore x failed' },
  ])
  expect((await client.call('GET', `/databases/${id}`)).body.storage_used).toBe(4096 + 1200)
})

test('a database that was never restored has no previous volumes', async () => {
  const id = await createStable(client, 'plain')
  expect(await client.call('GET', `/databases/${id}/previous`)).toMatchObject({ status: 200, body: [] })
  expectError(await client.call('GET', `/databases/${crypto.randomUUID()}/previous`), 404, 'database not found')
})

test('approves a deletion by the uid of the PVC, once for each PVC, and removes approvals of deleted PVCs', async () => {
  const id = await restored('freed')
  expect(await client.call('DELETE', `/databases/${id}/previous/3`)).toMatchObject({ status: 204 })
  expect(await agreed('freed')).toBe('third')
  const { resourceVersion } = (await storedDatabase(client, 'freed')).metadata
  const headers = { 'idempotency-key': 'again' }
  expect(await client.call('DELETE', `/databases/${id}/previous/3`, { headers })).toMatchObject({ status: 204 })
  expect((await storedDatabase(client, 'freed')).metadata.resourceVersion).toBe(resourceVersion)
  await reconcile(client.cluster, 'acme', 'freed', { previous: previous.slice(0, 1) })
  expect(await client.call('DELETE', `/databases/${id}/previous/1`)).toMatchObject({ status: 204 })
  expect(await agreed('freed')).toBe('first')
})

test('a deletion is refused for a missing volume, the serving volume, and while a restore runs', async () => {
  const id = await restored('firm')
  for (const incarnation of [2, 4]) {
    const path = `/databases/${id}/previous/${incarnation}`
    expectError(await client.call('DELETE', path), 404, 'previous volume not found')
  }
  for (const incarnation of ['0', '-1', 'x', '1.5'])
    expectError(await client.call('DELETE', `/databases/${id}/previous/${incarnation}`), 400, /^incarnation: /)
  const otherTenant = await client.call('DELETE', `/databases/${id}/previous/1`, { claims: { tenant: 'other' } })
  expectError(otherTenant, 404, 'database not found')
  await reconcile(client.cluster, 'acme', 'firm', { phase: 'restoring', previous })
  await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'restoring')
  expectError(await client.call('DELETE', `/databases/${id}/previous/1`), 409, /the database is restoring/)
  expect(await agreed('firm')).toBeUndefined()
})

test('a restore passes discard_previous to the operator and to its task', async () => {
  const id = await createStable(client, 'bold')
  const backupId = crypto.randomUUID()
  const made = await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name: 'bold-1', namespace, labels: { [labels.id]: backupId } },
    spec: { databaseName: 'bold', databaseId: id, kind: 'hot' },
  })
  await client.cluster.replaceStatus('Backup', { ...made, status: { phase: 'completed' } })
  await until(async () => (await client.call('GET', `/backups/${backupId}`)).body.status === 'completed')
  const body = { backup_id: backupId, discard_previous: true }
  const answer = await client.call('POST', `/databases/${id}/restore`, { body })
  expect(answer.status).toBe(202)
  expect(requestedRestore(await storedDatabase(client, 'bold'))).toMatchObject({ discardPrevious: true })
  const task = await client.call('GET', `/tasks/${answer.headers['x-task-id']}`)
  expect(task.body.request).toEqual(body)
})
