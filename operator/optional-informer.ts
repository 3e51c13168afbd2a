/**
 * An informer of a kind that a cluster need not have. Nothing waits for it. If the cluster does not serve the kind, the
 * informer logs that, and checks again at an interval. When the cluster serves the kind, it is cached like any other.
 */
import type { Logger } from 'pino'
import { type Cluster, type KindName, KindNotServedError, type Kinds, type ObjectKey } from '../cluster/index.ts'
import { backoffMs, type Clock, type Informer, sleep, systemClock } from '../cluster/informer/index.ts'

/** `unknown`: the cluster has not answered yet, or its first list is in progress. */
export type Served = 'served' | 'absent' | 'unknown'

type OptionalInformer<K extends KindName> = {
  readonly served: Served
  /** The time since which the state is unknown, in ms since the epoch. */
  readonly queriedAt: number
  get(key: ObjectKey): Kinds[K] | undefined
  byIndex(index: string, value: string): Kinds[K][]
  onChange: Informer<K>['onChange']
  /** Calls back when the state becomes known, or changes. */
  onServed(handler: () => void): () => void
  start(): void
  stop(): Promise<void>
}

/** The interval of the checks whether the kind is served. */
const absentMs = 60_000
const retry = { minimumMs: 500, maximumMs: 30_000 }

export function createOptionalInformer<K extends KindName>(
  cluster: Pick<Cluster, 'list'>,
  kind: K,
  informer: Informer<K>,
  { logger, clock = systemClock }: { logger: Logger; clock?: Clock },
): OptionalInformer<K> {
  const handlers = new Set<() => void>()
  const stopping = new AbortController()
  let served: Served = 'unknown'
  let failures = 0
  let running: Promise<void> | undefined

  const become = (next: Served) => {
    if (served === next) return
    served = next
    if (next === 'absent')
      logger.info({ kind }, 'the cluster does not serve this kind: requests that need it are refused')
    for (const handler of handlers) handler()
  }

  /** @returns how long to wait before the next attempt; undefined if the kind is served */
  const check = async (): Promise<number | undefined> => {
    try {
      await cluster.list(kind, { limit: 1 })
      return undefined
    } catch (error) {
      if (error instanceof KindNotServedError) {
        become('absent')
        return absentMs
      }
      logger.warn({ kind, err: error }, 'cannot find out whether the cluster serves this kind; retrying')
      return backoffMs(++failures, retry)
    }
  }

  const run = async () => {
    for (;;) {
      const waitMs = await check()
      if (stopping.signal.aborted) return
      if (waitMs === undefined) break
      await sleep(clock, waitMs, stopping.signal)
      if (stopping.signal.aborted) return
    }
    await informer.start()
    become('served')
  }

  return {
    get served() {
      return served
    },
    queriedAt: clock.now(),
    get: informer.get,
    byIndex: informer.byIndex,
    onChange: informer.onChange,
    onServed: handler => {
      handlers.add(handler)
      return () => void handlers.delete(handler)
    },
    start: () => {
      // Stopped before its first list, so there is nothing to watch.
      running ??= run().catch(() => {})
    },
    stop: async () => {
      stopping.abort()
      await informer.stop()
      await running
    },
  }
}
