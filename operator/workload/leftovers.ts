/**
 * Finds remaining objects of an instance that is being deleted. Lists them from the cluster, not from a cache. Deletes
 * them, and lists again.
 */
import type { AnyObject, Cluster, KindName, LabelSelector } from '../../cluster/index.ts'
import { deletedDatabaseComponent, labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { routeComponent } from '../../routes/route.ts'
import { childKinds } from '../children/owned.ts'
import { changedVolume, volumeFacts } from '../member/storage/persistent-volume.ts'
import type { Instance } from '../objects/instance.ts'
import { isAnothers, ownerUidOf } from '../objects/ownership.ts'

/** The cluster had an object of the deleted database that no cache had. The operator deletes it first. */
export class LeftoversError extends Error {
  override readonly name = 'LeftoversError'
}

/** `childKinds` does not include pods. They are deleted first. */
const leftoverKinds = new Set<KindName>(['Pod', ...childKinds.map(({ kind }) => kind)])

/** Checks that no object remains. @throws LeftoversError if an object remained; ClusterError */
export async function deleteLeftovers(
  cluster: Cluster,
  instance: Instance,
  outlives: (object: AnyObject) => boolean = () => false,
): Promise<void> {
  await giveBackVolumes(cluster, instance)
  const found = await findLeftovers(cluster, instance)
  const leftovers = found.filter(object => !outlives(object as AnyObject))
  if (leftovers.length === 0) return
  await Promise.all(
    leftovers.map(({ kind, metadata: { namespace, name, uid } }) =>
      // Items of these lists have their kind: see findLeftovers.
      cluster.delete(kind as KindName, { namespace, name }, { uid }),
    ),
  )
  throw new LeftoversError(
    `deleted ${leftovers.length} leftovers: ${leftovers.map(({ metadata }) => metadata.name).join(', ')}`,
  )
}

/** Checks that no retained volume remains that no cache had. @throws LeftoversError; ClusterError */
async function giveBackVolumes(cluster: Cluster, { metadata, status }: Instance): Promise<void> {
  const { namespace = '', uid = '', labels: objectLabels } = metadata
  const id = objectLabels?.[labels.id]
  if (id === undefined) return
  const { items } = await cluster.list('PersistentVolume', { labels: { [labels.database]: id } })
  const retained = items.filter(volume => {
    const { isTerminating, policyBefore, claim } = volumeFacts(volume, undefined)
    return (
      !isTerminating && policyBefore !== undefined && claim?.startsWith(`${namespace}/`) && ownerUidOf(volume) === uid
    )
  })
  const change = { to: 'give-back', claimUid: status?.volume?.uid ?? uid } as const
  await Promise.all(retained.map(volume => cluster.replace('PersistentVolume', changedVolume(volume, change))))
  if (retained.length > 0)
    throw new LeftoversError(`released ${retained.map(volume => volume.metadata.name).join(', ')}`)
}

type Found = Pick<AnyObject, 'metadata'> & { kind: string }

async function findLeftovers(cluster: Cluster, { kind, metadata }: Instance): Promise<Found[]> {
  const { namespace, uid, labels: objectLabels } = metadata
  const id = objectLabels?.[labels.id]
  const others = id === undefined ? [] : (await cluster.list(kind, { labels: { [labels.id]: id } })).items
  const isShared = others.some(other => other.metadata.uid !== uid)
  /**
   * The object has the owner's uid. Or it has the owner's id, no other owner has this id, and the owner in the object's
   * labels no longer exists.
   */
  const isOwn = async (object: Found): Promise<boolean> => {
    if (ownerUidOf(object) === uid) return true
    const hasOurId = id !== undefined && object.metadata.labels?.[labels.database] === id
    return hasOurId && !isShared && !(await isAnothers(cluster, { metadata }, object))
  }
  const ofKind = async (kind: KindName, where: string | undefined, selector: LabelSelector): Promise<Found[]> => {
    const { items } = await cluster.list(kind, { namespace: where, labels: selector })
    return items.map(item => ({ kind, metadata: item.metadata }))
  }
  const selector: LabelSelector = { [labels.managedBy]: managedByEspalier, [labels.database]: id ?? true }
  const found = await Promise.all([
    ...[...leftoverKinds].map(kind => ofKind(kind, namespace, selector)),
    ofKind('ConfigMap', systemNamespace, { ...selector, [labels.component]: routeComponent }),
  ])
  const children = found
    .flat()
    .filter(({ metadata }) => metadata.labels?.[labels.component] !== deletedDatabaseComponent)
  const own = await Promise.all(children.map(async object => ((await isOwn(object)) ? [object] : [])))
  return own.flat()
}
