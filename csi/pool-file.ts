/**
 * A pool for a node whose file systems have no reflinks: an XFS file system in one file, mounted where the pool is. It is
 * made once and found again; its size is set once.
 */
import { mkdir, open, rename, rm, stat, truncate } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from './command.ts'
import { mountAt } from './mounts.ts'
import { fileSystem } from './pool.ts'

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Makes the file, unless it is there, and mounts it, unless it is mounted. `bytes`: the size of a new one. */
export async function mountPoolFile(file: string, bytes: number, pool: string): Promise<void> {
  await mkdir(pool, { recursive: true, mode: 0o700 })
  if ((await mountAt(pool)) !== undefined) return
  if (!(await exists(file))) {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    const unfinished = `${file}.new`
    await rm(unfinished, { force: true })
    await (await open(unfinished, 'wx', 0o600)).close()
    await truncate(unfinished, bytes)
    await run('mkfs.xfs', '-q', '-f', ...fileSystem, unfinished)
    await rename(unfinished, file)
  }
  await run('mount', '-t', 'xfs', '-o', 'loop,noatime,discard', file, pool)
}
