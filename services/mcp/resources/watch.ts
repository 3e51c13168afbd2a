/**
 * Watches the resources that clients subscribe to. Compares fingerprints at an interval while a resource has
 * subscribers. Subscribers of the same resource of the same database share the checks.
 */
import type { Logger } from 'pino'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { Caller } from '../core/caller.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import type { Fingerprint } from './fingerprint.ts'

type WatchOptions = {
  readonly fingerprint: Fingerprint
  readonly entries: DatabaseEntries
  readonly announce: (uri: string) => void
  readonly logger: Pick<Logger, 'debug'>
  readonly intervalMs?: number
}

type Watched = { followers: number; readonly end: AbortController }

/** The timeout of a check. The next check starts only after the previous check ends. */
const checkIntervalMs = 30_000
/** Beyond this number, a subscription succeeds but sends no notifications. */
const mostWatched = 1_000

/** Returns a function that subscribes a caller to a resource. That function returns a function that unsubscribes. */
export function createWatch(options: WatchOptions): (uri: string, caller: Caller) => () => void {
  const { fingerprint, entries, announce, logger, intervalMs = 10_000 } = options
  const watched = new Map<string, Watched>()

  async function check(uri: string, database: DatabaseSettings, end: AbortSignal): Promise<string | undefined> {
    try {
      return await fingerprint(uri, database, AbortSignal.any([end, AbortSignal.timeout(checkIntervalMs)]))
    } catch (error) {
      // After a failed check, the next check compares with the last known fingerprint.
      logger.debug({ err: error, uri, database: database.name }, 'a watched resource could not be checked')
      return undefined
    }
  }

  function start(uri: string, database: DatabaseSettings, { signal }: AbortController): void {
    let known: string | undefined
    let timer: NodeJS.Timeout | undefined
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
    const checkAll = async () => {
      const now = await check(uri, database, signal)
      if (signal.aborted) return
      if (known !== undefined && now !== undefined && now !== known) announce(uri)
      known = now ?? known
      timer = setTimeout(() => void checkAll(), intervalMs).unref()
    }
    void checkAll()
  }

  return (uri, caller) => {
    const database = entries.current(caller)
    if (database === undefined) return () => {}
    const key = `${database.name} ${uri}`
    let found = watched.get(key)
    if (found === undefined) {
      if (watched.size >= mostWatched) return () => {}
      found = { followers: 0, end: new AbortController() }
      watched.set(key, found)
      start(uri, database, found.end)
    }
    found.followers += 1
    const { end } = found
    let isOver = false
    return () => {
      const current = watched.get(key)
      if (isOver || current?.end !== end) return
      isOver = true
      current.followers -= 1
      if (current.followers > 0) return
      watched.delete(key)
      end.abort()
    }
  }
}
