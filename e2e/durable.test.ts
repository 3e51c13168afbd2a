/**
 * The durable tier of an embedded installation, with operator, agents and archive. WAL and base backups arrive, are
 * proved complete, and allow recovery to any moment.
 */
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { labels } from '../crds/index.ts'
import { type ApiClient, type Connection, type Database, eventually, openToThisMachine, query } from './client.ts'
import { type EmbeddedProvider, startEmbedded } from './providers/embedded.ts'

let provider: EmbeddedProvider
let api: ApiClient
beforeAll(async () => {
  provider = await startEmbedded()
  api = await provider.client()
})
afterAll(() => provider?.stop())

type Backup = {
  id: string
  status: string
  kind: string
  purpose: string
  metadata: { size_bytes?: number; start_lsn?: string; verification?: string; verification_result?: object }
}

const archiving = async (id: string) => {
  const { items } = await provider.cluster.list('ManagedDatabase', { labels: { [labels.id]: id } })
  return items[0]?.status?.conditions?.find(({ type }) => type === 'Archiving')
}
const objects = (id: string, folder: string) =>
  globSync(join(provider.home, 'archive', id, '1', folder, '**/*'), { withFileTypes: true }).filter(each =>
    each.isFile(),
  )

type Branch = { id: string; status: string; connection?: Connection }
type Window = { earliest_time: string | null; latest_time: string | null; latest_lsn: string | null; gaps: unknown[] }

const isSoak = process.env.ESPALIER_SOAK === '1'
const durable = { backup: { durable: true }, ip_allowlist: openToThisMachine }
const isArchiving = (id: string) =>
  eventually(
    'the database reports the reason Archiving',
    async () => (await archiving(id))?.reason === 'Archiving',
    90_000,
  )
const backUp = async (id: string): Promise<Backup> => {
  const requested = await api.call<Backup>(
    'POST',
    `/databases/${id}/backup`,
    { kind: 'durable' },
    { prefer: 'wait=60' },
  )
  expect(requested, JSON.stringify(requested.body)).toMatchObject({
    status: 202,
    body: { status: 'completed', kind: 'durable' },
  })
  return requested.body
}
const windowOf = async (id: string) => (await api.call<Window>('GET', `/databases/${id}/recovery-window`)).body
const restore = async (id: string, target: object): Promise<void> => {
  const requested = await api.call<Database>('POST', `/databases/${id}/restore`, target, { prefer: 'wait=60' })
  expect(requested.status, JSON.stringify(requested.body)).toBe(202)
  await eventually(
    'the database is available after the restore',
    async () => (await api.read(id)).body.status === 'available',
    120_000,
  )
  const { items } = await provider.cluster.list('Restore')
  const last = items.filter(({ spec }) => spec.databaseId === id).at(-1)
  expect(last?.status?.phase, JSON.stringify(last?.status)).toBe('completed')
}
const numbersOf = async (connection: Connection): Promise<number[]> =>
  (await query<{ n: number }>(connection, 'SELECT n FROM entry ORDER BY n')).map(({ n }) => n)
const numbers = async (id: string): Promise<number[]> => numbersOf(await api.connection(id))
/** Writes a number. @returns a moment after this write and before the next */
async function written(id: string, n: number): Promise<{ time: string; lsn: string }> {
  const connection = await api.connection(id, 'admin')
  await query(connection, `INSERT INTO entry VALUES (${n})`)
  const [row] = await query<{ time: Date; lsn: string }>(
    connection,
    'SELECT clock_timestamp() AS time, pg_current_wal_lsn()::text AS lsn',
  )
  if (row === undefined) throw new Error('no row')
  await sleep(20)
  return { time: new Date(row.time.getTime() + 1).toISOString(), lsn: row.lsn }
}

test('a database archives its writes, has a durable backup, and its archive is deleted with its object', async () => {
  const { body: created } = await api.create({ name: 'kept', ...durable })
  const { id } = created
  expect(created).toMatchObject({ status: 'available', backup: { durable: true } })
  await isArchiving(id)

  const connection = await api.connection(id)
  await query(connection, 'CREATE TABLE entry AS SELECT generate_series(1, 1000) AS n')
  const admin = await api.connection(id, 'admin')
  await query(admin, 'CREATE TABLE filler AS SELECT repeat(md5(n::text), 40) AS text FROM generate_series(1, 20000) n')
  await eventually('a complete WAL file is in the archive', async () => objects(id, 'wal').length > 0)

  const listed = async () => (await api.call<Backup[]>('GET', `/backups?kind=durable`)).body
  // The recovery window begins with an automatic backup.
  await eventually('the first backup is completed', async () =>
    (await listed()).some(({ status }) => status === 'completed'),
  )
  const backup = await backUp(id)
  expect(backup.metadata.size_bytes).toBeGreaterThan(1_000_000)
  expect((await listed()).map(({ purpose }) => purpose).sort()).toEqual(['scheduled', 'user'])
  expect(objects(id, `backups/${backup.id}`).length).toBeGreaterThan(2)
  // The first durable backup of a tenant on a day is verified, as the proof of that day.
  const proof = await eventually(
    'the verification of a backup has ended',
    async () => (await listed()).find(({ metadata }) => ['verified', 'failed'].includes(metadata.verification ?? '')),
    120_000,
  )
  expect(proof.metadata).toMatchObject({ verification: 'verified', verification_result: { faults: 0 } })

  expect((await api.call('DELETE', `/backups/${backup.id}`)).status).toBe(204)
  await eventually('the backup is deleted', async () => (await api.call('GET', `/backups/${backup.id}`)).status === 404)
  expect(objects(id, `backups/${backup.id}`)).toEqual([])
  expect((await archiving(id))?.status).toBe('True')
  const suspended = await api.call<Database>('POST', `/databases/${id}/suspend`, undefined, { prefer: 'wait=60' })
  expect(suspended.body.status).toBe('suspended')
  // The last segment of a stopped Postgres is also in the archive.
  const waiting = globSync(join(provider.home, `runtime/volumes/*/*/pgdata/pg_wal/archive_status/*.ready`))
  expect(waiting).toEqual([])
  await api.remove(id)
  if (!isSoak) return

  // The new database has the name of the deleted one, whose WAL and state belong to another database.
  const began = Date.now()
  const { body: another } = await api.create({ name: 'kept', ...durable })
  await eventually(
    'the archive has WAL of the new database',
    async () => objects(another.id, 'tail').length + objects(another.id, 'wal').length > 0,
  )
  await isArchiving(another.id)
  expect(Date.now() - began).toBeLessThan(60_000)
  await api.remove(another.id)
}, 300_000)

test('a database can be restored to any moment since its first durable backup', async () => {
  const { id } = (await api.create({ name: 'moments', ...durable })).body
  await isArchiving(id)
  await query(await api.connection(id, 'admin'), 'CREATE TABLE entry (n int)')
  const backup = await backUp(id)
  const first = await written(id, 1)
  const second = await written(id, 2)
  await written(id, 3)
  const reaches = async ({ time }: { time: string }) => ((await windowOf(id)).latest_time ?? '') > time
  await eventually('the recovery window reaches the second write', () => reaches(second), 120_000)
  const tooLate = await api.call('POST', `/databases/${id}/restore`, { target_time: '2100-01-01T00:00:00Z' })
  expect(tooLate.status).toBe(400)
  const branchInput = { target_time: second.time, ip_allowlist: openToThisMachine }
  const branch = await api.call<Branch>('POST', `/databases/${id}/branches`, branchInput, { prefer: 'wait=60' })
  expect(branch.status, JSON.stringify(branch.body)).toBe(201)
  const path = `/databases/${id}/branches/${branch.body.id}`
  const available = () =>
    eventually(
      'the branch is available',
      async () => {
        const { body } = await api.call<Branch>('GET', path)
        return body.status === 'available' ? body.connection : undefined
      },
      120_000,
    )
  const connection = await available()
  expect(await numbersOf(connection)).toEqual([1, 2])
  const moved = await api.call<Branch>('PATCH', path, { target_time: first.time }, { prefer: 'wait=60' })
  expect(moved.status, JSON.stringify(moved.body)).toBe(202)
  expect(await available()).toEqual(connection)
  expect(await numbersOf(connection)).toEqual([1])
  expect(await numbers(id)).toEqual([1, 2, 3])
  await restore(id, { branch_id: branch.body.id })
  await api.call('DELETE', path, undefined, { prefer: 'wait=60' })
  expect(await numbers(id)).toEqual([1])
  expect((await archiving(id))?.reason).toBeDefined()
  if (!isSoak) return void (await api.remove(id))

  await isArchiving(id)
  await restore(id, { backup_id: backup.id })
  expect(await numbers(id)).toEqual([])
  await isArchiving(id)
  await backUp(id)
  const [fourth] = [await written(id, 4), await written(id, 5)]
  await eventually('the recovery window reaches the fourth write', () => reaches(fourth), 120_000)
  await restore(id, { target_lsn: fourth.lsn })
  expect(await numbers(id)).toEqual([4])

  await isArchiving(id)
  const last = await backUp(id)
  expect((await api.remove(id, '?keep_backups=true')).status).toBe(204)
  await eventually('the database is deleted', async () => (await api.call('GET', `/databases/${id}`)).status === 404)
  const { body: again } = await api.create({ name: 'again', ...durable, source_backup_id: last.id })
  await eventually(
    'the new database is available',
    async () => (await api.read(again.id)).body.status === 'available',
    120_000,
  )
  expect(await numbers(again.id)).toEqual([4])
  await api.remove(again.id)
}, 600_000)

test.skipIf(!isSoak)(
  'a deleted database is restored with its last writes and its password',
  async () => {
    const { id } = (await api.create({ name: 'gone', ...durable })).body
    await isArchiving(id)
    await query(await api.connection(id, 'admin'), 'CREATE TABLE entry (n int)')
    await backUp(id)
    await written(id, 1)
    const before = await api.connection(id)
    await query(await api.connection(id, 'admin'), 'INSERT INTO entry VALUES (2)')
    expect((await api.remove(id)).status).toBe(204)
    await eventually('the database is deleted', async () => (await api.call('GET', `/databases/${id}`)).status === 404)
    const listed = async () => (await api.call<{ id: string }[]>('GET', '/deleted-databases')).body
    expect(await listed()).toContainEqual(expect.objectContaining({ id, name: 'gone' }))

    const requested = await api.call<Database>('POST', `/databases/${id}/undelete`)
    expect(requested, JSON.stringify(requested.body)).toMatchObject({ status: 201, body: { id, name: 'gone' } })
    await eventually(
      'the undeleted database is available',
      async () => (await api.read(id)).body.status === 'available',
      120_000,
    )
    const after = await api.connection(id)
    expect([after.port, after.password]).toEqual([before.port, before.password])
    expect(await numbersOf(before)).toEqual([1, 2])
    await isArchiving(id)

    expect((await api.remove(id, '?purge=true')).status).toBe(204)
    const remaining = () => globSync(join(provider.home, 'archive', id, '**/*'), { withFileTypes: true })
    await eventually(
      'the archive has no file of the database',
      async () => remaining().every(entry => !entry.isFile()),
      60_000,
    )
    expect((await listed()).map(each => each.id)).not.toContain(id)
  },
  600_000,
)
