/**
 * Reads the claim and the volumes of a member: from the caches, and from the cluster itself if a cache could mislead.
 */
import type { Cluster, PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { Caches } from '../../caches.ts'
import type { Instance } from '../../objects/instance.ts'
import { isUnderAnotherId, type Owner, ownerUidOf } from '../../objects/ownership.ts'
import type { Volumes } from '../observed.ts'
import { systemIdentifierOf } from './claim.ts'
import { copyName, type VolumeFacts, volumeFacts } from './persistent-volume.ts'

/**
 * The claim of the data: the recorded one by its uid, whatever its labels and owner; before one is recorded, the one
 * with this owner's labels, or one whose owner no longer exists. A recorded claim counts as deleted only if the cluster
 * itself has no such object.
 */
export async function claimOf(
  cluster: Cluster,
  { metadata: { namespace, uid }, status }: Instance,
  cached: PersistentVolumeClaim | undefined,
  owner: Owner | undefined,
): Promise<PersistentVolumeClaim | undefined> {
  const recorded = status?.volume
  if (recorded === undefined) return cached
  if (cached?.metadata.uid === recorded.uid) return cached
  const live = await cluster.get('PersistentVolumeClaim', { namespace, name: recorded.claim })
  if (live !== undefined && owner !== undefined && isUnderAnotherId(owner, live)) return undefined
  if (live !== undefined || cached === undefined || cached.metadata.name === recorded.claim) return live
  // The record may be of another object with this name, whose status was put back.
  return ownerUidOf(cached) === uid && systemIdentifierOf(cached) !== undefined ? cached : undefined
}

/**
 * The volumes of the claim and of the record: from the cluster itself if one seems to be deleted or terminating, since
 * a stop of Postgres may depend on it.
 */
export async function volumesOf(
  caches: Caches,
  cluster: Cluster,
  { metadata, status }: Instance,
  claim: PersistentVolumeClaim | undefined,
  owner: Owner | undefined,
): Promise<Volumes> {
  const recorded = status?.volume
  const cached = (name: string | undefined) => (name === undefined ? undefined : caches.volumes.get({ name }))
  const boundName = claim?.spec?.volumeName
  const isOwn = recorded === undefined || claim?.metadata.uid === recorded.uid
  const isTerminating = [claim, cached(boundName)].some(object => object?.metadata.deletionTimestamp !== undefined)
  const isCalm = isOwn && !isTerminating
  const read = async (name: string | undefined): Promise<VolumeFacts | undefined> => {
    if (name === undefined) return undefined
    const volume = (isCalm && cached(name)) || (await cluster.get('PersistentVolume', { name }))
    if (volume === undefined || (owner !== undefined && isUnderAnotherId(owner, volume))) return undefined
    const facts = volumeFacts(volume, owner)
    // Volumes have no namespace: one bound to a claim in another namespace is not this database's, though a copied
    // status names it.
    const isNamed = recorded !== undefined && claim?.metadata.uid === recorded.uid && boundName === name
    return !isNamed && facts.claim?.startsWith(`${metadata.namespace}/`) === false ? undefined : facts
  }
  const bound = await read(boundName)
  const known = recorded?.volumeName === boundName ? bound : await read(recorded?.volumeName)
  const isCopied = recorded !== undefined && (bound?.isTerminating === true || known?.isTerminating === true)
  const copy = isCopied ? await read(copyName(recorded.uid)) : undefined
  return { bound, recorded: known, copy: copy?.isTerminating ? undefined : copy }
}
