/**
 * Removes leftovers of killed writers: incomplete uploads, and probe objects. A program writes probe objects when it
 * opens a store. Only leftovers older than a day are removed: a clock that is wrong by hours must not end a running
 * upload.
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

/** Removes leftovers now and every six hours. Never fails: after a store error it tries again after six hours. */
export function removeAbandonedRegularly(
  store: ObjectStore,
  { logger, now = Date.now }: { logger: Logger; now?: () => number },
): { stop(): void } {
  const remove = async () => {
    try {
      const count = await removeAbandoned(store, now())
      if (count > 0) logger.info({ count }, 'removed leftovers of interrupted uploads')
    } catch (error) {
      logger.warn({ err: error }, 'could not remove leftovers of interrupted uploads')
    }
  }
  void remove()
  const timer = setInterval(() => void remove(), everyMs)
  return { stop: () => clearInterval(timer) }
}
