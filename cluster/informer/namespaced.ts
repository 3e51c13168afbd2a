/**
 * A cache of one kind in a changing set of namespaces, for a client that may read the kind only there. It has one
 * informer for each namespace.
 */
import type { Logger } from 'pino'
import type { KindName, Kinds } from '../kinds.ts'
import type { Cluster, ObjectKey } from '../port.ts'
import { createInformer, type Informer, type InformerOptions, type InformerState } from './informer.ts'
import type { Handler } from './notifier.ts'

export type NamespacedInformer<K extends KindName> = {
  readonly state: InformerState
  /** Whether the first list of this namespace has been read. Before that, an object that seems absent may exist. */
  isSynced(namespace: string): boolean
  get(key: ObjectKey): Kinds[K] | undefined
  /** The objects of one namespace; none if the namespace is not watched. */
  within(namespace: string): Pick<Informer<K>, 'byIndex'>
  /** Every change in every watched namespace, now and later. */
  onChange(handler: Handler<Kinds[K]>): () => void
  writeThrough(object: Kinds[K]): void
  subscribe(namespace: string): void
  /** Removes the namespace's objects from the cache, without calling handlers. */
  unsubscribe(namespace: string): void
  stop(): Promise<void>
}

const nowhere = { byIndex: () => [] }

export function createNamespacedInformer<K extends KindName>(
  cluster: Cluster,
  kind: K,
  options: Omit<InformerOptions<K>, 'namespace'> & { logger: Logger },
): NamespacedInformer<K> {
  const informers = new Map<string, Informer<K>>()
  const handlers = new Set<Handler<Kinds[K]>>()
  const stopping = new Set<Promise<void>>()
  let isStopped = false

  const call = (handler: Handler<Kinds[K]>, change: Parameters<typeof handler>[0]) => {
    try {
      handler(change)
    } catch (error) {
      options.logger.error({ kind, err: error }, 'a handler failed')
    }
  }

  const stopOne = (namespace: string, informer: Informer<K>) => {
    informers.delete(namespace)
    const stopped = informer.stop().finally(() => stopping.delete(stopped))
    stopping.add(stopped)
  }

  return {
    get state() {
      return sumOf(
        kind,
        [...informers.values()].map(({ state }) => state),
      )
    },
    isSynced: namespace => informers.get(namespace)?.synced === true,
    get: key => informers.get(key.namespace ?? '')?.get(key),
    within: namespace => informers.get(namespace) ?? nowhere,
    onChange(handler) {
      for (const informer of informers.values())
        for (const object of informer.list()) call(handler, { type: 'set', object })
      handlers.add(handler)
      return () => handlers.delete(handler)
    },
    writeThrough: object => informers.get(object.metadata.namespace ?? '')?.writeThrough(object),
    subscribe(namespace) {
      if (isStopped || informers.has(namespace)) return
      const informer = createInformer(cluster, kind, { ...options, namespace })
      informers.set(namespace, informer)
      informer.onChange(change => {
        for (const handler of [...handlers]) call(handler, change)
      })
      // Rejects only if the informer is stopped before its first list.
      informer.start().catch(() => {})
    },
    unsubscribe(namespace) {
      const informer = informers.get(namespace)
      if (informer !== undefined) stopOne(namespace, informer)
    },
    async stop() {
      isStopped = true
      for (const [namespace, informer] of [...informers]) stopOne(namespace, informer)
      await Promise.all(stopping)
    },
  }
}

const earliest = (times: readonly (number | undefined)[]): number | undefined => {
  const known = times.filter(time => time !== undefined)
  return known.length === 0 ? undefined : known.reduce((one, other) => Math.min(one, other))
}

/** One state for all informers. Each field is that of the worst informer. */
function sumOf(kind: KindName, states: readonly InformerState[]): InformerState {
  const sum = (of: (state: InformerState) => number) => states.reduce((total, state) => total + of(state), 0)
  return {
    kind,
    synced: states.every(({ synced }) => synced),
    objects: sum(({ objects }) => objects),
    lastSync: earliest(states.map(({ lastSync }) => lastSync)),
    failingSince: earliest(states.map(({ failingSince }) => failingSince)),
    lists: sum(({ lists }) => lists),
    events: sum(({ events }) => events),
    failures: sum(({ failures }) => failures),
    handlerErrors: sum(({ handlerErrors }) => handlerErrors),
  }
}
