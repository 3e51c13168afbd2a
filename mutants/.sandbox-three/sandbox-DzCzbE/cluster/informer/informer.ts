/**
 * A cache of one kind that keeps itself up to date: what the reflector hears goes into the cache, and what changed there
 * goes to the handlers, in one order for all of them. A handler that throws is logged and counted; it stops neither the
 * stream nor another handler.
 */
// @ts-nocheck

import type { Logger } from 'pino'
import { ClusterError } from '../errors.ts'
import type { KindName, Kinds } from '../kinds.ts'
import type { Cluster, LabelSelector, ObjectKey, Selection } from '../port.ts'
import { type Change, type IndexFunctions, ObjectCache } from './cache.ts'
import { type Clock, systemClock } from './clock.ts'
import { keyText } from './key.ts'
import { createNotifier, type Handler } from './notifier.ts'
import { type Reflector, startReflector } from './reflector.ts'
import { createWaiters, type WaitOptions, type WaitResult } from './waiters.ts'

export type InformerOptions<K extends KindName> = Selection & {
  /** Pure functions of the object; `byIndex(name, value)` finds it under every value they give. */
  indexes?: IndexFunctions<Kinds[K]> | undefined
  /** What is kept of an object; must keep its identity and resourceVersion. Default: all but managedFields. */
  transform?: ((object: Kinds[K]) => Kinds[K]) | undefined
  logger: Logger
} & Partial<Clock>

/** How well the informer follows; for readiness checks and metrics. Times are in ms since the epoch. */
export type InformerState = {
  kind: KindName
  /** Whether the first list is in. It stays true from then on. */
  synced: boolean
  objects: number
  /** When the server was last heard: a list, an event or a bookmark. */
  lastSync: number | undefined
  /** Since when following fails; absent while it works. */
  failingSince: number | undefined
  /** Complete lists taken in, the first included. */
  lists: number
  events: number
  failures: number
  /** Exceptions of handlers, index functions and transforms. */
  handlerErrors: number
}

export type Informer<K extends KindName> = {
  /**
   * Resolves once the first list is in and every handler has seen it; retries for ever.
   * @throws ClusterError `Unavailable` where it is stopped before
   */
  start(): Promise<void>
  stop(): Promise<void>
  readonly synced: boolean
  /** As it is now; it changes in place. */
  readonly state: Readonly<InformerState>
  get(key: ObjectKey): Kinds[K] | undefined
  list(filter?: { namespace?: string | undefined }): Kinds[K][]
  /** Throws where no index of that name was declared. */
  byIndex(index: string, value: string): Kinds[K][]
  /**
   * Every change from now on, after the objects already there (as `set`). Returns what ends it. A rejected promise of an
   * asynchronous handler is logged and counted like an exception.
   */
  onChange(handler: Handler<Kinds[K]>): () => void
  /**
   * What a write of ours returned: from here on the cache is at least as new. An object outside the informer's
   * namespace or labels is not taken in; one that is open no more stays until the watch lets go of it.
   */
  writeThrough(object: Kinds[K]): void
  /**
   * Waits until the predicate holds for the object (undefined: absent), looking at once and then at every change.
   * Gives the last state either way; `satisfied` is false after the time, an abort or `stop()`.
   * Rejects only where the predicate throws.
   */
  waitFor(
    key: ObjectKey,
    predicate: (object: Kinds[K] | undefined) => boolean,
    options: WaitOptions,
  ): Promise<WaitResult<Kinds[K]>>
}

/** The object without managedFields, which nobody reads and which are half of it; everything else is shared. */
export function withoutManagedFields<T extends Kinds[KindName]>(object: T): T {
  if (object.metadata.managedFields === undefined) return object
  const { managedFields: _, ...metadata } = object.metadata
  return { ...object, metadata }
}

const matches = (labels: LabelSelector | undefined, actual: Record<string, string> | undefined): boolean =>
  Object.entries(labels ?? {}).every(([name, value]) =>
    value === true ? actual?.[name] !== undefined : actual?.[name] === value,
  )

/** A cache of `kind`; it does nothing until `start()`. */
export function createInformer<K extends KindName>(
  cluster: Cluster,
  kind: K,
  options: InformerOptions<K>,
): Informer<K> {
  type T = Kinds[K]
  const { namespace, labels, open, logger } = options
  const selection = { namespace, labels, open }
  const clock: Clock = { now: options.now ?? systemClock.now, after: options.after ?? systemClock.after }
  const state: InformerState = {
    kind,
    synced: false,
    objects: 0,
    lastSync: undefined,
    failingSince: undefined,
    lists: 0,
    events: 0,
    failures: 0,
    handlerErrors: 0,
  }

  const complain = (what: string, object: T, error: unknown) => {
    state.handlerErrors++
    logger.error({ kind, key: keyText(object.metadata), err: error }, `${what} failed`)
  }
  /** A function of the caller's whose exception must not lose the object it was given. */
  const guarded =
    <R>(what: string, call: (object: T) => R, otherwise: (object: T) => R) =>
    (object: T): R => {
      try {
        return call(object)
      } catch (error) {
        complain(what, object, error)
        return otherwise(object)
      }
    }

  const transform = guarded<T>('the transform', options.transform ?? withoutManagedFields, object => object)
  const indexes: IndexFunctions<T> = {}
  for (const [name, valuesOf] of Object.entries(options.indexes ?? {}))
    indexes[name] = guarded<readonly string[]>(`the index function ${name}`, valuesOf, () => [])
  const cache = new ObjectCache<T>(indexes)
  const waiters = createWaiters<T>(clock)

  const notifier = createNotifier<T>({
    delivered: ({ object }) => waiters.changed(keyText(object.metadata), cache.get(object.metadata)),
    failed: (object, error) => complain('a handler', object, error),
  })
  const publish = (changes: readonly Change<T>[]) => {
    state.objects = cache.size
    if (changes.length > 0) notifier.publish(changes)
  }

  let reflector: Reflector | undefined
  let stopped = false
  let started: PromiseWithResolvers<void> | undefined

  const sink = {
    replaceAll: (items: T[], resourceVersion: string) => {
      publish(cache.replaceAll(items, resourceVersion))
      state.lists++
      state.synced = true
      started?.resolve()
    },
    observe: (event: Parameters<typeof cache.observe>[0]) => {
      state.events++
      publish(cache.observe(event.type === 'BOOKMARK' ? event : { ...event, object: transform(event.object) }))
    },
    heard: () => {
      state.lastSync = clock.now()
    },
    recovered: () => {
      state.failingSince = undefined
    },
    failed: () => {
      state.failures++
      state.failingSince ??= clock.now()
    },
  }

  return {
    start() {
      if (!started) {
        started = Promise.withResolvers<void>()
        // Who awaits it still sees the rejection; who does not is not brought down by it.
        started.promise.catch(() => {})
        if (!stopped) reflector = startReflector({ cluster, kind, selection, sink, keep: transform, clock, logger })
        else started.reject(new ClusterError('Unavailable', `the ${kind} informer is stopped`))
      }
      return started.promise
    },
    async stop() {
      stopped = true
      waiters.close()
      await reflector?.stop()
      started?.reject(new ClusterError('Unavailable', `the ${kind} informer was stopped before its first list`))
    },
    get synced() {
      return state.synced
    },
    get state() {
      return state
    },
    get: key => cache.get(key),
    list: filter => cache.list(filter),
    byIndex: (index, value) => cache.byIndex(index, value),
    onChange: handler => notifier.subscribe(handler, cache.list()),
    writeThrough(object) {
      if (namespace !== undefined && object.metadata.namespace !== namespace) return
      if (!matches(labels, object.metadata.labels)) return
      publish(cache.writeThrough(transform(object)))
    },
    waitFor: (key, predicate, wait) => waiters.wait(keyText(key), () => cache.get(key), predicate, wait),
  }
}
