/**
 * The informers of one process. They are started, stopped and measured together. A write through the set's cluster is
 * in its informers as soon as the write returns.
 */
import type { Logger } from 'pino'
import type { AnyObject, Cluster, KindName, Kinds } from '../../cluster/index.ts'
import {
  createInformer,
  createNamespacedInformer,
  type Informer,
  type InformerOptions,
  type NamespacedInformer,
  withoutManagedFields,
} from '../../cluster/informer/index.ts'
import type { Metrics } from '../../controller/index.ts'
import { createDeduplicator } from '../deduplicator.ts'
import { createOptionalInformer } from '../optional-informer.ts'

type Options<K extends KindName> = Omit<InformerOptions<K>, 'logger'>
type Part = { start(): Promise<void>; stop(): Promise<void>; readonly synced: boolean }
type Optional<K extends KindName> = ReturnType<typeof createOptionalInformer<K>>

export class CacheSet {
  readonly #cluster: Cluster
  readonly #logger: Logger
  readonly #metrics: Metrics
  readonly #deduplicator = createDeduplicator()
  readonly #writers = new Map<KindName, ((object: AnyObject) => void)[]>()
  readonly #parts: Part[] = []
  readonly #optional: Pick<Optional<KindName>, 'start' | 'stop'>[] = []

  constructor(cluster: Cluster, logger: Logger, metrics: Metrics) {
    this.#cluster = cluster
    this.#logger = logger
    this.#metrics = metrics
  }

  /** Subscribes to a kind, from `start()` on. */
  follow<K extends KindName>(name: string, kind: K, options: Options<K> = {}): Informer<K> {
    const informer = this.unstarted(name, kind, options)
    this.#metrics.watchInformer(name, () => informer.state)
    this.#parts.push(informer)
    return informer
  }

  /** An informer that `start()` does not start. */
  unstarted<K extends KindName>(name: string, kind: K, options: Options<K> = {}): Informer<K> {
    const informer = createInformer<K>(this.#cluster, kind, this.#deduplicatingOptions(name, options))
    this.#remember(kind, informer)
    return informer
  }

  /** Subscribes to a kind that the cluster need not serve. `start()` does not wait for it. */
  followIfServed<K extends KindName>(name: string, kind: K, options: Options<K>): Optional<K> {
    const informer = createOptionalInformer(this.#cluster, kind, this.unstarted(name, kind, options), {
      logger: this.#logger.child({ cache: name }),
    })
    this.#optional.push(informer)
    return informer
  }

  /** Subscribes to a kind namespace by namespace. The caller adds the namespaces and stops the informer. */
  followByNamespace<K extends KindName>(name: string, kind: K, options: Options<K>): NamespacedInformer<K> {
    const informer = createNamespacedInformer<K>(this.#cluster, kind, this.#deduplicatingOptions(name, options))
    this.#remember(kind, informer)
    this.#metrics.watchInformer(name, () => informer.state)
    return informer
  }

  /** Resolves when every informer has its first list. Does not wait for kinds that the cluster need not serve. */
  async start(): Promise<void> {
    for (const informer of this.#optional) informer.start()
    await Promise.all(this.#parts.map(part => part.start()))
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#optional, ...this.#parts].map(informer => informer.stop()))
  }

  isSynced(): boolean {
    return this.#parts.every(part => part.synced)
  }

  /** The cluster, with each write in the informers as soon as it returns. */
  writeThrough(inner: Cluster): Cluster {
    const written = async <K extends KindName>(kind: K, write: Promise<Kinds[K]>): Promise<Kinds[K]> => {
      const object = await write
      for (const writeThrough of this.#writers.get(kind) ?? []) writeThrough(object)
      return object
    }
    return {
      get: (kind, key) => inner.get(kind, key),
      list: (kind, options) => inner.list(kind, options),
      watch: (kind, options) => inner.watch(kind, options),
      logs: (pod, options) => inner.logs(pod, options),
      delete: (kind, key, options) => inner.delete(kind, key, options),
      create: (kind, draft) => written(kind, inner.create(kind, draft)),
      apply: (kind, draft) => written(kind, inner.apply(kind, draft)),
      // A cached object has only some managers' fields. If it were written back, they would count as all fields.
      replace: (kind, object) => written(kind, inner.replace(kind, withoutManagedFields(object))),
      replaceStatus: (kind, object) => written(kind, inner.replaceStatus(kind, object)),
    }
  }

  #deduplicatingOptions<K extends KindName>(name: string, options: Options<K>): InformerOptions<K> {
    const { transform = withoutManagedFields<Kinds[K]> } = options
    return {
      ...options,
      transform: object => this.#deduplicator.share(transform(object)),
      logger: this.#logger.child({ cache: name }),
    }
  }

  #remember<K extends KindName>(kind: K, informer: { writeThrough(object: Kinds[K]): void }): void {
    // The functions stored under a kind accept objects of that kind.
    const writeThrough = (object: AnyObject) => informer.writeThrough(object as Kinds[K])
    this.#writers.set(kind, [...(this.#writers.get(kind) ?? []), writeThrough])
  }
}
