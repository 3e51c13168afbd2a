/**
 * Follows a kind that a cluster need not have. Nothing waits for it: where the kind is not served, that is said, and
 * asked again from time to time; once it is served, it is followed as any other.
 */
// @ts-nocheck

import type { Logger } from 'pino'
import { type Cluster, type KindName, KindNotServedError, type Kinds, type ObjectKey } from '../cluster/index.ts'
import { backoffMs, type Clock, type Informer, sleep, systemClock } from '../cluster/informer/index.ts'

/** `unknown`: the cluster has not answered yet, or its first list is on its way. */
export type Served = 'served' | 'absent' | 'unknown'

type OptionalInformer<K extends KindName> = {
  readonly served: Served
  get(key: ObjectKey): Kinds[K] | undefined
  byIndex(index: string, value: string): Kinds[K][]
  onChange: Informer<K>['onChange']
  /** Whether it is served has become known, or changed. */
  onServed(handler: () => void): () => void
  start(): void
  stop(): Promise<void>
}

/** How soon it is looked again whether the kind is there. */
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
    if (next === 'absent') logger.info({ kind }, 'the cluster does not serve this kind: what needs it is refused')
    for (const handler of handlers) handler()
  }

  /** @returns how long to wait before the next try; undefined: the kind is there */
  const look = async (): Promise<number | undefined> => {
    try {
      await cluster.list(kind, { limit: 1 })
      return undefined
    } catch (error) {
      if (error instanceof KindNotServedError) {
        become('absent')
        return absentMs
      }
      logger.warn({ kind, err: error }, 'cannot find out whether the cluster serves this kind, trying again')
      return backoffMs(++failures, retry)
    }
  }

  const run = async () => {
    for (;;) {
      const waitMs = await look()
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
    get: informer.get,
    byIndex: informer.byIndex,
    onChange: informer.onChange,
    onServed: handler => {
      handlers.add(handler)
      return () => void handlers.delete(handler)
    },
    start: () => {
      // Stopped before its first list: there is nothing to follow any more.
      running ??= run().catch(() => {})
    },
    stop: async () => {
      stopping.abort()
      await informer.stop()
      await running
    },
  }
}
