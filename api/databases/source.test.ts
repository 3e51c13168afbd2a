/** `source_backup_id` of a new database, on the one-machine store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiVersion, type Backup, labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createSettled, expectError, startClient, storedDatabase, until } from '../testing/client.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
async function backup(
  name: string,
  status: Backup['status'],
  databaseId: string = crypto.randomUUID(),
): Promise<string> {
  const id = crypto.randomUUID()
  const made = await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name, namespace, labels: { [labels.id]: id } },
    spec: { databaseName: 'former', databaseId, kind: 'hot', purpose: 'user' },
  })
  await client.cluster.replaceStatus('Backup', { ...made, status })
  await until(async () => (await client.call('GET', `/backups/${id}`)).body.status === status?.phase)
  return id
}
const make = (name: string, sourceId: unknown, more = {}) =>
  client.call('POST', '/databases', {
    body: { name, region: 'local', size: 'small', source_backup_id: sourceId, ...more },
  })

test('names the backup, and takes its version', async () => {
  await createSettled(client, 'first')
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

test('is refused with the reason', async () => {
  const completed = { phase: 'completed', pgVersion: '17', sizeBytes: 1000 } as const
  const id = await backup('former-2', completed)
  expectError(await make('nobody', crypto.randomUUID()), 404, 'backup not found')
  expectError(await make('nobody', 'x'), 400, /source_backup_id/)
  expectError(await make('nobody', await backup('former-3', { phase: 'running' })), 400, /the backup is running/)
  expectError(await make('nobody', await backup('former-4', { phase: 'failed' })), 400, /the backup is failed/)
  expectError(await make('nobody', id, { pg_version: '18' }), 400, /^pg_version: the backup is of Postgres 17/)
  const elsewhere = await backup('former-6', { ...completed, region: 'far' })
  expectError(await make('nobody', elsewhere), 400, /^region: the backup is in the region far/)
  const large = await backup('former-5', { ...completed, sizeBytes: 2 ** 50 })
  expectError(await make('nobody', large), 400, /^size: its storage of .* is smaller/)
  const theirs = await client.call('POST', '/databases', {
    body: { name: 'nobody', region: 'local', size: 'small', source_backup_id: id },
    claims: { tenant: 'other' },
  })
  expectError(theirs, 404, 'backup not found')
  expect((await client.call('GET', '/databases')).body.map((found: { name: string }) => found.name)).not.toContain(
    'nobody',
  )
})
