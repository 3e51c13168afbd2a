/** The driver with late calls, wrong volumes, and an interruption while a volume grows. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { mountAt, parseMounts } from '../server/mounts.ts'
import { createController } from './controller.ts'
import { mountImage, unmount } from './mounts.ts'
import { createNode } from './node.ts'
import { openPool, type Pool } from './pool.ts'
import { mountPoolFile } from './pool-file.ts'
import { createSerial } from './serial.ts'

const able = process.getuid?.() === 0 && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0
const mebibytes = 2 ** 20
const volume_capability = { mount: { fs_type: 'xfs', mount_flags: [] }, access_mode: { mode: 'SINGLE_NODE_WRITER' } }
const refusal = expect.objectContaining({ code: status.FAILED_PRECONDITION })

describe.runIf(able)('the CSI driver, misused', () => {
  let directory: string
  let pool: Pool
  let controller: ReturnType<typeof createController>
  let node: ReturnType<typeof createNode>

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'espalier-csi-'))
    const poolDirectory = join(directory, 'pool')
    await mountPoolFile(join(directory, 'pool.xfs'), 8 * 2 ** 30, poolDirectory)
    pool = await openPool({ directory: poolDirectory, overcommit: 1, now: Date.now })
    const parts = { pool, node: 'here', serial: createSerial() }
    controller = createController(parts)
    node = createNode(parts)
  })
  afterAll(() => {
    for (const mount of parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).reverse()) {
      if (mount.path.startsWith(`${directory}/`)) spawnSync('umount', ['--lazy', mount.path])
    }
    rmSync(directory, { recursive: true, force: true })
  })

  const make = (name: string) => pool.createVolume(name, 300 * mebibytes, 0)
  const at = (name: string) => join(directory, name)
  const stage = ({ id: volume_id }: { id: string }, staging_target_path: string) =>
    node.NodeStageVolume({ volume_id, staging_target_path, volume_capability })
  const publish = ({ id: volume_id }: { id: string }, staging_target_path: string, target_path: string) =>
    node.NodePublishVolume({ volume_id, staging_target_path, target_path, volume_capability, readonly: false })

  test('a staged volume is deleted only after it is unstaged', async () => {
    const volume = await make('in-use')
    const path = at('in-use')
    await stage(volume, path)
    writeFileSync(join(path, 'file'), 'kept')
    await expect(controller.DeleteVolume({ volume_id: volume.id })).rejects.toEqual(refusal)
    await unmount(path)
    await stage(volume, path)
    expect(readFileSync(join(path, 'file'), 'utf8')).toBe('kept')
    await node.NodeUnstageVolume({ volume_id: volume.id, staging_target_path: path })
    await controller.DeleteVolume({ volume_id: volume.id })
    expect(await pool.findVolume(volume.id)).toBeUndefined()
  })

  test('a volume that is deleted while it is being staged is either staged or deleted', async () => {
    for (let round = 0; round < 5; round++) {
      const volume = await make(`race-${round}`)
      const path = at(`race-${round}`)
      const outcomes = await Promise.allSettled([
        controller.DeleteVolume({ volume_id: volume.id }),
        stage(volume, path),
        controller.DeleteVolume({ volume_id: volume.id }),
      ])
      const isMounted = (await mountAt(path)) !== undefined
      expect(isMounted, JSON.stringify(outcomes)).toBe((await pool.findVolume(volume.id)) !== undefined)
      await node.NodeUnstageVolume({ volume_id: volume.id, staging_target_path: path })
      await controller.DeleteVolume({ volume_id: volume.id })
    }
  })

  test('no caller gets another volume: an existing mount must be the requested volume', async () => {
    const [own, other] = [await make('mine'), await make('theirs')]
    await stage(other, at('theirs'))
    await publish(other, at('theirs'), at('theirs-target'))
    await expect(stage(own, at('theirs'))).rejects.toEqual(refusal)
    await expect(publish(own, at('theirs'), at('target'))).rejects.toEqual(refusal)
    await expect(publish(own, '/', at('target'))).rejects.toEqual(refusal)
    await stage(own, at('mine'))
    await expect(publish(own, at('mine'), at('theirs-target'))).rejects.toEqual(refusal)
    await publish(own, at('mine'), at('target'))
    await publish(own, at('mine'), at('target'))
    for (const path of ['target', 'mine', 'theirs-target', 'theirs']) await unmount(at(path))
    for (const { id } of [own, other]) await controller.DeleteVolume({ volume_id: id })
  })

  test('after a crash while growing, copies of the volume are complete', async () => {
    const volume = await make('grown')
    truncateSync(pool.imageOf(volume), 400 * mebibytes)
    await mountImage(pool.imageOf(volume), at('grown'))
    const written = Buffer.alloc(260 * mebibytes, 'espalier')
    writeFileSync(join(at('grown'), 'file'), written, { flush: true })
    const snapshot = await pool.createSnapshot('of-grown', volume.id)
    const copy = await pool.createVolume('copy', 0, 0, { kind: 'snapshot', id: snapshot.id })
    expect([snapshot.bytes, copy.bytes]).toEqual([400 * mebibytes, 400 * mebibytes])
    await mountImage(pool.imageOf(copy), at('copy'))
    expect(readFileSync(join(at('copy'), 'file')).equals(written)).toBe(true)
    expect(await pool.expandVolume(volume.id, 400 * mebibytes, 0)).toBe(400 * mebibytes)
    for (const path of ['grown', 'copy']) await unmount(at(path))
  })

  test('a volume of another node is unavailable to the resizer, which calls each node', async () => {
    const capacity_range = { required_bytes: mebibytes, limit_bytes: 0 }
    const expansion = controller.ControllerExpandVolume({ volume_id: `vol-${'0'.repeat(32)}`, capacity_range })
    await expect(expansion).rejects.toMatchObject({ code: status.UNAVAILABLE })
  })

  test('ids that are paths, or the name of a serialisation key, are not found', async () => {
    const before = (await pool.volumes()).length
    for (const volume_id of ['..', '../volumes', '/', 'pool', 'vol-', `vol-${'0'.repeat(32)}/..`, 'a\0b']) {
      await controller.DeleteVolume({ volume_id })
      await controller.DeleteSnapshot({ snapshot_id: volume_id })
      await expect(controller.CreateSnapshot({ name: 'a', source_volume_id: volume_id })).rejects.toThrow('there is no')
      await expect(stage({ id: volume_id }, at('nothing'))).rejects.toThrow('there is no')
    }
    expect((await pool.volumes()).length).toBe(before)
    expect(readdirSync(join(directory, 'pool')).sort()).toEqual(['snapshots', 'volumes'])
  })
})
