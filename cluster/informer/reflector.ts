/**
 * Follows one kind of a cluster: lists it in pages, watches from the list's version, and goes on for ever. A stream that
 * ends is opened again from the last version seen; `Expired` lists anew; any other failure is retried with growing,
 * jittered delays, and after a few in a row it lists anew as well, since a server restored from a backup refuses our
 * version for ever without saying `Expired`. A stream that is silent for long is opened anew, so that a connection which
 * died without a word cannot make the cache old for ever.
 */
import type { Logger } from 'pino'
import { isClusterError } from '../errors.ts'
import type { KindName, Kinds } from '../kinds.ts'
import type { ListOptions, ListResult, Selection, WatchEvent, WatchOptions } from '../port.ts'
import { backoffMs, type Clock, sleep } from './clock.ts'

/** What is read of a page and not kept is garbage: of so many objects, most of it has gone before it would count as old. */
const pageSize = 100
const retry = { minimumMs: 100, maximumMs: 30_000 }
/** A stream this old works, even where nothing happened on it yet. */
const settledMs = 5_000
/** After this long (and up to twice as long) without an event or a bookmark, the stream is opened anew. */
const silenceMs = 5 * 60_000
/** So many failures in a row, and the version itself is suspected. */
const failuresBeforeRelist = 5

/** What a reflector needs of a `Cluster`. */
export type ReflectedCluster<K extends KindName> = {
  list(kind: K, options?: ListOptions): Promise<ListResult<Kinds[K]>>
  watch(kind: K, options: WatchOptions): AsyncIterable<WatchEvent<Kinds[K]>>
}

/** What a reflector tells; every call is synchronous and must not throw. */
type ReflectorSink<T> = {
  replaceAll: (items: T[], resourceVersion: string) => void
  observe: (event: WatchEvent<T>) => void
  /** The server was heard: a list, an event, a bookmark. */
  heard: () => void
  /** A stream works (again). */
  recovered: () => void
  failed: (error: unknown) => void
}

export type Reflector = { stop: () => Promise<void> }

const whole = <T>(object: T): T => object

export function startReflector<K extends KindName>(options: {
  cluster: ReflectedCluster<K>
  kind: K
  selection: Selection
  sink: ReflectorSink<Kinds[K]>
  /** What is kept of a listed object: each page is let go of as soon as it is taken in. Default: all of it. */
  keep?: ((object: Kinds[K]) => Kinds[K]) | undefined
  clock: Clock
  random?: () => number
  logger: Logger
}): Reflector {
  const { cluster, kind, selection, sink, clock, logger, random = Math.random, keep = whole } = options
  const stopping = new AbortController()
  /** The version to watch from; none: list first. */
  let version: string | undefined
  /** Failures since a stream last worked. */
  let failures = 0

  const works = () => {
    failures = 0
    sink.recovered()
  }

  const pageFrom = (continueToken: string | undefined) =>
    cluster.list(kind, { ...selection, limit: pageSize, continueToken })

  /**
   * All pages of one consistent list, each asked for while the one before it is taken in. Where the pages expire underway, one
   * list without pages is asked for.
   */
  const listAll = async (): Promise<ListResult<Kinds[K]>> => {
    const items: Kinds[K][] = []
    let next = pageFrom(undefined)
    let continueToken: string | undefined
    try {
      for (;;) {
        const page = await next
        continueToken = page.continueToken
        const isLast = !continueToken || stopping.signal.aborted
        if (!isLast) {
          next = pageFrom(continueToken)
          // It may fail before it is awaited, and is awaited all the same.
          next.catch(() => {})
        }
        for (const object of page.items) items.push(keep(object))
        if (isLast) return { items, resourceVersion: page.resourceVersion }
      }
    } catch (error) {
      if (!continueToken || !isClusterError(error, 'Expired')) throw error
      const all = await cluster.list(kind, selection)
      return { ...all, items: all.items.map(keep) }
    }
  }

  /** A function of its own, so that the list is not kept by the frame that goes on to wait for events. */
  const relist = async (): Promise<string> => {
    const { items, resourceVersion } = await listAll()
    if (!stopping.signal.aborted) {
      sink.heard()
      sink.replaceAll(items, resourceVersion)
    }
    return resourceVersion
  }

  /** Reads one stream to its end; `version` moves with every event. Resolves to whether it lived long enough. */
  const watchOnce = async (from: string): Promise<boolean> => {
    const stream = new AbortController()
    const abort = () => stream.abort()
    stopping.signal.addEventListener('abort', abort, { once: true })
    const openedAt = clock.now()
    let heardAt = openedAt
    const allowedSilence = silenceMs * (1 + random())
    const checkSilence = () => {
      const left = heardAt + allowedSilence - clock.now()
      if (left <= 0) stream.abort()
      else cancelSilence = clock.after(left, checkSilence)
    }
    let cancelSilence = clock.after(allowedSilence, checkSilence)
    const cancelSettled = clock.after(settledMs, works)
    try {
      for await (const event of cluster.watch(kind, {
        ...selection,
        resourceVersion: from,
        signal: stream.signal,
      })) {
        if (stopping.signal.aborted) break
        version = event.type === 'BOOKMARK' ? event.resourceVersion : (event.object.metadata.resourceVersion ?? version)
        heardAt = clock.now()
        if (failures > 0) works()
        sink.heard()
        sink.observe(event)
      }
      return clock.now() - openedAt >= settledMs
    } finally {
      cancelSilence()
      cancelSettled()
      stopping.signal.removeEventListener('abort', abort)
    }
  }

  const run = async () => {
    while (!stopping.signal.aborted) {
      try {
        version ??= await relist()
        if (stopping.signal.aborted) return
        if (await watchOnce(version)) continue
        failures++
      } catch (error) {
        if (stopping.signal.aborted) return
        failures++
        const expired = isClusterError(error, 'Expired')
        if (expired || failures >= failuresBeforeRelist) version = undefined
        if (expired) logger.info({ kind }, 'watch expired, listing again')
        else {
          sink.failed(error)
          logger.warn({ kind, failures, err: error }, 'cannot follow the cluster, trying again')
        }
      }
      if (failures > 0) await sleep(clock, backoffMs(failures, retry, random), stopping.signal)
    }
  }

  const running = run()
  return {
    stop: () => {
      stopping.abort()
      return running
    },
  }
}
