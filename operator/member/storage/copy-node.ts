/**
 * Chooses the node for the volume of a copy. Many storage drivers keep a volume and its snapshots on one node, so a
 * copy can only be on that node. The scheduler does not know this. It chooses a node for the pod, and then checks only
 * once a second whether the volume is bound.
 *
 * So if the source's volume is on one node only, the copy's claim names that node, with the scheduler's own annotation.
 * The operator creates the pod after the volume exists. The annotation is a hint: a driver that cannot use the
 * annotation removes it. After a few seconds the operator creates the pod even if the volume does not exist yet.
 */
import type { PersistentVolume, PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { Caches } from '../../caches.ts'
import type { Instance } from '../../objects/instance.ts'
import { podsOf } from '../pod/pod.ts'
import { waitMs } from './provisioning.ts'

/** Kubernetes' annotation: the node for a claim's volume, if the storage class waits for the first consumer. */
export const selectedNodeAnnotation = 'volume.kubernetes.io/selected-node'

/**
 * Whether a volume can be used on this node and on no other. Drivers of local storage set the node's name in the
 * volume's affinity.
 */
export function isOnlyOn(volume: Pick<PersistentVolume, 'spec'>, node: string): boolean {
  const terms = volume.spec?.nodeAffinity?.required?.nodeSelectorTerms ?? []
  const namesIt = (term: (typeof terms)[number]): boolean =>
    term.matchExpressions?.some(
      ({ operator, values }) => operator === 'In' && values?.length === 1 && values[0] === node,
    ) === true
  return terms.length > 0 && terms.every(namesIt)
}

/**
 * The node for the claim that the operator is about to create. Undefined if every node is suitable, or if the node is
 * unknown.
 */
export function copyNodeOf(
  caches: Pick<Caches, 'volumes' | 'pods'>,
  { metadata: { namespace }, status, dataSource }: Instance,
): string | undefined {
  if (status?.volume !== undefined || dataSource?.kind !== 'snapshot') return undefined
  const { id } = dataSource
  const node = podsOf(caches, id, namespace)[0]?.spec?.nodeName
  // The id can have volumes of several incarnations. If they are on different nodes, the correct node is unknown here.
  const sources = caches.volumes.byIndex('database', id)
  return node !== undefined && sources.length > 0 && sources.every(volume => isOnlyOn(volume, node)) ? node : undefined
}

/** Whether the driver is creating a claim's volume before a pod uses it. `now`: ms since the epoch. */
export function provisionsWithoutPod(claim: PersistentVolumeClaim | undefined, now: number): boolean {
  if (claim?.metadata.annotations?.[selectedNodeAnnotation] === undefined) return false
  if ((claim.status?.phase ?? 'Pending') !== 'Pending') return false
  // A wrong clock must not block the pod.
  return Math.abs(now - Date.parse(claim.metadata.creationTimestamp ?? '')) < waitMs
}
