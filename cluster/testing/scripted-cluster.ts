/**
 * A cluster of one kind for tests, with scripted faults: streams that lag, break, expire or become silent, pages that
 * expire, and a server that does not answer. `truth` is its stored state; the test decides which changes a watch
 * delivers.
 */
import { ClusterError } from '../errors.ts'
import { keyOf, keyText } from '../informer/key.ts'
import type { ConfigMap } from '../kinds.ts'
import type { Cluster, ListResult, WatchEvent, WatchOptions } from '../port.ts'

type LoggedEvent = { version: number; event: WatchEvent<ConfigMap> }

type Stream = {
  /** Events up to this position were delivered. */
  position: number
  /** Events up to this position may be delivered as soon as they exist. */
  allowed: number
  fault: ClusterError | 'ended' | undefined
  /** The stream stays open but delivers nothing more, like a connection whose other end is lost. */
  isSilent: boolean
  bookmark: boolean
  wake: () => void
}

export class ScriptedCluster {
  readonly truth = new Map<string, ConfigMap>()
  version = 100
  /** Set while the server does not respond. */
  failure: ClusterError | undefined
  lists = 0
  watches = 0
  readonly streams = new Set<Stream>()
  /** Streams deliver at once, not only after `deliver`. */
  eager: boolean
  /** While this is set, the response to a list is delayed. Its contents are already fixed. */
  #blocked: PromiseWithResolvers<void> | undefined
  readonly #log: LoggedEvent[] = []
  #compacted = 0
  readonly #pages = new Map<string, { items: ConfigMap[]; version: number }>()
  readonly #pageSize: number

  constructor(options: { eager?: boolean; pageSize?: number } = {}) {
    this.eager = options.eager ?? true
    this.#pageSize = options.pageSize ?? 3
  }

  write(key: { namespace: string; name: string }, data: Record<string, string>): ConfigMap {
    const existing = this.truth.get(keyText(key))
    const version = ++this.version
    const object: ConfigMap = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        ...key,
        uid: existing?.metadata.uid ?? `uid-${version}`,
        resourceVersion: String(version),
        labels: { colour: data.colour ?? 'none' },
        managedFields: [{ manager: 'm', operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {} }],
      },
      data,
    }
    this.truth.set(keyOf(object), object)
    this.#append({ type: existing ? 'MODIFIED' : 'ADDED', object })
    return object
  }

  remove(text: string): void {
    const object = this.truth.get(text)
    if (!object) return
    this.truth.delete(text)
    const resourceVersion = String(++this.version)
    this.#append({ type: 'DELETED', object: { ...object, metadata: { ...object.metadata, resourceVersion } } })
  }

  /** Makes every open stream deliver this many more events. */
  deliver(count: number): void {
    for (const stream of this.streams) {
      const upTo = this.#log.filter(({ version }) => version > stream.position)[count - 1]?.version ?? this.version
      stream.allowed = Math.max(stream.allowed, upTo)
      stream.wake()
    }
  }

  blockLists(): void {
    this.#blocked ??= Promise.withResolvers<void>()
  }

  releaseLists(): void {
    this.#blocked?.resolve()
    this.#blocked = undefined
  }

  bookmark(): void {
    for (const stream of this.streams) {
      stream.bookmark = true
      stream.wake()
    }
  }

  breakStreams(fault: ClusterError | 'ended'): void {
    for (const stream of this.streams) {
      stream.fault = fault
      stream.wake()
    }
  }

  fallSilent(): void {
    for (const stream of this.streams) stream.isSilent = true
  }

  /** Deletes history and pages. Streams that have not read them are expired. */
  compact(): void {
    this.#compacted = this.version
    this.#pages.clear()
    for (const stream of this.streams) {
      if (stream.position >= this.version) continue
      stream.fault = new ClusterError('Expired', 'too old resource version')
      stream.wake()
    }
  }

  /** Drops its references to every delivered object. */
  forgetHistory(): void {
    this.#log.length = 0
    this.#pages.clear()
  }

  /** Simulates a restore of the server's storage: other objects, and lower versions. */
  goBackTo(version: number): void {
    this.truth.clear()
    this.#log.length = 0
    this.#pages.clear()
    this.#compacted = 0
    this.version = version
    this.breakStreams(new ClusterError('Unavailable', 'restarted'))
  }

  #append(event: WatchEvent<ConfigMap>): void {
    this.#log.push({ version: this.version, event })
    if (this.eager) this.deliver(Number.MAX_SAFE_INTEGER)
  }

  #list(pageSize: number, continueToken: string | undefined): ListResult<ConfigMap> {
    if (this.failure) throw this.failure
    this.lists++
    let page = { items: [...this.truth.values()], version: this.version }
    if (continueToken !== undefined) {
      const saved = this.#pages.get(continueToken)
      if (!saved) throw new ClusterError('Expired', 'the continue token is too old')
      page = saved
    }
    const rest = page.items.slice(pageSize)
    const result = { items: page.items.slice(0, pageSize), resourceVersion: String(page.version) }
    if (rest.length === 0) return result
    const token = `page-${this.lists}`
    this.#pages.set(token, { items: rest, version: page.version })
    return { ...result, continueToken: token }
  }

  async *#watch({ resourceVersion, signal }: WatchOptions): AsyncGenerator<WatchEvent<ConfigMap>> {
    if (this.failure) throw this.failure
    this.watches++
    const from = Number(resourceVersion)
    if (from < this.#compacted) throw new ClusterError('Expired', 'too old resource version')
    if (from > this.version) throw new ClusterError('Unavailable', 'too large resource version')
    let { promise, resolve } = Promise.withResolvers<void>()
    const wake = () => resolve()
    const stream: Stream = {
      position: from,
      allowed: this.eager ? this.version : from,
      fault: undefined,
      isSilent: false,
      bookmark: false,
      wake,
    }
    this.streams.add(stream)
    signal.addEventListener('abort', wake)
    try {
      for (;;) {
        for (const { version, event } of [...this.#log]) {
          if (version <= stream.position || version > stream.allowed || stream.fault || stream.isSilent) continue
          stream.position = version
          yield event
          if (signal.aborted) return
        }
        if ((stream.fault === 'ended' && !stream.isSilent) || signal.aborted) return
        if (stream.fault && !stream.isSilent) throw stream.fault
        if (stream.bookmark && !stream.isSilent && stream.position === (this.#log.at(-1)?.version ?? stream.position)) {
          stream.position = this.version
          yield { type: 'BOOKMARK', resourceVersion: String(this.version) }
        }
        stream.bookmark = false
        await promise
        ;({ promise, resolve } = Promise.withResolvers<void>())
      }
    } finally {
      this.streams.delete(stream)
      signal.removeEventListener('abort', wake)
    }
  }

  /** The methods of the port that an informer uses. */
  asCluster(): Cluster {
    const port = {
      list: async (_kind: string, options: { continueToken?: string; limit?: number } = {}) => {
        const answer = this.#list(
          options.limit === undefined ? Number.MAX_SAFE_INTEGER : this.#pageSize,
          options.continueToken,
        )
        await this.#blocked?.promise
        return answer
      },
      watch: (_kind: string, options: WatchOptions) => this.#watch(options),
    }
    // Only ConfigMaps are requested; the port's type parameter cannot express that.
    return port as unknown as Cluster
  }
}
