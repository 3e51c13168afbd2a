/**
 * Hot backups of a real Postgres under writes: their status, their side effects, and that their deletion leaves
 * nothing.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { labels } from '../crds/index.ts'
import { type ApiClient, type Database, eventually, openTo, query } from './client.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'
import { writeTo } from './writer.ts'

type Backup = {
  id: string
  name: string
  database_id: string
  status: string
  finished_at?: string
  metadata: {
    start_lsn?: string
    end_lsn?: string
    cut_at?: string
    size_bytes?: number
    error?: string
    verification?: string
    verification_result?: {
      version: string
      databases: number
      relations: number
      indexes: number
      pages: number
      faults: number
      error?: string
    }
  }
}

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
})
afterAll(() => provider?.stop())

const create = async (name: string): Promise<Database> =>
  (await api.create({ name, ip_allowlist: openTo(provider.clientAddress) })).body
const createBackup = (id: string, headers: Record<string, string> = { prefer: 'wait=60' }) =>
  api.call<Backup>('POST', `/databases/${id}/backup`, { kind: 'hot' }, headers)
const read = (id: string) => api.call<Backup>('GET', `/backups/${id}`)
const listed = async (id: string) => (await api.call<Backup[]>('GET', `/backups?database_id=${id}`)).body
const snapshotsOf = async (backupId: string) =>
  (
    await provider.cluster.list('VolumeSnapshot', {
      namespace: provider.namespace(),
      labels: { [labels.id]: backupId },
    })
  ).items
const deleted = (backupId: string) =>
  eventually(
    'the backup and its snapshots are deleted',
    async () => (await read(backupId)).status === 404 && (await snapshotsOf(backupId)).length === 0,
  )

test('is taken under writes, reports its content, affects no client, and its deletion leaves no object', async () => {
  const { id } = await create('kept')
  const connection = await api.connection(id)
  const writer = await writeTo(connection)
  await eventually('the writer has committed 50 transactions', async () => writer.count() > 50)
  const [before] = await query<{ lsn: string }>(connection, 'SELECT pg_current_wal_flush_lsn()::text AS lsn')

  const requested = await createBackup(id)
  expect(requested).toMatchObject({
    status: 202,
    body: { database_id: id, status: 'completed', purpose: 'user', kind: 'hot' },
  })
  const { body: backup } = requested
  const { metadata } = backup
  expect(metadata.size_bytes).toBeGreaterThan(0)
  expect(Date.parse(metadata.cut_at ?? '')).toBeLessThanOrEqual(Date.parse(backup.finished_at ?? '') + 1_000)
  const [order] = await query(
    connection,
    `SELECT '${metadata.start_lsn}'::pg_lsn <= '${metadata.end_lsn}'::pg_lsn AS recovers,
            '${before?.lsn}'::pg_lsn <= '${metadata.end_lsn}'::pg_lsn AS "holdsWhatWasThere",
            '${metadata.end_lsn}'::pg_lsn <= pg_current_wal_lsn() AS "isOfThePast"`,
  )
  expect(order).toEqual({ recovers: true, holdsWhatWasThere: true, isOfThePast: true })
  const task = await api.call('GET', `/tasks/${requested.headers.get('x-task-id')}`, undefined, { prefer: 'wait=30' })
  expect(task.body).toMatchObject({
    name: 'backup-managed',
    status: 'succeeded',
    subject_kind: 'backup',
    subject_id: backup.id,
  })

  const [snapshot, ...others] = await snapshotsOf(backup.id)
  expect(others).toEqual([])
  expect(snapshot?.status).toMatchObject({ readyToUse: true })
  expect(snapshot?.metadata.ownerReferences).toBeUndefined()
  expect(snapshot?.metadata.labels?.[labels.database]).toBe(id)
  const [database] = (await provider.cluster.list('ManagedDatabase', { labels: { [labels.id]: id } })).items
  expect(metadata).toMatchObject({ system_identifier: database?.status?.volume?.systemIdentifier, timeline: 1 })
  expect((await api.read(id)).body.status).toBe('available')

  const { count, longestMs } = await writer.stop()
  const [restored] = await query(connection, 'SELECT count(*)::int AS n FROM entry')
  expect(restored).toEqual({ n: count })
  expect(longestMs).toBeLessThan(5_000)
  if (process.env.ESPALIER_LOG) console.log({ count, longestMs })

  expect((await api.call('DELETE', `/backups/${backup.id}`)).status).toBe(204)
  await deleted(backup.id)
  expect(await listed(id)).toEqual([])
  await api.remove(id)
})

test('two concurrent backups are taken one after the other, and an allowlist can change meanwhile', async () => {
  const { id } = await create('twice')
  const connection = await api.connection(id)
  const writer = await writeTo(connection)
  const [first, second] = [await createBackup(id, {}), await createBackup(id, {})]
  expect([first.body.status, second.body.status]).toEqual(['pending', 'pending'])
  expect((await listed(id)).map(backup => backup.id)).toEqual([second.body.id, first.body.id])
  const rules = [...openTo(provider.clientAddress).rules, { cidr: '203.0.113.0/24' }]
  expect((await api.change(id, { ip_allowlist: { rules } })).body.status).toBe('available')
  await eventually('every backup is completed', async () =>
    (await listed(id)).every(({ status }) => status === 'completed'),
  )
  await writer.stop()
  await api.remove(id)
  await deleted(first.body.id)
  await deleted(second.body.id)
})

test('waits for a Postgres that is killed during or just before it, and is complete; so is a branch', {
  timeout: 300_000,
}, async () => {
  const { id } = await create('struck')
  const connection = await api.connection(id)
  const completed = (backupId: string) =>
    eventually('the backup is completed or failed', async () => {
      const { body: backup } = await read(backupId)
      return (backup.status === 'completed' || backup.status === 'failed') && backup
    })
  // For a moment after the postmaster has ended, the API and the pod's status may still report it as running.
  const strike = () =>
    eventually('the postmaster is found and killed', async () => {
      const killed = provider.postmaster(provider.namespace(), id).then(postmaster => postmaster.kill())
      return killed.then(
        () => true,
        () => undefined,
      )
    })
  const writer = await writeTo(connection)
  await eventually('the writer has committed 20 transactions', async () => writer.count() > 20)
  const { body: during } = await createBackup(id, {})
  await strike()
  await writer.stop().catch(() => {})
  const taken = [await completed(during.id)]
  const branches: string[] = []
  for (let round = 0; round < (process.env.ESPALIER_SOAK ? 3 : 1); round++) {
    await eventually('the database is available', async () => (await api.read(id)).body.status === 'available')
    await strike()
    const [backup, branch] = await Promise.all([
      createBackup(id, {}),
      api.call<Database>('POST', `/databases/${id}/branches`, {}),
    ])
    // Once the API knows that Postgres does not serve, it refuses both requests.
    expect([202, 409]).toContain(backup.status)
    expect([201, 409]).toContain(branch.status)
    if (backup.status !== 409) taken.push(await completed(backup.body.id))
    if (branch.status === 409) continue
    const path = `/databases/${id}/branches/${branch.body.id}`
    branches.push(
      await eventually('the status of the branch is no longer creating', async () => {
        const { status } = (await api.call<Database>('GET', path)).body
        return status !== 'creating' && status
      }),
    )
    await api.call('DELETE', path, undefined, { prefer: 'wait=60' })
  }
  expect(taken.map(({ status, metadata }) => metadata.error ?? status)).toEqual(taken.map(() => 'completed'))
  expect(branches).toEqual(branches.map(() => 'available'))
  for (const backup of taken) expect(await snapshotsOf(backup.id)).toHaveLength(1)
  await api.remove(id)
  for (const backup of taken) await deleted(backup.id)
})

test('stays after the deletion of its database if it must be retained', async () => {
  const { id, name } = await create('heirloom')
  const { body: backup } = await createBackup(id)
  const key = { namespace: provider.namespace(), name }
  await eventually('keepBackups is written to the spec', async () => {
    const database = await provider.cluster.get('ManagedDatabase', key)
    if (database === undefined) throw new Error('there is no database')
    return provider.cluster.replace('ManagedDatabase', {
      ...database,
      spec: { ...database.spec, deletion: { keepBackups: true } },
    })
  })
  expect((await api.remove(id)).status).toBe(204)
  expect((await api.read(id)).status).toBe(404)
  expect((await read(backup.id)).body.status).toBe('completed')
  expect((await snapshotsOf(backup.id)).length).toBe(1)
  expect((await api.call('DELETE', `/backups/${backup.id}`)).status).toBe(204)
  await deleted(backup.id)
})

test('is verified on a temporary copy while databases serve', { timeout: 300_000 }, async () => {
  const { id } = await create('verified')
  const connection = await api.connection(id)
  await query(connection, "CREATE TABLE entry AS SELECT n, repeat('x', 500) AS text FROM generate_series(1, 5000) n")
  await query(connection, 'CREATE UNIQUE INDEX ON entry (n)')
  const { body: backup } = await createBackup(id)
  expect(backup.status).toBe('completed')
  const requested = await api.call<Backup>('POST', `/backups/${backup.id}/verify`)
  expect(requested).toMatchObject({ status: 202, body: { metadata: { verification: 'pending' } } })
  await eventually(
    'the verification has ended',
    async () => (await read(backup.id)).body.metadata.verification !== 'pending',
    240_000,
  )
  const { verification, verification_result: result } = (await read(backup.id)).body.metadata
  expect({ error: undefined, verification, ...result }).toMatchObject({
    error: undefined,
    verification: 'verified',
    faults: 0,
  })
  // The database itself, and the template of new databases.
  expect(result?.databases).toBeGreaterThanOrEqual(2)
  expect(result?.indexes).toBeGreaterThan(300)
  expect(result?.pages).toBeGreaterThan(2_500)
  const selection = { namespace: provider.namespace(), labels: { [labels.component]: 'verification' } }
  await eventually('the pod and the claim of the verification are deleted', async () => {
    const found = await Promise.all([
      provider.cluster.list('Pod', selection),
      provider.cluster.list('PersistentVolumeClaim', selection),
    ])
    return found.every(({ items }) => items.length === 0)
  })
  expect(await query(connection, 'SELECT count(*)::int AS n FROM entry')).toEqual([{ n: 5_000 }])
  await api.remove(id)
})
