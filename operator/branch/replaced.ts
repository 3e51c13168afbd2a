/**
 * Deletes a volume that a move of a branch has replaced, or that a failed move has created. Reads the API server: a
 * cache can lag, and a wrong deletion loses data.
 */
import type { Cluster } from '../../cluster/index.ts'
import { type Branch, childNames, firstMember, labels } from '../../crds/index.ts'
import { podsOfMember } from '../member/pod/stopped.ts'
import { ownerUidOf } from '../objects/ownership.ts'
import type { Replaced } from './actions.ts'
import { replacedIncarnation } from './plan/moving.ts'

/**
 * Deletes the workload, then the claim. Deletes nothing if the Branch was deleted or recreated, or can still use the
 * volume. Keeps a claim with another owner, or with another uid than `claimUid`.
 * @returns true if no object is left, or if the remaining claim must be kept; false if the next pass must check again
 * @throws ClusterError
 */
export async function deleteReplaced(
  cluster: Cluster,
  { metadata }: Branch,
  { incarnation, claimUid }: Replaced,
): Promise<boolean> {
  const { namespace, uid, labels: objectLabels } = metadata
  const id = objectLabels?.[labels.id] ?? ''
  const live = await cluster.get('Branch', metadata)
  if (live === undefined || live.metadata.uid !== uid || !isReplaced(live, incarnation)) return false
  const of = { namespace, id, incarnation, number: firstMember }
  const named = (name: (id: string, incarnation: number, number: number) => string) => ({
    ...{ namespace, name: name(id, incarnation, firstMember) },
  })
  const isOwn = (object: Parameters<typeof ownerUidOf>[0] | undefined) =>
    object !== undefined && ownerUidOf(object) === uid
  const objects = [
    ['StatefulSet', named(childNames.statefulSet)],
    ['ConfigMap', named(childNames.configuration)],
    ['Secret', named(childNames.archiveSource)],
  ] as const
  const found = await Promise.all(
    objects.map(async ([kind, key]) => ({ kind, key, object: await cluster.get(kind, key) })),
  )
  const remaining = found.filter(({ object }) => isOwn(object))
  for (const { kind, key, object } of remaining) await cluster.delete(kind, key, { uid: object?.metadata.uid })
  const pods = await podsOfMember(cluster, of)
  if (remaining.length > 0 || pods.length > 0) return false
  const key = named(childNames.claim)
  const claim = await cluster.get('PersistentVolumeClaim', key)
  const claimed = claim?.metadata.uid
  if (claim === undefined || !isOwn(claim) || claimed === live.status?.volume?.uid) return true
  if (claimUid !== undefined && claimed !== claimUid) return true
  await cluster.delete('PersistentVolumeClaim', key, { uid: claimed })
  return false
}

/**
 * Whether the branch no longer uses this incarnation after its last move, and `status.volume` is set. Moves
 * never reuse an incarnation, so an incarnation identifies one volume.
 */
const isReplaced = ({ status }: Branch, incarnation: number): boolean =>
  status?.volume !== undefined && replacedIncarnation(status) === incarnation
