/**
 * What is left of an instance that is being deleted, by the word of the cluster itself and not of a cache. What still turns
 * up is deleted, and looked for again.
 */
import type { AnyObject, Cluster, KindName, LabelSelector } from '../../cluster/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { routeComponent } from '../../routes/route.ts'
import { childKinds } from '../children/owned.ts'
import { changedVolume, volumeFacts } from '../member/storage/persistent-volume.ts'
import type { Instance } from '../objects/instance.ts'
import { isAnothers, ownerUidOf } from '../objects/ownership.ts'

/** Something of a database that is being deleted turned up that no cache knew of; it is deleted first. */
export class LeftoversError extends Error {
  override readonly name = 'LeftoversError'
}

/** Pods first: they are those of another kind. */
const kindsLeft = new Set<KindName>(['Pod', ...childKinds.map(({ kind }) => kind)])

/** Nothing is left. @throws LeftoversError where something was; ClusterError */
export async function deleteLeftovers(cluster: Cluster, instance: Instance): Promise<void> {
  await giveBackVolumes(cluster, instance)
  const leftovers = await findLeftovers(cluster, instance)
  if (leftovers.length === 0) return
  await Promise.all(
    leftovers.map(({ kind, metadata: { namespace, name, uid } }) =>
      // A list's items carry their kind: see findLeftovers.
      cluster.delete(kind as KindName, { namespace, name }, { uid }),
    ),
  )
  throw new LeftoversError(
    `deleted ${leftovers.length} leftovers: ${leftovers.map(({ metadata }) => metadata.name).join(', ')}`,
  )
}

/** No volume is left retained that no cache knew of. @throws LeftoversError; ClusterError */
async function giveBackVolumes(cluster: Cluster, { metadata, status }: Instance): Promise<void> {
  const { namespace = '', uid = '', labels: marks } = metadata
  const id = marks?.[labels.id]
  if (id === undefined) return
  const { items } = await cluster.list('PersistentVolume', { labels: { [labels.database]: id } })
  const kept = items.filter(volume => {
    const { isTerminating, policyBefore, claim } = volumeFacts(volume, undefined)
    return (
      !isTerminating && policyBefore !== undefined && claim?.startsWith(`${namespace}/`) && ownerUidOf(volume) === uid
    )
  })
  const change = { to: 'give-back', claimUid: status?.volume?.uid ?? uid } as const
  await Promise.all(kept.map(volume => cluster.replace('PersistentVolume', changedVolume(volume, change))))
  if (kept.length > 0) throw new LeftoversError(`let go of ${kept.map(volume => volume.metadata.name).join(', ')}`)
}

type Found = Pick<AnyObject, 'metadata'> & { kind: string }

async function findLeftovers(cluster: Cluster, { kind, metadata }: Instance): Promise<Found[]> {
  const { namespace, uid, labels: marks } = metadata
  const id = marks?.[labels.id]
  const others = id === undefined ? [] : (await cluster.list(kind, { labels: { [labels.id]: id } })).items
  const isShared = others.some(other => other.metadata.uid !== uid)
  /** With the owner's uid; or with its id, where no other has that and what is marked as another's has outlived it. */
  const isOurs = async (object: Found): Promise<boolean> => {
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
    ...[...kindsLeft].map(kind => ofKind(kind, namespace, selector)),
    ofKind('ConfigMap', systemNamespace, { ...selector, [labels.component]: routeComponent }),
  ])
  const ours = await Promise.all(found.flat().map(async object => ((await isOurs(object)) ? [object] : [])))
  return ours.flat()
}
