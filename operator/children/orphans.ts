/** Objects that carry the id of an owner, and belong to none that exists. */
import type { AnyObject, Cluster } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { type Owner, ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'

/** Whether an object of our id is nobody's that lives: of a database before it was put back, or without its marks. */
export function isOrphan(
  caches: Caches,
  { uid, id }: Pick<Owner, 'uid' | 'id'>,
  object: Pick<AnyObject, 'metadata'>,
): boolean {
  if (object.metadata.labels?.[labels.database] !== id) return false
  const owner = ownerUidOf(object)
  return owner === undefined || (owner !== uid && !caches.isOwner(owner))
}

/** A volume claim of an id, in its owner's namespace, and no living owner's. `key`: whose it was. */
export type OrphanClaim = { name: string; key: string | undefined }

/**
 * The claims of our id that are nobody's that lives: from the cluster itself, since whether a database starts on an empty volume
 * is decided by them.
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
