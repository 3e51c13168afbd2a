/**
 * The API's caches: one informer for each kind that the API reads. If an object is missing in a cache, the API reads
 * the cluster, because another replica may have just created the object.
 */
import type { Logger } from 'pino'
import type { Cluster, Kinds } from '../cluster/index.ts'
import { createInformer, type Informer, type InformerState, systemClock } from '../cluster/informer/index.ts'
import { labels, type ObjectMeta } from '../crds/index.ts'

/** The kinds of objects that a tenant owns. The API finds them by the id in their label. */
export type OwnedKind = 'ManagedDatabase' | 'Branch' | 'Backup' | 'Task'

export type Caches = {
  ManagedDatabase: Informer<'ManagedDatabase'>
  Branch: Informer<'Branch'>
  Backup: Informer<'Backup'>
  Task: Informer<'Task'>
  Size: Informer<'Size'>
  Region: Informer<'Region'>
  Tenant: Informer<'Tenant'>
}

export const credentialsComponent = 'credentials'

/** Indexes on informers of owned kinds: by the API's id, and for branches also by their database. */
const byId = 'id'
export const byDatabase = 'database'

/** The API's id of an object. undefined for an object that a user applied, until the operator has labelled it. */
export const idOf = (object: { metadata: { labels?: Record<string, string> } }): string | undefined =>
  object.metadata.labels?.[labels.id]

const idIndex = (object: { metadata: { labels?: Record<string, string> } }): string[] => {
  const id = idOf(object)
  return id === undefined ? [] : [id]
}

export function createCaches(cluster: Cluster, logger: Logger): Caches {
  const owned = { indexes: { [byId]: idIndex }, logger }
  return {
    ManagedDatabase: createInformer(cluster, 'ManagedDatabase', owned),
    Branch: createInformer(cluster, 'Branch', {
      indexes: { [byId]: idIndex, [byDatabase]: branch => [branch.spec.databaseId] },
      logger,
    }),
    Backup: createInformer(cluster, 'Backup', owned),
    Task: createInformer(cluster, 'Task', owned),
    Size: createInformer(cluster, 'Size', { logger }),
    Region: createInformer(cluster, 'Region', { logger }),
    Tenant: createInformer(cluster, 'Tenant', { logger }),
  }
}

const allOf = (caches: Caches) => Object.values(caches)

/**
 * How long a cache may be disconnected before its replica becomes unready. An API server outage affects all replicas.
 * If all replicas became unready, no client could read, and recovery after the outage would be delayed. So this time is
 * longer than most outages.
 */
const toleratedSilenceMs = 120_000

/**
 * Why the replica is unready: its caches are not filled yet, or are disconnected from the cluster. undefined if it is
 * ready.
 */
export function unreadiness(states: readonly InformerState[], now: number): string | undefined {
  if (states.some(state => !state.synced)) return 'the caches are being filled'
  const isUnreachable = ({ failingSince }: InformerState) =>
    failingSince !== undefined && now - failingSince > toleratedSilenceMs
  return states.some(isUnreachable) ? 'the cluster has been unreachable for a while' : undefined
}

export const statesOf = (caches: Caches): InformerState[] => allOf(caches).map(cache => cache.state)

export const startCaches = async (caches: Caches): Promise<void> => {
  await Promise.all(allOf(caches).map(cache => cache.start()))
}

export const stopCaches = async (caches: Caches): Promise<void> => {
  await Promise.all(allOf(caches).map(cache => cache.stop()))
}

/**
 * Returns the tenant's object with this id from the cache. If the object is being deleted, it may already be gone: use
 * readOwned() for such objects.
 */
export const cachedOwned = <K extends OwnedKind>(
  cache: Informer<K>,
  namespace: string,
  id: string,
): Kinds[K] | undefined => cache.byIndex(byId, id).find(object => object.metadata.namespace === namespace)

/** kube-apiserver sends a bookmark to each watch at least every 75 s. */
const currentMs = 80_000
/**
 * How long a read that replaces a cached object may take, and how many such reads may run concurrently, so that a slow
 * cluster gets no further reads.
 */
const confirmation = { ms: 2_000, atOnce: 8 }
const confirming = new WeakMap<Cluster, number>()

/**
 * Whether changes may be missing in the cache. This is so if its watch has failed, or has delivered no event or
 * bookmark for longer than a working watch does. Without bookmarks, a cache often counts as outdated although it is
 * current.
 */
export const mayBeOutdated = ({ lastSync, failingSince }: InformerState, now: number): boolean =>
  failingSince !== undefined || (lastSync !== undefined && now - lastSync > currentMs)

/**
 * Returns the tenant's object with this id from the cache, or from the cluster if it is not in the cache. Reads an
 * object that is being deleted from the cluster, because another replica may have already reported its deletion. Reads
 * the cluster also if the cache may be outdated, but returns the cached object if the cluster does not respond in time.
 */
export async function findOwned<K extends OwnedKind>(
  cluster: Cluster,
  cache: Informer<K>,
  kind: K,
  namespace: string,
  id: string,
  now = systemClock.now(),
): Promise<Kinds[K] | undefined> {
  const cached = cachedOwned(cache, namespace, id)
  if (cached === undefined || isBeingDeleted(cached)) return await readOwned(cluster, kind, namespace, id)
  const running = confirming.get(cluster) ?? 0
  if (!mayBeOutdated(cache.state, now) || running >= confirmation.atOnce) return cached
  confirming.set(cluster, running + 1)
  const read = readOwned(cluster, kind, namespace, id)
    .catch(() => cached)
    .finally(() => confirming.set(cluster, (confirming.get(cluster) ?? 1) - 1))
  const late = new Promise<typeof cached>(resolve => void setTimeout(resolve, confirmation.ms, cached).unref())
  return await Promise.race([read, late])
}

export const isBeingDeleted = ({ metadata }: { metadata: ObjectMeta }): boolean =>
  metadata.deletionTimestamp !== undefined

/** Reads the current state of the tenant's object with this id from the cluster. */
export async function readOwned<K extends OwnedKind>(
  cluster: Cluster,
  kind: K,
  namespace: string,
  id: string,
): Promise<Kinds[K] | undefined> {
  const { items } = await cluster.list(kind, { namespace, labels: { [labels.id]: id } })
  return items[0]
}
