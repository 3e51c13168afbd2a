/** The pool on a real kernel: on a small disk of the test, whose file system cannot share blocks. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Cluster } from '../../../cluster/index.ts'
import { devicesOf, parseMounts } from '../../../server/mounts.ts'
import {
  claim,
  key,
  openTestStore,
  startTestRuntime,
  temporaryDirectory,
  testLogger,
  until,
  untilClaim,
} from '../testing/runtime.ts'
import { mountPool, poolImage } from './image.ts'
import { openPool, type Pool } from './index.ts'

const able = process.getuid?.() === 0 && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0

const mountsUnder = (directory: string) =>
  parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).filter(({ path }) => path.startsWith(`${directory}/`))

function smallDisk(size: string): string {
  const disk = temporaryDirectory()
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', disk])
  onTestFinished(() => {
    const mounts = mountsUnder(disk).reverse()
    for (const { path, device } of mounts) {
      spawnSync('umount', ['--lazy', path])
      spawnSync('losetup', ['--detach', device])
    }
    spawnSync('umount', ['--lazy', disk])
  })
  return disk
}

/** The running runtime. A test simulates a crash by not stopping it. */
async function openTestPool(root: string, make = true): Promise<Pool> {
  const pool = await openPool({ root, make, logger: testLogger })
  onTestFinished(() => pool.stop())
  return pool
}

const snapshot = (name: string, persistentVolumeClaimName: string) => ({
  apiVersion: 'snapshot.storage.k8s.io/v1' as const,
  kind: 'VolumeSnapshot' as const,
  metadata: { name, namespace: 'test' },
  spec: { source: { persistentVolumeClaimName } },
})

async function directoryOf(cluster: Cluster, root: string, name: string): Promise<string> {
  const { spec } = await untilClaim(cluster, name)
  const volume = await cluster.get('PersistentVolume', { name: spec?.volumeName ?? '' })
  return join(root, 'volumes', volume?.spec?.csi?.volumeHandle ?? 'none')
}

/** Copies a claim through a snapshot. */
async function copyClaim(cluster: Cluster, from: string, to: string): Promise<void> {
  await cluster.create('VolumeSnapshot', snapshot(to, from))
  await until(async () => (await cluster.get('VolumeSnapshot', key(to)))?.status?.readyToUse === true)
  const dataSource = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: to }
  await cluster.create('PersistentVolumeClaim', claim(to, { dataSource }))
  await untilClaim(cluster, to)
}

const megabytes = 2 ** 20
const freeOf = (path: string): number => {
  const { bavail, bsize } = statfsSync(path)
  return bavail * bsize
}

describe.runIf(able)('the pool on a real kernel', () => {
  test('copies share blocks; the pool is unmounted at the stop and found at the next start', async () => {
    const directory = smallDisk('3g')
    const { store, cluster } = await openTestStore()
    const first = await startTestRuntime(store, { directory, pool: true })
    const pool = poolImage(directory)
    expect(first.copies).toEqual({ kind: 'shared', pool: pool.file })
    expect(mountsUnder(directory).map(({ path }) => path)).toEqual([pool.directory])
    expect(statSync(pool.file).blocks * 512).toBeLessThan(statSync(pool.file).size / 4)

    await cluster.create('PersistentVolumeClaim', claim('data'))
    const source = await directoryOf(cluster, pool.directory, 'data')
    writeFileSync(join(source, 'file'), Buffer.alloc(50 * megabytes, 'x'))
    execFileSync('sync', ['-f', source])
    const before = freeOf(pool.directory)
    for (const name of ['one', 'two', 'three']) await copyClaim(cluster, 'data', name)
    expect(before - freeOf(pool.directory)).toBeLessThan(5 * megabytes)
    await first.stop()
    expect(mountsUnder(directory)).toEqual([])
    expect(await devicesOf(pool.file)).toEqual([])

    await startTestRuntime(store, { directory })
    const copy = await directoryOf(cluster, pool.directory, 'three')
    expect(readFileSync(join(copy, 'file')).equals(readFileSync(join(source, 'file')))).toBe(true)
  })

  test('after a crash the existing mount or device is used', async () => {
    const root = smallDisk('3g')
    const crashed = await openTestPool(root)
    const { file, directory } = poolImage(root)
    writeFileSync(join(directory, 'kept'), 'kept')
    const again = await openTestPool(root)
    expect([again.copies, mountsUnder(root).length]).toEqual([crashed.copies, 1])
    await crashed.stop()

    const device = execFileSync('losetup', ['--find', '--show', file], { encoding: 'utf8' }).trim()
    onTestFinished(() => void spawnSync('losetup', ['--detach', device]))
    await mountPool({ file, directory }, testLogger)
    expect(mountsUnder(root).map(mount => mount.device)).toEqual([device])
    expect(readFileSync(join(directory, 'kept'), 'utf8')).toBe('kept')
  })

  test('volumes created before the pool stay in place, and are copied into the pool', async () => {
    const directory = smallDisk('3g')
    const { store, cluster } = await openTestStore()
    const before = await startTestRuntime(store, { directory })
    expect(before.copies.kind).toBe('whole')
    await cluster.create('PersistentVolumeClaim', claim('old'))
    const old = await directoryOf(cluster, directory, 'old')
    writeFileSync(join(old, 'file'), 'precious')
    await before.stop()

    const { directory: pool } = poolImage(directory)
    await startTestRuntime(store, { directory, pool: true })
    await copyClaim(cluster, 'old', 'copy')
    expect(readFileSync(join(await directoryOf(cluster, pool, 'copy'), 'file'), 'utf8')).toBe('precious')
    expect(readFileSync(join(old, 'file'), 'utf8')).toBe('precious')
    for (const name of ['old', 'copy']) await cluster.delete('PersistentVolumeClaim', key(name))
    await until(async () => (await cluster.list('PersistentVolume')).items.length === 0)
    expect(existsSync(old)).toBe(false)
    for (const path of [directory, pool]) expect(readdirSync(join(path, 'staging'))).toEqual([])
  })

  /** Writes until the disk is full. @returns the error */
  function fill(file: string): string {
    const descriptor = openSync(file, 'w')
    try {
      for (;;) {
        writeSync(descriptor, Buffer.alloc(4 * megabytes, 'x'))
        fsyncSync(descriptor)
      }
    } catch (error) {
      return error instanceof Error && 'code' in error ? String(error.code) : String(error)
    } finally {
      closeSync(descriptor)
    }
  }

  test('while other files fill the disk, writers in the pool find it full; when the disk has space, so does the pool', async () => {
    const root = smallDisk('2g')
    await openTestPool(root)
    const { directory } = poolImage(root)
    const ballast = join(root, 'ballast')
    execFileSync('fallocate', ['-l', String(freeOf(root) - 300 * megabytes), ballast])
    await until(() => freeOf(directory) < 300 * megabytes)
    expect(fill(join(directory, 'file'))).toBe('ENOSPC')
    expect(freeOf(root)).toBeGreaterThan(0)
    rmSync(ballast)
    await until(() => freeOf(directory) > 500 * megabytes)
    writeFileSync(join(directory, 'more'), 'more')
  })

  test('on a full disk, the pool has no free block, not even blocks of deleted files, and not after a crash', async () => {
    const root = smallDisk('2g')
    await openTestPool(root)
    const { directory } = poolImage(root)
    const deleted = join(directory, 'deleted')
    writeFileSync(deleted, Buffer.alloc(100 * megabytes, 'x'), { flush: true })
    rmSync(deleted)
    execFileSync('fallocate', ['-l', String(freeOf(root)), join(root, 'ballast')])
    await until(() => freeOf(directory) === 0)
    await openTestPool(root)
    expect(freeOf(directory)).toBe(0)
  })

  test('a full pool grows with its disk', async () => {
    const root = smallDisk('1500m')
    await openTestPool(root)
    const { directory, file } = poolImage(root)
    const { size } = statSync(file)
    execFileSync('mount', ['-o', 'remount,size=6g', root])
    await until(() => statSync(file).size > size && freeOf(directory) > 3 * 2 ** 30)
  })

  test('without the programs for a pool, copies are complete and no files remain', async () => {
    const root = smallDisk('2g')
    const { PATH } = process.env
    onTestFinished(() => void Object.assign(process.env, { PATH }))
    process.env.PATH = '/nowhere'
    const pool = await openTestPool(root)
    process.env.PATH = PATH
    expect(pool.copies).toMatchObject({
      kind: 'whole',
      why: expect.stringMatching(/no pool could be created: mkfs.xfs .* is missing/),
    })
    expect(readdirSync(root)).toEqual([])
  })

  test('a pool whose image is missing, or with another mount over it, is refused', async () => {
    const root = smallDisk('3g')
    const pool = await openTestPool(root)
    await pool.stop()
    const { directory, file } = poolImage(root)
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', directory])
    await expect(openTestPool(root)).rejects.toThrow(/tmpfs is mounted at/)
    execFileSync('umount', [directory])
    rmSync(file)
    await expect(openTestPool(root)).rejects.toThrow(/pool.xfs is missing/)
  })
})

test('copies are complete if the pool is off, or if the user is not root', async () => {
  const root = temporaryDirectory()
  const pool = await openTestPool(root, false)
  expect(pool.directory).toBeUndefined()
  expect(existsSync(poolImage(root).file)).toBe(false)
})
