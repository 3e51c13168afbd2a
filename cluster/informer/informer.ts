/**
 * A cache of one kind that follows the cluster. The reflector writes lists and events into the cache. Every change of
 * the cache goes to the handlers, in the same order for all. If a handler throws, the error is logged and counted. It
 * stops neither the stream nor other handlers.
 */
import type { Logger } from 'pino'
import { ClusterError } from '../errors.ts'
import type { KindName, Kinds } from '../kinds.ts'
import type { Cluster, LabelSelector, ObjectKey, Selection } from '../port.ts'
import { type Change, type IndexFunctions, ObjectCache } from './cache.ts'
import { type Clock, systemClock } from './clock.ts'
import { keyText } from './key.ts'
import { createNotifier, type Handler } from './notifier.ts'
import { type Reflector, type ReflectorSink, startReflector } from './reflector.ts'
import { createWaiters, type WaitOptions, type WaitResult } from './waiters.ts'

export type InformerOptions<K extends KindName> = Selection & {
  /** Pure functions of the object. `byIndex(name, value)` finds the object by each value that they return. */
  indexes?: IndexFunctions<Kinds[K]> | undefined
  /**
   * Returns the part of an object that the cache keeps; it must include identity and resourceVersion. Default:
   * everything except managedFields.
   */
  transform?: ((object: Kinds[K]) => Kinds[K]) | undefined
  logger: Logger
} & Partial<Clock>

/** State for readiness checks and metrics. Times are in ms since the epoch. */
export type InformerState = {
  kind: KindName
  /** Whether the first list has been read. */
  synced: boolean
  objects: number
  /** Time of the last list, event or bookmark. */
  lastSync: number | undefined
  /** The time of the first failure since the informer last worked; absent while it works. */
  failingSince: number | undefined
  /** The number of complete lists that were read, including the first. */
  lists: number
  events: number
  failures: number
  /** The number of exceptions of handlers, index functions and transforms. */
  handlerErrors: number
}

export type Informer<K extends KindName> = {
  /**
   * Resolves once the first list has been read and every handler has received it. Retries forever.
   * @throws ClusterError `Unavailable` if it is stopped first
   */
  start(): Promise<void>
  stop(): Promise<void>
  readonly synced: boolean
  /** The current state; it changes in place. */
  readonly state: Readonly<InformerState>
  get(key: ObjectKey): Kinds[K] | undefined
  list(filter?: { namespace?: string | undefined }): Kinds[K][]
  /** @throws Error if no index of that name was declared */
  byIndex(index: string, value: string): Kinds[K][]
  /**
   * Calls the handler with the existing objects (as `set`), then with every change. Returns a function that unsubscribes.
   * A rejected promise of an asynchronous handler is logged and counted like an exception.
   */
  onChange(handler: Handler<Kinds[K]>): () => void
  /**
   * Puts the result of a write into the cache, so that the cache is at least as new. Ignores an object outside the
   * informer's namespace or labels. A Task that has ended stays until the watch removes it.
   */
  writeThrough(object: Kinds[K]): void
  /**
   * Waits until the predicate holds for the object (undefined: absent); checks at once and after every change.
   * Returns the last state in any case; `satisfied` is false after the timeout, an abort or `stop()`.
   * Rejects only if the predicate throws.
   */
  waitFor(
    key: ObjectKey,
    predicate: (object: Kinds[K] | undefined) => boolean,
    options: WaitOptions,
  ): Promise<WaitResult<Kinds[K]>>
}

/** Returns the object without managedFields. No code reads them, and they are half of its size. */
export function withoutManagedFields<T extends Kinds[KindName]>(object: T): T {
  if (object.metadata.managedFields === undefined) return object
  const { managedFields: _, ...metadata } = object.metadata
  return { ...object, metadata }
}

const matches = (labels: LabelSelector | undefined, actual: Record<string, string> | undefined): boolean =>
  Object.entries(labels ?? {}).every(([name, value]) =>
    value === true ? actual?.[name] !== undefined : actual?.[name] === value,
  )

const initialState = (kind: KindName): InformerState => ({
  kind,
  synced: false,
  objects: 0,
  lastSync: undefined,
  failingSince: undefined,
  lists: 0,
  events: 0,
  failures: 0,
  handlerErrors: 0,
})

/** Logs and counts exceptions of the caller's functions. */
function createGuard<T extends Kinds[KindName]>(state: InformerState, logger: Logger) {
  const complain = (what: string, object: T, error: unknown) => {
    state.handlerErrors++
    logger.error({ kind: state.kind, key: keyText(object.metadata), err: error }, `${what} failed`)
  }
  /** Wraps a function so that an exception does not lose the object. `otherwise` is used in its place. */
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
  return { complain, guarded }
}

/** Writes the reflector's reports into cache and state. */
function createSink<T extends Kinds[KindName]>(parts: {
  state: InformerState
  cache: ObjectCache<T>
  transform: (object: T) => T
  publish: (changes: readonly Change<T>[]) => void
  onSynced: () => void
  clock: Clock
}): ReflectorSink<T> {
  const { state, cache, transform, publish, onSynced, clock } = parts
  return {
    replaceAll: (items, resourceVersion) => {
      publish(cache.replaceAll(items, resourceVersion))
      state.lists++
      state.synced = true
      onSynced()
    },
    observe: event => {
      state.events++
      publish(cache.observe(event.type === 'BOOKMARK' ? event : { ...event, object: transform(event.object) }))
    },
    received: () => {
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
}

/** Creates a cache of `kind`. It does nothing until `start()`. */
export function createInformer<K extends KindName>(
  cluster: Cluster,
  kind: K,
  options: InformerOptions<K>,
): Informer<K> {
  type T = Kinds[K]
  const { namespace, labels, open, logger } = options
  const selection = { namespace, labels, open }
  const clock: Clock = { now: options.now ?? systemClock.now, after: options.after ?? systemClock.after }
  const state = initialState(kind)
  const { complain, guarded } = createGuard<T>(state, logger)
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
  const sink = createSink<T>({ state, cache, transform, publish, onSynced: () => started?.resolve(), clock })

  return {
    start() {
      if (!started) {
        started = Promise.withResolvers<void>()
        // A caller that awaits it still receives the rejection. Without a caller, the rejection must not end the
        // process.
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
