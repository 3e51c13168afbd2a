/** Objects with the id of an owner that belong to no existing owner. */
import type { AnyObject, Cluster } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { type Owner, ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'

/**
 * Whether an object with this id belongs to no existing owner. Its database was deleted and recreated, or it lost its
 * labels.
 */
export function isOrphan(
  caches: Caches,
  { uid, id }: Pick<Owner, 'uid' | 'id'>,
  object: Pick<AnyObject, 'metadata'>,
): boolean {
  if (object.metadata.labels?.[labels.database] !== id) return false
  const owner = ownerUidOf(object)
  return owner === undefined || (owner !== uid && !caches.isOwner(owner))
}

/**
 * A volume claim with an id, in its owner's namespace, without an existing owner. `key`: the key of its former owner.
 */
export type OrphanClaim = { name: string; key: string | undefined }

/**
 * The claims with this id that belong to no existing owner. Reads the cluster, because they decide whether a database
 * starts on an empty volume.
 */
export async function orphanClaims(
  caches: Caches,
  cluster: Cluster,
  { namespace, uid, id }: { namespace: string; uid: string; id: string },
): Promise<OrphanClaim[]> {
  const { items } = await cluster.list('PersistentVolumeClaim', { namespace, labels: { [labels.database]: id } })
  return items
    .filter(claim => isOrphan(caches, { uid, id }, claim))
    .map(claim => ({ name: claim.metadata.name, key: ownerKeyOf(claim) }))
}
