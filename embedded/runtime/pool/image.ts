/**
 * The file system of a pool: an XFS image next to the volumes' directories, mounted through a loop device. The runtime
 * creates it once, finds it again after a crash, mounts it at one path, and unmounts it when it stops.
 */
import { existsSync, mkdirSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { stat, statfs, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { run } from '../../../server/command.ts'
import { devicesOf, mountAt } from '../../../server/mounts.ts'
import { createXfsImage } from '../../../server/xfs.ts'
import { messageOf, RuntimeError } from '../errors.ts'
import { firstSize, type PoolState } from './size.ts'

/** XFS counts its reserve in blocks. */
const blockBytes = 4096
/** Space that XFS reserves for its own needs in a full file system. */
const ownReserveBlocks = 8192
const unmountTries = 20
const unmountRetryMs = 250

export type PoolImage = {
  file: string
  /** The mount point. */
  directory: string
}

export const poolImage = (root: string): PoolImage => ({ file: join(root, 'pool.xfs'), directory: join(root, 'pool') })

/**
 * Creates and mounts a pool. If it cannot be mounted, removes it again.
 * @throws Error that says why a pool is not possible here
 */
export async function createPool(image: PoolImage, root: string, logger: Logger): Promise<void> {
  const bytes = firstSize(await diskOf(root))
  if (bytes === undefined) throw new Error('the disk has too little space')
  try {
    // Growing and limiting the pool need these programs too. Without them the pool could not be maintained.
    for (const program of ['mkfs.xfs', 'xfs_growfs', 'xfs_io', 'losetup']) {
      await run(program, '-V').catch((cause: unknown) => {
        throw new Error(`${program} of xfsprogs or util-linux is missing: ${messageOf(cause)}`, { cause })
      })
    }
    await createXfsImage(image.file, bytes)
    await mountPool(image, logger)
  } catch (error) {
    for (const file of [image.file, `${image.file}.new`]) rmSync(file, { force: true })
    if (existsSync(image.directory)) rmdirSync(image.directory)
    throw error
  }
}

/** Mounts the image if it is not mounted. @throws RuntimeError `PoolNotMounted` */
export async function mountPool({ file, directory }: PoolImage, logger: Logger): Promise<void> {
  try {
    const mounted = await mountAt(directory)
    const devices = await devicesOf(file)
    if (mounted !== undefined && !devices.includes(mounted.device))
      throw new Error(`${mounted.device} is mounted at ${directory}`)
    if (mounted !== undefined && isWritable(directory)) return
    if (mounted !== undefined) await run('umount', directory)
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    await attach(file, directory, logger)
  } catch (error) {
    const message = `the pool ${file} cannot be mounted at ${directory}: ${messageOf(error)}`
    throw new RuntimeError('PoolNotMounted', message, { cause: error })
  }
}

/** Uses the image's existing device, if there is one, because two devices over one image would destroy it. */
async function attach(file: string, directory: string, logger: Logger): Promise<void> {
  const [device] = await devicesOf(file)
  // `discard` returns deleted blocks to the disk; a copy of a home directory has its source's UUID.
  const options = 'noatime,nouuid,discard'
  if (device === undefined) await run('mount', '-t', 'xfs', '-o', `loop,${options}`, file, directory)
  else await run('mount', '-t', 'xfs', '-o', options, device, directory)
  const [used] = await devicesOf(file)
  if (used === undefined) return
  // The pool's own file system caches pages. A second cache below it would use memory and make each sync slower.
  await run('losetup', '--direct-io=on', used).catch((error: unknown) => {
    logger.debug({ err: error }, 'the pool is cached twice: its disk does not support direct writes')
  })
}

/**
 * Whether the mounted file system still works. After a disk failure, it refuses all operations until it is mounted
 * again.
 */
function isWritable(directory: string): boolean {
  const probe = join(directory, '.probe')
  try {
    writeFileSync(probe, '')
    rmSync(probe)
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    return code === 'ENOSPC'
  }
}

/**
 * Waits until no process uses the pool. If a process still uses it, the pool stays mounted, and the next start finds
 * it.
 */
export async function unmountPool({ directory }: PoolImage, logger: Logger): Promise<void> {
  for (let tries = 1; (await mountAt(directory)) !== undefined; tries += 1) {
    try {
      await run('umount', directory)
    } catch (error) {
      if (tries < unmountTries) await delay(unmountRetryMs)
      else return logger.warn({ err: error, directory }, 'the pool stays mounted')
    }
  }
}

async function diskOf(root: string): Promise<Pick<PoolState, 'diskFreeBytes' | 'diskBytes'>> {
  const { blocks, bavail, bsize } = await statfs(root)
  return { diskFreeBytes: bavail * bsize, diskBytes: blocks * bsize }
}

/** `reservedBytes`: the last reserved size. */
export async function stateOf(image: PoolImage, root: string, reservedBytes: number): Promise<PoolState> {
  const [file, pool, disk] = await Promise.all([stat(image.file), statfs(image.directory), diskOf(root)])
  return {
    ...{ imageBytes: file.size, allocatedBytes: file.blocks * 512 },
    ...{ freeBytes: pool.bavail * pool.bsize, reservedBytes, ...disk },
  }
}

/** Gives the device and the file system the size of the image. Each step can be repeated after a crash. */
export async function growPool({ file, directory }: PoolImage, imageBytes: number): Promise<void> {
  if (statSync(file).size < imageBytes) await truncate(file, imageBytes)
  for (const device of await devicesOf(file)) await run('losetup', '--set-capacity', device)
  await run('xfs_growfs', directory)
}

/** Reserves this much space of the pool, so that no process can write to it. */
export async function reserveInPool({ directory }: PoolImage, bytes: number): Promise<void> {
  const blocks = ownReserveBlocks + Math.ceil(bytes / blockBytes)
  await run('xfs_io', '-x', '-c', `resblks ${blocks}`, directory)
}

/** The size that an earlier `reserveInPool` reserved. A pool that stayed mounted after a crash keeps its reserve. */
export async function reservedInPool({ directory }: PoolImage): Promise<number> {
  const [, blocks] = /^reserved blocks = ([0-9]+)/m.exec(await run('xfs_io', '-x', '-c', 'resblks', directory)) ?? []
  return Math.max(0, Number(blocks ?? 0) - ownReserveBlocks) * blockBytes
}
