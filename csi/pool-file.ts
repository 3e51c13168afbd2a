/**
 * A pool for a node whose file systems have no reflinks: an XFS file system in one file, mounted at the pool's path. It
 * is created once, and later starts find it. Its size is fixed.
 */
import { mkdir, stat } from 'node:fs/promises'
import { run } from '../server/command.ts'
import { mountAt } from '../server/mounts.ts'
import { createXfsImage } from '../server/xfs.ts'

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Creates the file if it is missing, and mounts it if it is not mounted. `bytes` is the size of a new file. */
export async function mountPoolFile(file: string, bytes: number, pool: string): Promise<void> {
  await mkdir(pool, { recursive: true, mode: 0o700 })
  if ((await mountAt(pool)) !== undefined) return
  if (!(await exists(file))) await createXfsImage(file, bytes)
  await run('mount', '-t', 'xfs', '-o', 'loop,noatime,discard', file, pool)
}
