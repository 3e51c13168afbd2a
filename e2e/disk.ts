/** A small disk for a test, which only root can mount, and functions that fill it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { mkdir, open, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export const canMount = process.getuid?.() === 0
/** Whether an installation can create its own pool for copies. */
export const canMakePool = canMount && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0

/** Unmounts the pool that a killed installation left mounted. Otherwise its home directory cannot be deleted. */
export const unmountPool = (home: string): void => void spawnSync('umount', ['--lazy', join(home, 'runtime', 'pool')])

/**
 * @returns a function that must be called before the installation is stopped, because directories under a mount cannot
 * be removed
 */
export function mountDisk(megabytes: number, directory: string): () => void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory])
  return () => execFileSync('umount', ['-l', directory])
}

/**
 * Mounts an ext4 image without blocks reserved for root. Unlike a tmpfs, it is a real file system on a block device.
 * @returns a function that unmounts it and deletes the image
 */
export function mountImage(megabytes: number, directory: string): () => void {
  const image = `${directory}.image`
  execFileSync('truncate', ['-s', `${megabytes}M`, image])
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image])
  execFileSync('mount', ['-o', 'loop', image, directory])
  return () => {
    execFileSync('umount', ['-l', directory])
    rmSync(image)
  }
}

/** Writes files that use all free space except this many bytes. @returns a function that deletes them */
export async function fillDisk(directory: string, freeBytes = 0): Promise<() => Promise<void>> {
  const ballast = join(directory, 'ballast')
  const isFull = async () => {
    const { bavail, bsize } = await statfs(directory)
    return bavail * bsize <= freeBytes
  }
  await mkdir(ballast)
  // Written instead of allocated, because other processes that write meanwhile change the free space.
  await writeUntilRefused(join(ballast, 'large'), freeBytes === 0 ? async () => false : isFull)
  // Small files can use blocks that the file system reserved for a large file's metadata.
  for (let index = 0; freeBytes === 0 && (await canWrite(join(ballast, `small-${index}`))); index++);
  return () => rm(ballast, { recursive: true, force: true })
}

async function writeUntilRefused(path: string, isEnough: () => Promise<boolean>): Promise<void> {
  const zeros = Buffer.alloc(65_536)
  const file = await open(path, 'w')
  try {
    while (!(await isEnough())) await file.write(zeros)
    await file.sync()
  } catch (error) {
    requireFull(error)
  } finally {
    await file.close()
  }
}

async function canWrite(path: string): Promise<boolean> {
  try {
    await writeFile(path, 'x', { flush: true })
    return true
  } catch (error) {
    requireFull(error)
    return false
  }
}

/** @throws any error except that of a full disk */
function requireFull(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
}
