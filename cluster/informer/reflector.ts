/**
 * Mirrors one kind of a cluster: lists it in pages, then watches from the list's version, forever.
 *
 * - If a stream ends, it is opened again from the last version.
 * - After `Expired`, the kind is listed again.
 * - All other failures are retried with exponential, jittered delays. After a few failures in a row the kind is listed
 *   again, since a server that was restored from a backup refuses the known version without `Expired`.
 * - If a stream is silent for two minutes, it is opened again, so that a dead connection does not make the cache stale
 *   for longer.
 */
import type { Logger } from 'pino'
import { isClusterError } from '../errors.ts'
import type { KindName, Kinds } from '../kinds.ts'
import type { ListOptions, ListResult, Selection, WatchEvent, WatchOptions } from '../port.ts'
import { backoffMs, type Clock, sleep } from './clock.ts'

/**
 * Objects per page. Objects that are read but not retained become garbage. With such small pages, most of it is
 * collected while it is young.
 */
const pageSize = 100
const retry = { minimumMs: 100, maximumMs: 30_000 }
/** A stream counts as working after this time, even without an event. */
const stableMs = 5_000
/**
 * After this time (up to a third more) without an event or a bookmark, the stream is opened again. kube-apiserver sends
 * bookmarks 60 to 75 s apart.
 */
const silenceMs = 90_000
/** After this many failures in a row, the version may be the cause. */
const failuresBeforeRelist = 5

/** The methods of `Cluster` that a reflector needs. */
export type ReflectedCluster<K extends KindName> = {
  list(kind: K, options?: ListOptions): Promise<ListResult<Kinds[K]>>
  watch(kind: K, options: WatchOptions): AsyncIterable<WatchEvent<Kinds[K]>>
}

/** A reflector reports to these functions. They are synchronous and must not throw. */
export type ReflectorSink<T> = {
  replaceAll: (items: T[], resourceVersion: string) => void
  observe: (event: WatchEvent<T>) => void
  /** Called at every list, event and bookmark. */
  received: () => void
  /** Called when a stream works (again). */
  recovered: () => void
  failed: (error: unknown) => void
}

export type Reflector = { stop: () => Promise<void> }

const identity = <T>(object: T): T => object

type ReflectorOptions<K extends KindName> = {
  cluster: ReflectedCluster<K>
  kind: K
  selection: Selection
  sink: ReflectorSink<Kinds[K]>
  /**
   * Returns the part of a listed object to retain. Each page is released once it has been read. Default: the complete
   * object.
   */
  keep?: ((object: Kinds[K]) => Kinds[K]) | undefined
  clock: Clock
  random?: () => number
  logger: Logger
}

export function startReflector<K extends KindName>(options: ReflectorOptions<K>): Reflector {
  const following = new Following(options)
  return { stop: () => following.stop() }
}

class Following<K extends KindName> {
  readonly #options: ReflectorOptions<K>
  readonly #random: () => number
  readonly #keep: (object: Kinds[K]) => Kinds[K]
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>
  /** The version to watch from. If undefined, the kind must be listed first. */
  #version: string | undefined
  /** Failures since a stream last worked. */
  #failures = 0

  constructor(options: ReflectorOptions<K>) {
    this.#options = options
    this.#random = options.random ?? Math.random
    this.#keep = options.keep ?? identity
    this.#running = this.#run()
  }

  stop(): Promise<void> {
    this.#stopping.abort()
    return this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        this.#version ??= await this.#relist()
        if (signal.aborted) return
        if (await this.#watchOnce(this.#version)) continue
        this.#failures++
      } catch (error) {
        if (signal.aborted) return
        this.#fail(error)
      }
      const { clock } = this.#options
      if (this.#failures > 0) await sleep(clock, backoffMs(this.#failures, retry, this.#random), signal)
    }
  }

  #fail(error: unknown): void {
    const { kind, sink, logger } = this.#options
    const failures = ++this.#failures
    const expired = isClusterError(error, 'Expired')
    if (expired || failures >= failuresBeforeRelist) this.#version = undefined
    if (expired) logger.info({ kind }, 'watch expired, listing again')
    else {
      sink.failed(error)
      logger.warn({ kind, failures, err: error }, 'cannot list or watch the cluster, retrying')
    }
  }

  #works(): void {
    this.#failures = 0
    this.#options.sink.recovered()
  }

  /** A separate function, so that its frame does not keep the list in memory while `#run` waits for events. */
  async #relist(): Promise<string> {
    const { items, resourceVersion } = await this.#listAll()
    const { sink } = this.#options
    if (!this.#stopping.signal.aborted) {
      sink.received()
      sink.replaceAll(items, resourceVersion)
    }
    return resourceVersion
  }

  /**
   * Reads all pages of one consistent list. Each page is requested while the previous page is processed. If the pages
   * expire meanwhile, requests the list without pages.
   */
  async #listAll(): Promise<ListResult<Kinds[K]>> {
    const items: Kinds[K][] = []
    let next = this.#pageFrom(undefined)
    let continueToken: string | undefined
    try {
      for (;;) {
        const page = await next
        continueToken = page.continueToken
        const isLast = !continueToken || this.#stopping.signal.aborted
        if (!isLast) {
          next = this.#pageFrom(continueToken)
          // The request may fail before it is awaited. The await still receives the error.
          next.catch(() => {})
        }
        for (const object of page.items) items.push(this.#keep(object))
        if (isLast) return { items, resourceVersion: page.resourceVersion }
      }
    } catch (error) {
      if (!continueToken || !isClusterError(error, 'Expired')) throw error
      const { cluster, kind, selection } = this.#options
      const all = await cluster.list(kind, selection)
      return { ...all, items: all.items.map(this.#keep) }
    }
  }

  #pageFrom(continueToken: string | undefined): Promise<ListResult<Kinds[K]>> {
    const { cluster, kind, selection } = this.#options
    return cluster.list(kind, { ...selection, limit: pageSize, continueToken })
  }

  /** Reads one stream to its end; every event advances the version. Returns whether the stream lasted long enough. */
  async #watchOnce(from: string): Promise<boolean> {
    const { cluster, kind, selection, sink, clock } = this.#options
    const { signal } = this.#stopping
    const stream = new AbortController()
    const abort = () => stream.abort()
    signal.addEventListener('abort', abort, { once: true })
    const openedAt = clock.now()
    let receivedAt = openedAt
    const allowedSilence = silenceMs * (1 + this.#random() / 3)
    const checkSilence = () => {
      const remainingMs = receivedAt + allowedSilence - clock.now()
      if (remainingMs <= 0) stream.abort()
      else cancelSilence = clock.after(remainingMs, checkSilence)
    }
    let cancelSilence = clock.after(allowedSilence, checkSilence)
    const cancelStable = clock.after(stableMs, () => this.#works())
    try {
      const events = cluster.watch(kind, { ...selection, resourceVersion: from, signal: stream.signal })
      for await (const event of events) {
        if (signal.aborted) break
        this.#version = versionOf(event) ?? this.#version
        receivedAt = clock.now()
        if (this.#failures > 0) this.#works()
        sink.received()
        sink.observe(event)
      }
      return clock.now() - openedAt >= stableMs
    } finally {
      cancelSilence()
      cancelStable()
      signal.removeEventListener('abort', abort)
    }
  }
}

const versionOf = (event: WatchEvent<Kinds[KindName]>): string | undefined =>
  event.type === 'BOOKMARK' ? event.resourceVersion : event.object.metadata.resourceVersion
