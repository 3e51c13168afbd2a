/** Opens a runtime's volumes for reading while the runtime is stopped. */
import type { Logger } from 'pino'
import { lockDirectory } from '../store/lock.ts'
import { type Owner, openLayout, withPool } from './directories.ts'
import { openPool } from './pool/index.ts'

/**
 * @param work receives the directories that contain volumes
 * @throws StoreError `locked` if a runtime uses them; RuntimeError
 */
export async function withVolumes<T>(
  { directory, runAs, logger }: { directory: string; runAs?: Owner | undefined; logger: Logger },
  work: (locations: string[]) => Promise<T>,
): Promise<T> {
  const base = openLayout(directory, runAs)
  const unlock = lockDirectory(base.running)
  try {
    const pool = await openPool({ root: base.root, make: false, logger })
    try {
      const layout = pool.directory === undefined ? base : withPool(base, pool.directory)
      return await work(layout.locations.map(({ volumes }) => volumes))
    } finally {
      await pool.stop()
    }
  } finally {
    unlock()
  }
}
