/** Deleted databases through the API, on the in-process store: restore, refusal, and permanent deletion. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  apiVersion,
  deletedDatabaseComponent,
  deletedDatabaseKey,
  deletedDatabaseManifest,
  deletedDatabaseRecord,
  isPurged,
  labels,
  tenantHash,
  tenantNamespace,
} from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const hour = 3600_000
const iso = (ms: number) => new Date(ms).toISOString()

async function backup(name: string, databaseId: string): Promise<string> {
  const id = crypto.randomUUID()
  const made = await client.cluster.create('Backup', {
    ...{ apiVersion, kind: 'Backup' },
    metadata: { name, namespace, labels: { [labels.id]: id } },
    spec: { databaseName: name, databaseId, kind: 'durable', purpose: 'user' },
  })
  const at = { phase: 'completed' as const, incarnation: 3, endLsn: '0/3000120', systemIdentifier: '7' }
  await client.cluster.replaceStatus('Backup', { ...made, status: { ...at, cutAt: iso(Date.now() - 2 * hour) } })
  await until(async () => (await client.call('GET', `/backups/${id}`)).body.status === 'completed')
  return id
}

/** Creates a deleted database as the operator writes it. */
async function deleted(name: string, keptForMs = 100 * hour) {
  const id = await createStable(client, name)
  const { spec, metadata } = await storedDatabase(client, name)
  const backupId = await backup(name, id)
  expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
  const existing = await client.cluster.get('ManagedDatabase', { namespace, name })
  if (existing !== undefined)
    await client.cluster.replace('ManagedDatabase', { ...existing, metadata: { ...existing.metadata, finalizers: [] } })
  await until(async () => (await client.call('GET', `/databases/${id}`)).status === 404)
  const archive = { incarnation: 3, archived: '0/5000000', archivedAt: iso(Date.now() - hour) }
  const record = {
    ...{ id, name, namespace, uid: metadata.uid, deletedAt: iso(Date.now() - hour), incarnation: 3 },
    ...{ keptUntil: iso(Date.now() + keptForMs), keepsBackups: false, archive },
  }
  const undelete = { incarnation: 4, through: '0/5000000', port: 15_999 }
  const manifest = { spec: { ...spec, backup: { durable: true }, dataSource: { backupName: name, undelete } } }
  await client.cluster.create('ConfigMap', {
    ...{ apiVersion: 'v1', kind: 'ConfigMap' },
    metadata: {
      ...deletedDatabaseKey(id),
      labels: {
        [labels.component]: deletedDatabaseComponent,
        [labels.database]: id,
        [labels.tenant]: tenantHash('acme'),
      },
    },
    data: { [deletedDatabaseRecord]: JSON.stringify(record), [deletedDatabaseManifest]: JSON.stringify(manifest) },
  })
  return { id, backupId, record }
}
const undelete = (id: string, body?: object, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/undelete`, { ...(body ? { body } : {}), headers })
const listed = async () => (await client.call('GET', '/deleted-databases')).body.map(({ id }: { id: string }) => id)

test('a deleted database is listed, and is restored once with its id, its name and all archived data', async () => {
  const { id, record } = await deleted('first')
  const { body, headers } = await client.call('GET', '/deleted-databases')
  expect(headers['x-total-count']).toBe('1')
  expect(body).toEqual([
    expect.objectContaining({
      ...{ id, name: 'first', region: 'local', kept_until: record.keptUntil },
      latest_time: record.archive.archivedAt,
    }),
  ])
  const key = { 'idempotency-key': 'back-1' }
  const answer = await undelete(id, undefined, key)
  expect(answer).toMatchObject({ status: 201, body: { id, name: 'first', status: 'creating' } })
  const stored = await storedDatabase(client, 'first')
  expect(stored.spec.dataSource).toEqual({
    backupName: 'first',
    undelete: { incarnation: 4, through: '0/5000000', port: 15_999 },
  })
  const taskId = answer.headers['x-task-id']
  expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({ name: 'create-managed', subject_id: id })
  expect(await undelete(id, undefined, key)).toMatchObject({ status: 201, headers: { 'x-task-id': taskId } })
  expectError(await undelete(id), 409, /is not deleted/)
})

test.each([
  ['a time', 'target_time', iso(Date.now() - 1.5 * hour), 'time'],
  ['a position', 'target_lsn', '0/4000000', 'lsn'],
  ['a named point', 'target_name', 'before', 'pointName'],
])('a deleted database can be restored to %s', async (_, field, value, stored) => {
  const name = `as${stored.toLowerCase()}`
  const { id } = await deleted(name)
  expect(await undelete(id, { [field]: value })).toMatchObject({ status: 201 })
  expect((await storedDatabase(client, name)).spec.dataSource?.undelete).toMatchObject({ [stored]: value })
})

test('a deleted database can be restored to its own durable backup, but not to an unreachable target', async () => {
  const { id, backupId } = await deleted('ofbackup')
  expectError(await undelete(id, { target_time: iso(Date.now() + hour) }), 400, /target_time: .* not within/)
  expectError(await undelete(id, { target_lsn: '0/4000000', backup_id: backupId }), 400, /cannot be combined with/)
  expectError(await undelete(id, { backup_id: crypto.randomUUID() }), 404)
  expect(await undelete(id, { backup_id: backupId })).toMatchObject({ status: 201 })
  const { dataSource } = (await storedDatabase(client, 'ofbackup')).spec
  expect(dataSource).toEqual({ backupName: 'ofbackup', undelete: { incarnation: 4, port: 15_999 } })
})

test('a restore is refused after the retention, if the name is used, and for other tenants', async () => {
  const late = await deleted('late', -hour)
  expectError(await undelete(late.id), 409, /can no longer be restored/)
  expect(await listed()).not.toContain(late.id)

  const { id } = await deleted('taken')
  const otherTenant = { claims: { tenant: 'other' } }
  const others = { name: 'theirs', region: 'local', size: 'small' }
  expect((await client.call('POST', '/databases', { body: others, ...otherTenant })).status).toBe(200)
  expectError(await client.call('POST', `/databases/${id}/undelete`, otherTenant), 404)
  expect((await client.call('DELETE', `/deleted-databases/${id}`, otherTenant)).status).toBe(404)
  expect((await client.call('GET', '/deleted-databases', otherTenant)).body).toEqual([])
  await createStable(client, 'taken')
  expectError(await undelete(id), 409, /has the name taken/)
  expectError(await undelete(crypto.randomUUID()), 404)
})

test('a permanently deleted database is not listed and cannot be restored', async () => {
  const { id } = await deleted('purged')
  expect(await listed()).toContain(id)
  expect((await client.call('DELETE', `/deleted-databases/${id}`)).status).toBe(204)
  const map = await client.cluster.get('ConfigMap', deletedDatabaseKey(id))
  expect(map && isPurged(map)).toBe(true)
  expect(await listed()).not.toContain(id)
  expectError(await undelete(id), 404)
  expect((await client.call('DELETE', `/deleted-databases/${id}`)).status).toBe(204)
})

test('the spec records a permanent deletion, even if it is requested while the deletion is running', async () => {
  const purging = async (name: string, ...queries: string[]) => {
    const id = await createStable(client, name)
    const stored = await storedDatabase(client, name)
    const finalizers = ['espalier.dev/teardown']
    await client.cluster.replace('ManagedDatabase', { ...stored, metadata: { ...stored.metadata, finalizers } })
    for (const query of queries) expect((await client.call('DELETE', `/databases/${id}${query}`)).status).toBe(204)
    return (await storedDatabase(client, name)).spec.deletion
  }
  expect(await purging('plainly', '')).toEqual({ keepBackups: false })
  expect(await purging('atonce', '?purge=true')).toEqual({ keepBackups: false, purge: true })
  expect(await purging('afterwards', '', '?purge=true')).toEqual({ keepBackups: false, purge: true })
  const id = await createStable(client, 'both')
  expectError(
    await client.call('DELETE', `/databases/${id}?purge=true&keep_backups=true`),
    400,
    /cannot be combined with/,
  )
})
