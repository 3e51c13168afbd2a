/** XFS file systems in image files. */
import { mkdir, open, rename, rm, truncate } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from './command.ts'

/**
 * XFS, since it grows while mounted without CAP_SYS_RESOURCE, which ext4 requires. Features that kernels before 5.19
 * cannot mount are disabled (mkfs.xfs(8), nrext64). The reverse mapping is disabled too, because only repairs use it.
 * With it, a reflink of a file with many extents takes twice as long, and blocks all writes to the file meanwhile.
 */
export const xfsOptions = ['-m', 'reflink=1,rmapbt=0', '-i', 'nrext64=0'] as const

/** Creates an image with an empty file system, atomically. The file contains only written blocks. */
export async function createXfsImage(file: string, bytes: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const unfinished = `${file}.new`
  await rm(unfinished, { force: true })
  await (await open(unfinished, 'wx', 0o600)).close()
  await truncate(unfinished, bytes)
  await run('mkfs.xfs', '-q', '-f', ...xfsOptions, unfinished)
  await rename(unfinished, file)
}
