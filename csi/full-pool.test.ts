/** A pool that has promised its full capacity: every volume can be filled completely, and deletion always works. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMounts } from '../server/mounts.ts'
import type { CsiError } from './errors.ts'
import { mountImage, unmount } from './mounts.ts'
import { openPool, type Pool } from './pool.ts'
import { mountPoolFile } from './pool-file.ts'

const able = process.getuid?.() === 0 && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0

describe.runIf(able)('a fully promised pool', () => {
  let directory: string
  let pool: Pool

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'espalier-csi-'))
    await mountPoolFile(join(directory, 'pool.xfs'), 2 ** 30, join(directory, 'pool'))
    pool = await openPool({ directory: join(directory, 'pool'), overcommit: 1, now: Date.now })
  })
  afterAll(() => {
    for (const mount of parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).reverse()) {
      if (mount.path.startsWith(`${directory}/`)) spawnSync('umount', ['--lazy', mount.path])
    }
    rmSync(directory, { recursive: true, force: true })
  })

  test('can store everything that its volumes can contain', async () => {
    const promised = await pool.available()
    const volume = await pool.createVolume('all', promised, 0)
    const path = join(directory, 'all')
    await mountImage(pool.imageOf(volume), path)
    const { blocks, bsize } = statfsSync(path)
    expect(blocks * bsize).toBeGreaterThan(promised * 0.9)
    // Fills the volume until dd reports that it is full. The written data must be in the pool.
    spawnSync('dd', ['if=/dev/urandom', `of=${join(path, 'file')}`, 'bs=1M'])
    expect(statfsSync(path).bavail * bsize).toBeLessThan(2 ** 21)
    expect(spawnSync('sync', ['--file-system', path], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' })
    await expect(pool.createVolume('more', 300 * 2 ** 20, 0)).rejects.toThrow('left to promise')
    await unmount(path)
    await pool.deleteVolume(volume.id)
    expect(await pool.available()).toBe(promised)
  }, 120_000)

  test('refuses a snapshot with a final error if almost no space is free, and creates it when there is space', async () => {
    const volume = await pool.createVolume('some', 300 * 2 ** 20, 0)
    const ballast = join(directory, 'pool/ballast')
    const { bavail, bsize } = statfsSync(join(directory, 'pool'))
    expect(spawnSync('fallocate', ['--length', String(bavail * bsize - 20 * 2 ** 20), ballast]).status).toBe(0)
    // Every other code means that nothing is in progress (the snapshotter's isCSIFinalError).
    const mayGoOn = [
      status.CANCELLED,
      status.DEADLINE_EXCEEDED,
      status.UNAVAILABLE,
      status.RESOURCE_EXHAUSTED,
      status.ABORTED,
    ]
    const refused = await pool.createSnapshot('copy', volume.id).catch((error: CsiError) => error)
    expect(refused).toMatchObject({ message: 'the pool is full', code: expect.not.toBeOneOf(mayGoOn) })
    expect(readdirSync(join(directory, 'pool/snapshots'))).toEqual([])
    rmSync(ballast)
    const { id } = await pool.createSnapshot('copy', volume.id)
    await pool.deleteSnapshot(id)
    await pool.deleteVolume(volume.id)
  })
})
