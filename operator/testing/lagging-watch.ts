/**
 * A cluster whose watches lag behind its store, while reads and writes use the current store. So decisions from caches
 * use an older state.
 */
import { type Cluster, ClusterError, type KindName, type WatchEvent, type WatchOptions } from '../../cluster/index.ts'

type LaggingWatch = {
  cluster(inner: Cluster): Cluster
  /**
   * Watches of these kinds deliver an event only after `behind` later events. Infinity: they deliver none until
   * `catchUp`.
   */
  lag(lags: (kind: KindName) => boolean, behind?: number): void
  /**
   * Ends the lag. `events`: delivers all delayed events, one by one. `relist`: the watch has expired. Objects that were
   * created and deleted meanwhile are never seen.
   */
  catchUp(how: 'events' | 'relist'): void
}

type Stream = { kind: KindName; isExpired: boolean; wake: () => void }

export function createLaggingWatch(): LaggingWatch {
  const streams = new Set<Stream>()
  let lagging: { includes: (kind: KindName) => boolean; behind: number } | undefined
  const allowedOf = (kind: KindName) => (lagging?.includes(kind) ? lagging.behind : 0)

  async function* follow<T>(kind: KindName, source: AsyncIterable<WatchEvent<T>>, signal: AbortSignal) {
    const pending: WatchEvent<T>[] = []
    let woken = Promise.withResolvers<void>()
    const stream: Stream = { kind, isExpired: false, wake: () => woken.resolve() }
    let end: { error?: unknown } | undefined
    const read = async () => {
      for await (const event of source) {
        pending.push(event)
        stream.wake()
      }
    }
    read()
      .then(
        () => (end = {}),
        error => (end = { error }),
      )
      .finally(stream.wake)
    streams.add(stream)
    try {
      while (!signal.aborted) {
        if (stream.isExpired) throw new ClusterError('Expired', 'the watch has expired')
        const next = pending.length > allowedOf(kind) ? pending.shift() : undefined
        if (next !== undefined) yield next
        else if (end !== undefined && allowedOf(kind) === 0) break
        else {
          await woken.promise
          woken = Promise.withResolvers()
        }
      }
      if (end?.error !== undefined) throw end.error
    } finally {
      streams.delete(stream)
    }
  }

  const wakeAll = () => {
    for (const { wake } of streams) wake()
  }

  return {
    cluster: inner => ({
      ...inner,
      watch: <K extends KindName>(kind: K, options: WatchOptions) =>
        follow(kind, inner.watch(kind, options), options.signal),
    }),
    lag: (includes, behind = Number.POSITIVE_INFINITY) => {
      lagging = { includes, behind }
    },
    catchUp: how => {
      for (const stream of streams) if (how === 'relist' && lagging?.includes(stream.kind)) stream.isExpired = true
      lagging = undefined
      wakeAll()
    },
  }
}
