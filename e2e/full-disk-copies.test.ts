/**
 * Copies on a disk that cannot share blocks and has no space for them. They wait and report why, while their source is
 * written, and succeed once the disk has space.
 */
import { execFileSync } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { childNames } from '../crds/index.ts'
import { type Connection, eventually, openToThisMachine, query } from './client.ts'
import { canMount, fillDisk, mountDisk } from './disk.ts'
import { startEmbedded } from './providers/embedded.ts'
import { writeTo } from './writer.ts'

const mebibyte = 1024 * 1024
/** The space that a copy keeps free, and the space that Postgres needs meanwhile. */
const spare = 100 * mebibyte

describe.runIf(canMount)('a disk without space for a copy', { timeout: 240_000 }, () => {
  test('a backup and a database created from it wait and report the reason, and a branch needs one copy; no attempt leaves files', async ({
    onTestFinished,
  }) => {
    let runtime = ''
    let unmount = () => {}
    const provider = await startEmbedded({
      prepare: async home => {
        runtime = join(home, 'runtime')
        await mkdir(runtime)
        unmount = mountDisk(900, runtime)
      },
    })
    onTestFinished(() => provider.stop())
    onTestFinished(unmount)
    const api = await provider.client()
    const { cluster } = provider
    const namespace = provider.namespace()
    const { body: database } = await api.create({ name: 'cramped', ip_allowlist: openToThisMachine })
    const connection = await api.connection(database.id)
    const padding = 'SELECT n, repeat(md5(n::text), 30) AS text FROM generate_series(1, 60000) n'
    await query(connection, `CREATE TABLE padding AS ${padding}`)
    const sizeOf = (directory: string) =>
      Number(execFileSync('du', ['-s', '-B1', join(runtime, directory)], { encoding: 'utf8' }).split('\t')[0])
    const bytes = sizeOf('volumes')
    expect(bytes).toBeGreaterThan(spare)
    const writer = await writeTo(connection)
    const goesOn = async () => {
      const since = writer.count()
      await eventually('the writer commits 20 more transactions', async () => writer.count() > since + 20)
    }
    /** Ignores files with which the runtime tests the file system. */
    const staged = async () => (await readdir(join(runtime, 'staging'))).filter(name => name !== 'espalier-probe')

    // The disk has no space, not even for a snapshot.
    const empty = await fillDisk(runtime, bytes)
    const backup = await api.call<{ id: string; status: string }>('POST', `/databases/${database.id}/backup`, {
      kind: 'hot',
    })
    const snapshot = { namespace, name: childNames.snapshot(backup.body.id) }
    const refused = await eventually(
      'the VolumeSnapshot reports an error',
      async () => (await cluster.get('VolumeSnapshot', snapshot))?.status?.error,
    )
    expect(refused.message).toBe('the disk is full')
    await goesOn()
    await empty()
    await eventually('the backup is completed', async () => {
      return (await api.call<{ status: string }>('GET', `/backups/${backup.body.id}`)).body.status === 'completed'
    })

    // A branch needs only one copy, because its snapshot becomes its volume.
    const freeDisk = await fillDisk(runtime, bytes + spare)
    const path = `/databases/${database.id}/branches`
    const { body: branch } = await api.call<{ id: string; name: string }>('POST', path)
    const made = await eventually('the branch is available', async () => {
      const { body } = await api.call<{ status: string; connection?: Connection }>('GET', `${path}/${branch.id}`)
      return body.status === 'available' && body.connection
    })
    const [row] = await query(made, 'SELECT count(*)::int AS n, max(n) AS last FROM entry')
    expect(row?.n).toBe(Number(row?.last) + 1)
    await goesOn()

    // The snapshot stays, and there is no space for a volume created from it.
    const { body: copied } = await api.create({ name: 'copied', source_backup_id: backup.body.id }, {})
    const claim = { namespace, name: childNames.claim(copied.id, 1) }
    await eventually('the claim reports that the disk is full', async () => {
      const found = await cluster.get('PersistentVolumeClaim', claim)
      return found?.status?.conditions?.some(({ message }) => message === 'the disk is full')
    })
    await goesOn()
    await freeDisk()
    await eventually(
      'the database created from the backup is available',
      async () => (await api.read(copied.id)).body.status === 'available',
    )
    expect(await staged()).toEqual([])
    expect((await writer.stop()).count).toBeGreaterThan(40)
  })
})
