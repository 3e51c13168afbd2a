/**
 * Looks after the resources that clients subscribe to: by their fingerprints, now and then, as long as somebody wants to know. Who
 * subscribes to the same resource of the same database shares the looks.
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

/** A look takes so long at most: a database that does not answer is not asked twice at once. */
const lookMs = 30_000
/** Beyond these a subscription is taken, and told of nothing. */
const mostWatched = 1_000

/** @returns what follows a resource for a caller, until what that returns is called */
export function createWatch(options: WatchOptions): (uri: string, caller: Caller) => () => void {
  const { fingerprint, entries, announce, logger, intervalMs = 10_000 } = options
  const watched = new Map<string, Watched>()

  async function look(uri: string, database: DatabaseSettings, end: AbortSignal): Promise<string | undefined> {
    try {
      return await fingerprint(uri, database, AbortSignal.any([end, AbortSignal.timeout(lookMs)]))
    } catch (error) {
      // Nothing is known of it now; the next look compares with what was known before.
      logger.debug({ err: error, uri, database: database.name }, 'a resource could not be looked after')
      return undefined
    }
  }

  function start(uri: string, database: DatabaseSettings, { signal }: AbortController): void {
    let known: string | undefined
    let timer: NodeJS.Timeout | undefined
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
    const turn = async () => {
      const now = await look(uri, database, signal)
      if (signal.aborted) return
      if (known !== undefined && now !== undefined && now !== known) announce(uri)
      known = now ?? known
      timer = setTimeout(() => void turn(), intervalMs).unref()
    }
    void turn()
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
