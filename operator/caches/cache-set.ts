/**
 * The informers of one process: started, stopped and measured together. What is written through the set's cluster is in
 * its informers as soon as the write is answered.
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
import { createOptionalInformer } from '../optional-informer.ts'
import { createSharing } from '../sharing.ts'

type Options<K extends KindName> = Omit<InformerOptions<K>, 'logger'>
type Part = { start(): Promise<void>; stop(): Promise<void>; readonly synced: boolean }
type Optional<K extends KindName> = ReturnType<typeof createOptionalInformer<K>>

export class CacheSet {
  readonly #cluster: Cluster
  readonly #logger: Logger
  readonly #metrics: Metrics
  readonly #sharing = createSharing()
  readonly #writers = new Map<KindName, ((object: AnyObject) => void)[]>()
  readonly #parts: Part[] = []
  readonly #optional: Pick<Optional<KindName>, 'start' | 'stop'>[] = []

  constructor(cluster: Cluster, logger: Logger, metrics: Metrics) {
    this.#cluster = cluster
    this.#logger = logger
    this.#metrics = metrics
  }

  /** Follows a kind from `start()` on. */
  follow<K extends KindName>(name: string, kind: K, options: Options<K> = {}): Informer<K> {
    const informer = this.unstarted(name, kind, options)
    this.#metrics.watchInformer(name, () => informer.state)
    this.#parts.push(informer)
    return informer
  }

  /** An informer that nobody starts with the others. */
  unstarted<K extends KindName>(name: string, kind: K, options: Options<K> = {}): Informer<K> {
    const informer = createInformer<K>(this.#cluster, kind, this.#sharingOptions(name, options))
    this.#remember(kind, informer)
    return informer
  }

  /** Follows a kind that the cluster need not serve. Nothing waits for it. */
  followIfServed<K extends KindName>(name: string, kind: K, options: Options<K>): Optional<K> {
    const informer = createOptionalInformer(this.#cluster, kind, this.unstarted(name, kind, options), {
      logger: this.#logger.child({ cache: name }),
    })
    this.#optional.push(informer)
    return informer
  }

  /** Follows a kind namespace by namespace. Whoever adds namespaces stops it. */
  followByNamespace<K extends KindName>(name: string, kind: K, options: Options<K>): NamespacedInformer<K> {
    const informer = createNamespacedInformer<K>(this.#cluster, kind, this.#sharingOptions(name, options))
    this.#remember(kind, informer)
    this.#metrics.watchInformer(name, () => informer.state)
    return informer
  }

  /** Resolves once every informer has its first list, but for those of kinds that need not be served. */
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

  /** The cluster, whose every write is in the informers as soon as it is answered. */
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
      // A cached object has some managers' fields only; sent back, they would be treated as all.
      replace: (kind, object) => written(kind, inner.replace(kind, withoutManagedFields(object))),
      replaceStatus: (kind, object) => written(kind, inner.replaceStatus(kind, object)),
    }
  }

  #sharingOptions<K extends KindName>(name: string, options: Options<K>): InformerOptions<K> {
    const { transform = withoutManagedFields<Kinds[K]> } = options
    return {
      ...options,
      transform: object => this.#sharing.share(transform(object)),
      logger: this.#logger.child({ cache: name }),
    }
  }

  #remember<K extends KindName>(kind: K, informer: { writeThrough(object: Kinds[K]): void }): void {
    // What is remembered under a kind is of that kind.
    const writeThrough = (object: AnyObject) => informer.writeThrough(object as Kinds[K])
    this.#writers.set(kind, [...(this.#writers.get(kind) ?? []), writeThrough])
  }
}
