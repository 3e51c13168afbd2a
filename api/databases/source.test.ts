/** `source_backup_id` of a new database, on the in-process store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiVersion, type Backup, labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
async function backup(
  name: string,
  status: Backup['status'],
  { databaseId = crypto.randomUUID() as string, kind = 'hot' as Backup['spec']['kind'] } = {},
): Promise<string> {
  const id = crypto.randomUUID()
  const made = await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name, namespace, labels: { [labels.id]: id } },
    spec: { databaseName: 'former', databaseId, kind, purpose: 'user' },
  })
  await client.cluster.replaceStatus('Backup', { ...made, status })
  await until(async () => (await client.call('GET', `/backups/${id}`)).body.status === status?.phase)
  return id
}
const make = (name: string, sourceId: unknown, more = {}) =>
  client.call('POST', '/databases', {
    body: { name, region: 'local', size: 'small', source_backup_id: sourceId, ...more },
  })

test('the new database refers to the backup, and has its Postgres version', async () => {
  await createStable(client, 'first')
  const id = await backup('former-1', { phase: 'completed', pgVersion: '17', sizeBytes: 1000 })
  const made = await make('again', id)
  expect(made).toMatchObject({ status: 200, body: { name: 'again', pg_version: '17', status: 'creating' } })
  expect((await storedDatabase(client, 'again')).spec).toMatchObject({
    dataSource: { backupName: 'former-1' },
    pgVersion: '17',
  })
  const task = await client.call('GET', `/tasks/${made.headers['x-task-id']}`)
  expect(task.body.request).toMatchObject({ source_backup_id: id })
})

test('can be a durable backup of any region', async () => {
  const status = { phase: 'completed', pgVersion: '17', sizeBytes: 1000, region: 'far', incarnation: 1 } as const
  const made = await make('archived', await backup('former-7', status, { kind: 'durable' }))
  expect(made).toMatchObject({ status: 200, body: { name: 'archived', pg_version: '17', region: 'local' } })
})

test('is refused with the reason', async () => {
  const completed = { phase: 'completed', pgVersion: '17', sizeBytes: 1000 } as const
  const id = await backup('former-2', completed)
  expectError(await make('nobody', crypto.randomUUID()), 404, 'backup not found')
  expectError(await make('nobody', 'x'), 400, /source_backup_id/)
  expectError(await make('nobody', await backup('former-3', { phase: 'running' })), 400, /the backup is running/)
  expectError(await make('nobody', await backup('former-4', { phase: 'failed' })), 400, /the backup is failed/)
  expectError(await make('nobody', id, { pg_version: '18' }), 400, /^pg_version: the backup has Postgres 17/)
  const elsewhere = await backup('former-6', { ...completed, region: 'far' })
  expectError(await make('nobody', elsewhere), 400, /^region: the backup is in the region far/)
  const large = await backup('former-5', { ...completed, sizeBytes: 2 ** 50 })
  expectError(await make('nobody', large), 400, /^size: the storage of .* is smaller/)
  const otherTenant = await client.call('POST', '/databases', {
    body: { name: 'nobody', region: 'local', size: 'small', source_backup_id: id },
    claims: { tenant: 'other' },
  })
  expectError(otherTenant, 404, 'backup not found')
  expect((await client.call('GET', '/databases')).body.map((found: { name: string }) => found.name)).not.toContain(
    'nobody',
  )
})
