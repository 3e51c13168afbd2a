/**
 * Removes incomplete uploads and probe objects of killed programs. A program writes a probe object when it opens an S3
 * store. Keeps uploads and probe objects that are younger than a day. The limit is a day, because a running upload can
 * look old if a clock is wrong.
 */
import type { Logger } from 'pino'
import { probePrefix } from './names.ts'
import type { ObjectStore } from './store/store.ts'

const abandonedMs = 86_400_000
const everyMs = 6 * 3600_000

/** @returns the number of deleted uploads and objects @throws ArchiveError `store` */
export async function removeAbandoned(store: ObjectStore, now: number): Promise<number> {
  const before = new Date(now - abandonedMs)
  let count = await store.deleteAbandonedUploads('', before)
  for await (const { name, modifiedAt } of store.list(probePrefix)) {
    if (modifiedAt >= before) continue
    await store.delete(name)
    count++
  }
  return count
}

/**
 * Removes old uploads and probe objects now and every six hours. Never fails: after a store error, the archive retries
 * at the next interval.
 */
export function removeAbandonedRegularly(
  store: ObjectStore,
  { logger, now = Date.now }: { logger: Logger; now?: () => number },
): { stop(): void } {
  const remove = async () => {
    try {
      const count = await removeAbandoned(store, now())
      if (count > 0) logger.info({ count }, 'removed incomplete uploads and old probe objects')
    } catch (error) {
      logger.warn({ err: error }, 'could not remove incomplete uploads and old probe objects')
    }
  }
  void remove()
  const timer = setInterval(() => void remove(), everyMs)
  return { stop: () => clearInterval(timer) }
}
