/**
 * On which node the volume of a copy is made. Much storage keeps a volume and its snapshots on one node, and a copy of them can
 * stand nowhere else; the scheduler knows nothing of that. It chooses a node for the pod, and then looks only once a
 * second whether the volume has come. So where the source's volume is on one node alone, the copy's claim names that node from
 * the start, by the annotation in which the scheduler would, and the pod is made when the volume is there.
 *
 * It is a wish: a driver that cannot fulfil it takes the annotation away, and after a few seconds the pod comes all the
 * same, as it does for any other claim.
 */
import type { PersistentVolume, PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { Caches } from '../../caches.ts'
import type { Instance } from '../../objects/instance.ts'
import { podsOf } from '../pod/pod.ts'
import { patienceMs } from './provisioning.ts'

/** Kubernetes' own: for which node a claim's volume is to be made, where its class waits for the first consumer. */
export const selectedNodeAnnotation = 'volume.kubernetes.io/selected-node'

/** Whether a volume can be used on this node and on no other: drivers of local storage name it by the node's name. */
export function isOnlyOn(volume: Pick<PersistentVolume, 'spec'>, node: string): boolean {
  const terms = volume.spec?.nodeAffinity?.required?.nodeSelectorTerms ?? []
  const namesIt = (term: (typeof terms)[number]): boolean =>
    term.matchExpressions?.some(
      ({ operator, values }) => operator === 'In' && values?.length === 1 && values[0] === node,
    ) === true
  return terms.length > 0 && terms.every(namesIt)
}

/** The node for the claim that is still to be made; undefined where any will do, or where it is not known. */
export function copyNodeOf(
  caches: Pick<Caches, 'volumes' | 'pods'>,
  { metadata: { namespace }, status, dataSource }: Instance,
): string | undefined {
  if (status?.volume !== undefined || dataSource === undefined) return undefined
  const { id } = dataSource
  const node = podsOf(caches, id, namespace)[0]?.spec?.nodeName
  // Its id can have volumes of several incarnations; where they are not all in one place, which is meant is for others to say.
  const sources = caches.volumes.byIndex('database', id)
  return node !== undefined && sources.length > 0 && sources.every(volume => isOnlyOn(volume, node)) ? node : undefined
}

/** Whether a claim's volume is being provisioned before a pod uses it. `now`: ms since the epoch. */
export function provisionsWithoutPod(claim: PersistentVolumeClaim | undefined, now: number): boolean {
  if (claim?.metadata.annotations?.[selectedNodeAnnotation] === undefined) return false
  if ((claim.status?.phase ?? 'Pending') !== 'Pending') return false
  // A clock that is wrong must not keep the pod away.
  return Math.abs(now - Date.parse(claim.metadata.creationTimestamp ?? '')) < patienceMs
}
