/** Opens a runtime's volumes for reading while no runtime works there. */
import type { Logger } from 'pino'
import { lockDirectory } from '../store/lock.ts'
import { type Owner, openLayout, withPool } from './directories.ts'
import { openPool } from './pool/index.ts'

/**
 * @param work is given the directories that hold volumes
 * @throws StoreError `locked` where a runtime works there; RuntimeError
 */
export async function withVolumes<T>(
  { directory, runAs, logger }: { directory: string; runAs?: Owner | undefined; logger: Logger },
  work: (places: string[]) => Promise<T>,
): Promise<T> {
  const base = openLayout(directory, runAs)
  const unlock = lockDirectory(base.running)
  try {
    const pool = await openPool({ root: base.root, make: false, logger })
    try {
      const layout = pool.directory === undefined ? base : withPool(base, pool.directory)
      return await work(layout.places.map(({ volumes }) => volumes))
    } finally {
      await pool.stop()
    }
  } finally {
    unlock()
  }
}
