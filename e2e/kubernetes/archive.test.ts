/**
 * The durable tier on a cluster, with an S3 server outside the cluster: recovery to a moment as a branch, in place, and
 * after a deletion.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type ApiClient, type Connection, eventually, openTo, query } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { isArchiving, startArchive } from './archive-store.ts'
import { connectionOf, createBackup, readBranch, succeeded } from './requests.ts'
import { minutes } from './serving.ts'

let provider: KindProvider
let api: ApiClient
let archive: { stop(): Promise<void> } | undefined
beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('archived')
  archive = await startArchive(provider)
}, minutes(12))
afterAll(async () => {
  await archive?.stop()
  await provider?.stop()
}, minutes(6))

const archiving = (id: string) => isArchiving(provider, id)
const numbers = async (connection: Connection): Promise<number[]> =>
  (await query<{ n: number }>(connection, 'SELECT n FROM entry ORDER BY n')).map(({ n }) => n)
const available = (id: string) =>
  eventually('the database is available', async () => (await api.read(id)).body.status === 'available', minutes(5))
const reaches = (id: string, time: string) =>
  eventually(
    'the recovery window reaches the time',
    async () => {
      const { body } = await api.call<{ latest_time: string | null }>('GET', `/databases/${id}/recovery-window`)
      return (body.latest_time ?? '') > time
    },
    minutes(4),
  )

/** Writes a number. @returns a moment after this write and before the next */
async function written(id: string, n: number): Promise<string> {
  const connection = await api.connection(id)
  await query(connection, `INSERT INTO entry VALUES (${n})`)
  const [row] = await query<{ now: Date }>(connection, 'SELECT clock_timestamp() AS now')
  if (row === undefined) throw new Error('no row')
  await sleep(20)
  return new Date(row.now.getTime() + 1).toISOString()
}

test(
  'a database can be recovered to a moment as a branch, in place, and after its deletion',
  async () => {
    const opened = { ip_allowlist: openTo(provider.clientAddress) }
    const { body } = await api.create({ name: 'moments', backup: { durable: true }, ...opened })
    const { id } = body
    onTestFinished(async () => void (await api.remove(id, '?force=true&purge=true')))
    await available(id)
    await eventually('the database archives WAL', () => archiving(id), minutes(3))
    await query(await api.connection(id), 'CREATE TABLE entry (n int)')
    const backup = await createBackup(api, id, 'durable')
    await succeeded(api, backup)
    const first = await written(id, 1)
    const second = await written(id, 2)
    await written(id, 3)
    await reaches(id, second)

    const target = { target_time: second }
    const branch = await api.call<{ id: string }>('POST', `/databases/${id}/branches`, { ...target, ...opened })
    expect(branch.status, JSON.stringify(branch.body)).toBe(201)
    await eventually(
      'the branch is available',
      async () => (await readBranch(api, id, branch.body.id)).status === 'available',
      minutes(5),
    )
    const atSecond = await connectionOf(api, id, branch.body.id)
    expect(await numbers(atSecond)).toEqual([1, 2])

    // The branch is moved to an earlier moment, and keeps its address and password. Then the database is restored to the
    // moment of the branch.
    const path = `/databases/${id}/branches/${branch.body.id}`
    await succeeded(api, await api.call('PATCH', path, { target_time: first }))
    expect(await connectionOf(api, id, branch.body.id)).toEqual(atSecond)
    expect(await numbers(atSecond)).toEqual([1])
    await succeeded(api, await api.call('POST', `/databases/${id}/restore`, { branch_id: branch.body.id }))
    await available(id)
    await api.call('DELETE', path, undefined, { prefer: 'wait=60' })
    const before = await api.connection(id)
    expect(await numbers(before)).toEqual([1])

    // The recovery window of the new volume begins with its first durable backup.
    await eventually('the database archives WAL', () => archiving(id), minutes(3))
    await succeeded(api, await createBackup(api, id, 'durable'))
    await written(id, 4)
    await reaches(id, await written(id, 5))
    expect((await api.remove(id)).status).toBe(204)
    await eventually('the database is deleted', async () => (await api.read(id)).status === 404, minutes(2))
    const undeleted = await api.call('POST', `/databases/${id}/undelete`)
    expect(undeleted.status, JSON.stringify(undeleted.body)).toBe(201)
    await available(id)
    const after = await api.connection(id)
    expect(after.password).toBe(before.password)
    expect(await numbers(after)).toEqual([1, 4, 5])
  },
  minutes(20),
)
