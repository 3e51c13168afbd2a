/** A small disk for a test, which only root can mount, and what fills it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { mkdir, open, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export const canMount = process.getuid?.() === 0
/** Whether an installation can make a pool of its own for copies. */
export const canMakePool = canMount && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0

/** Unmounts the pool that a killed installation left mounted, if any: its home cannot be deleted under a mount. */
export const unmountPool = (home: string): void => void spawnSync('umount', ['--lazy', join(home, 'runtime', 'pool')])

/** @returns what is called before the installation is ended, whose directories cannot be removed under a mount */
export function mountDisk(megabytes: number, directory: string): () => void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory])
  return () => execFileSync('umount', ['-l', directory])
}

/**
 * Mounts an ext4 image of its own, without blocks kept back for root: unlike a tmpfs it is a real file system on a block device.
 * @returns what unmounts it and deletes the image
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

/** Writes files that take all free space but for so many bytes. @returns what deletes them */
export async function fillDisk(directory: string, leave = 0): Promise<() => Promise<void>> {
  const ballast = join(directory, 'ballast')
  const isFull = async () => {
    const { bavail, bsize } = await statfs(directory)
    return bavail * bsize <= leave
  }
  await mkdir(ballast)
  // Written and not allocated: other processes that write here meanwhile change how much is free.
  await writeUntilRefused(join(ballast, 'large'), leave === 0 ? async () => false : isFull)
  // Blocks that the file system kept for the metadata of a large file are free for small ones.
  for (let index = 0; leave === 0 && (await canWrite(join(ballast, `small-${index}`))); index++);
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

/** @throws any error but the one of a full disk */
function requireFull(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
}
