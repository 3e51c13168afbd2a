/**
 * What the API knows without asking: one informer per kind it reads. An object that a cache does not have is looked for
 * in the cluster itself, since another replica may just have made it.
 */
import type { Logger } from 'pino'
import type { Cluster, Kinds } from '../cluster/index.ts'
import { createInformer, type Informer, type InformerState } from '../cluster/informer/index.ts'
import { labels, type ObjectMeta } from '../crds/index.ts'

/** The kinds a tenant has objects of, each found by the id in its label. */
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

/** On informers of owned kinds: by the API's id; on branches also by their database. */
const byId = 'id'
export const byDatabase = 'database'

/** The API's id of an object; undefined until the operator has labelled one that was applied by hand. */
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
 * How long a cache may be out of touch before its replica should be sent no more requests. An API server that is away is away for all replicas:
 * if they all stepped aside, nobody could read, and nobody would answer for a while after it is back. So it is longer than an outage mostly is.
 */
const toleratedSilenceMs = 120_000

/** Why requests should go elsewhere: caches not filled yet, or cut off from the cluster; undefined where they should not. */
export function unreadiness(states: readonly InformerState[], now: number): string | undefined {
  if (states.some(state => !state.synced)) return 'the caches are being filled'
  const isCutOff = ({ failingSince }: InformerState) =>
    failingSince !== undefined && now - failingSince > toleratedSilenceMs
  return states.some(isCutOff) ? 'the cluster has been out of reach for a while' : undefined
}

export const statesOf = (caches: Caches): InformerState[] => allOf(caches).map(cache => cache.state)

export const startCaches = async (caches: Caches): Promise<void> => {
  await Promise.all(allOf(caches).map(cache => cache.start()))
}

export const stopCaches = async (caches: Caches): Promise<void> => {
  await Promise.all(allOf(caches).map(cache => cache.stop()))
}

/** The tenant's object of this id, as far as the cache knows. One that is being deleted may be gone: readOwned() tells. */
export const cachedOwned = <K extends OwnedKind>(
  cache: Informer<K>,
  namespace: string,
  id: string,
): Kinds[K] | undefined => cache.byIndex(byId, id).find(object => object.metadata.namespace === namespace)

/**
 * The tenant's object of this id: from the cache, else from the cluster. One that is being deleted is read from the cluster,
 * since another replica may have said already that it is gone.
 */
export async function findOwned<K extends OwnedKind>(
  cluster: Cluster,
  cache: Informer<K>,
  kind: K,
  namespace: string,
  id: string,
): Promise<Kinds[K] | undefined> {
  const cached = cachedOwned(cache, namespace, id)
  return cached === undefined || isBeingDeleted(cached) ? await readOwned(cluster, kind, namespace, id) : cached
}

export const isBeingDeleted = ({ metadata }: { metadata: ObjectMeta }): boolean =>
  metadata.deletionTimestamp !== undefined

/** The tenant's object of this id as it is now. */
export async function readOwned<K extends OwnedKind>(
  cluster: Cluster,
  kind: K,
  namespace: string,
  id: string,
): Promise<Kinds[K] | undefined> {
  const { items } = await cluster.list(kind, { namespace, labels: { [labels.id]: id } })
  return items[0]
}
