/** XFS file systems in image files. */
import { mkdir, open, rename, rm, truncate } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from './command.ts'

/**
 * XFS, since it grows while it is mounted without CAP_SYS_RESOURCE, which ext4 asks for. Without what kernels before 5.19
 * cannot mount (mkfs.xfs(8), nrext64); and without the map from blocks to their owners, which repairs alone use: with it a reflink of
 * a file in many extents takes twice as long, and all that is written to the file waits for it.
 */
export const xfsOptions = ['-m', 'reflink=1,rmapbt=0', '-i', 'nrext64=0'] as const

/** Creates an image with an empty file system: whole, or not at all. The file holds only what was written. */
export async function createXfsImage(file: string, bytes: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const unfinished = `${file}.new`
  await rm(unfinished, { force: true })
  await (await open(unfinished, 'wx', 0o600)).close()
  await truncate(unfinished, bytes)
  await run('mkfs.xfs', '-q', '-f', ...xfsOptions, unfinished)
  await rename(unfinished, file)
}
