/** Repairs a member's running pod, and checks whether the operator may stop a pod. */
import { type Cluster, ClusterError, type Draft } from '../../../cluster/index.ts'
import type { ApplyAction, DeleteAction } from '../../children/actions.ts'
import type { ObservedMember } from '../observed.ts'
import { volumeStateOf } from '../storage/plan/volume-state.ts'
import type { PodAction } from './actions.ts'

/**
 * Restores the pod's labels, annotations and images in one write. The kubelet restarts a container whose image changes.
 */
export async function repairPod(
  cluster: Cluster,
  { name, namespace, uid, labels, images, annotations }: PodAction,
): Promise<void> {
  const pod = await cluster.get('Pod', { namespace, name })
  if (pod?.spec === undefined || pod.metadata.uid !== uid) return
  const withImages = <C extends { name: string; image?: string }>(containers: C[]): C[] =>
    containers.map(container => ({ ...container, ...(images[container.name] && { image: images[container.name] }) }))
  const { containers, initContainers } = pod.spec
  await cluster.replace('Pod', {
    ...pod,
    metadata: {
      ...pod.metadata,
      labels: { ...pod.metadata.labels, ...labels },
      annotations: { ...pod.metadata.annotations, ...annotations },
    },
    spec: {
      ...pod.spec,
      containers: withImages(containers),
      ...(initContainers && { initContainers: withImages(initContainers) }),
    },
  })
}

/** Whether the action stops a pod: it deletes the pod, or sets its StatefulSet to no replicas. */
export const stopsPod = (action: ApplyAction | DeleteAction): boolean =>
  action.do === 'delete'
    ? action.kind === 'Pod'
    : action.kind === 'StatefulSet' && (action.draft as Draft<'StatefulSet'>).spec?.replicas === 0

/**
 * Reads claim and volume from the cluster before the operator stops a pod, because a cache can lag behind a deletion.
 * @throws ClusterError `Conflict` if one of them was deleted or is being deleted, or if the claim was replaced
 */
export async function checkVolumeStays(cluster: Cluster, observed: ObservedMember): Promise<void> {
  const { instance, children, pod } = observed
  const { claim } = children
  if (pod === undefined || claim === undefined || instance.status?.volume === undefined) return
  if (instance.metadata.deletionTimestamp !== undefined || volumeStateOf(observed) !== 'safe') return
  const found = await cluster.get('PersistentVolumeClaim', claim.metadata)
  const isThere = found?.metadata.uid === claim.metadata.uid && found?.metadata.deletionTimestamp === undefined
  const name = claim.spec?.volumeName
  if (isThere && (name === undefined || (await volumeStays(cluster, name)))) return
  throw new ClusterError(
    'Conflict',
    `the volume claim ${claim.metadata.name} or its volume was deleted or replaced, or is being deleted: the operator does not stop the pod`,
  )
}

/** Whether a volume exists and is not being deleted. */
async function volumeStays(cluster: Cluster, name: string): Promise<boolean> {
  const volume = await cluster.get('PersistentVolume', { name })
  return volume !== undefined && volume.metadata.deletionTimestamp === undefined
}
