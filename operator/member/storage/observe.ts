/**
 * Reads a member's claim and volumes. Reads the cluster instead of a cache where an outdated cache could cause a wrong
 * decision.
 */
import type { Cluster, PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { Caches } from '../../caches.ts'
import type { Instance } from '../../objects/instance.ts'
import { isUnderAnotherId, type Owner, ownerUidOf } from '../../objects/ownership.ts'
import type { Volumes } from '../observed.ts'
import { systemIdentifierOf } from './claim.ts'
import { copyName, type VolumeFacts, volumeFacts } from './persistent-volume.ts'

/**
 * The claim of the data. After a volume is recorded: the claim with the recorded name, unless it belongs to another
 * owner's id. Before that: the claim with this owner's labels, or a claim whose owner no longer exists. A recorded
 * claim counts as deleted only if the cluster itself does not have it.
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
  // If this object was restored with an old status, that status may name the claim of a deleted object with the same
  // name.
  return ownerUidOf(cached) === uid && systemIdentifierOf(cached) !== undefined ? cached : undefined
}

/**
 * The volumes named in the claim and in the status. If the claim or its volume seems to be deleted or terminating,
 * reads the cluster: the result may decide whether the operator stops Postgres.
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
  const mayUseCache = isOwn && !isTerminating
  const read = async (name: string | undefined): Promise<VolumeFacts | undefined> => {
    if (name === undefined) return undefined
    const volume = (mayUseCache && cached(name)) || (await cluster.get('PersistentVolume', { name }))
    if (volume === undefined || (owner !== undefined && isUnderAnotherId(owner, volume))) return undefined
    const facts = volumeFacts(volume, owner)
    // Volumes have no namespace. A volume bound to a claim in another namespace does not belong to this database, even
    // if a copied status names it.
    const isNamed = recorded !== undefined && claim?.metadata.uid === recorded.uid && boundName === name
    return !isNamed && facts.claim?.startsWith(`${metadata.namespace}/`) === false ? undefined : facts
  }
  const bound = await read(boundName)
  const known = recorded?.volumeName === boundName ? bound : await read(recorded?.volumeName)
  const isCopied = recorded !== undefined && (bound?.isTerminating === true || known?.isTerminating === true)
  const copy = isCopied ? await read(copyName(recorded.uid)) : undefined
  return { bound, recorded: known, copy: copy?.isTerminating ? undefined : copy }
}
