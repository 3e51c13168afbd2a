/**
 * The lock that prevents an old Postgres from starting while a restore copies and replaces its volume. The lock is a
 * pod with the same name as the StatefulSet's pod. Object names are unique, so a StatefulSet controller with a stale
 * cache cannot create a pod on the volume. The lock pod is never scheduled, and mounts nothing.
 */
import type { Cluster, Draft, KindName, Pod, StatefulSet } from '../../../cluster/index.ts'
import { apiVersion, childNames, labels, managedByEspalier, type ObjectMeta } from '../../../crds/index.ts'
import { createIfAbsent } from '../../objects/create.ts'
import type { MemberKey } from '../member.ts'
import { podSecurityContext, securityContext } from './security.ts'
import { podsOfMember } from './stopped.ts'

/** The object that holds a lock, for example a Restore. */
type Holder = { kind: KindName; metadata: ObjectMeta }
/** Label of a lock: the uid of its holder. */
const lockLabel = 'espalier.dev/locked-by'
/**
 * The lock's node selector, which matches no node. The selector prevents scheduling in clusters without scheduling
 * gates.
 */
const nowhere = { 'espalier.dev/lock': 'never-scheduled' }

/**
 * `running`: the pod exists, or the StatefulSet may still create one. `stopped`: no pod exists, and the StatefulSet
 * controller has confirmed that it will create none. `locked`: stopped, and no pod can be created.
 */
export type Stop = 'running' | 'stopped' | 'locked'

const isLockOf = ({ metadata, spec }: Pod, { metadata: { uid = '' } }: Holder): boolean =>
  metadata.labels?.[lockLabel] === uid && spec?.nodeName === undefined

/** The StatefulSet controller has observed the current StatefulSet, and the StatefulSet has no pod. */
const isScaledDown = ({ metadata, spec, status }: StatefulSet): boolean =>
  spec?.replicas === 0 &&
  status?.observedGeneration !== undefined &&
  status.observedGeneration >= (metadata.generation ?? 0) &&
  (status.replicas ?? 0) === 0

/** Reads from the cluster whether this member's Postgres has stopped, for a restore. */
export async function stopOf(cluster: Cluster, of: MemberKey, holder: Holder): Promise<Stop> {
  const { namespace, id, incarnation, number } = of
  const set = await cluster.get('StatefulSet', { namespace, name: childNames.statefulSet(id, incarnation, number) })
  if (set !== undefined && !isScaledDown(set)) return 'running'
  if ((await podsOfMember(cluster, of)).length > 0) return 'running'
  const pod = await cluster.get('Pod', { namespace, name: childNames.pod(id, incarnation, number) })
  if (pod === undefined) return set === undefined ? 'locked' : 'stopped'
  return isLockOf(pod, holder) && pod.metadata.deletionTimestamp === undefined ? 'locked' : 'running'
}

/** The lock of a holder; undefined if there is none. */
export async function lockOf(cluster: Cluster, of: MemberKey, holder: Holder): Promise<Pod | undefined> {
  const name = childNames.pod(of.id, of.incarnation, of.number)
  const pod = await cluster.get('Pod', { namespace: of.namespace, name })
  return pod !== undefined && isLockOf(pod, holder) ? pod : undefined
}

/** Creates the lock, unless a pod with the lock's name exists. The next pass checks whether that pod is the lock. */
export async function lock(cluster: Cluster, of: MemberKey, holder: Holder): Promise<void> {
  const { namespace, id, incarnation, number } = of
  const set = await cluster.get('StatefulSet', { namespace, name: childNames.statefulSet(id, incarnation, number) })
  if (set !== undefined) await createIfAbsent(cluster, 'Pod', lockDraft(of, set, holder))
}

/**
 * The lock has the same resource requests as the pod that it replaces, so that a quota admits the lock if it admits the
 * pod.
 */
function lockDraft(
  { namespace = '', id, incarnation, number }: MemberKey,
  { spec }: StatefulSet,
  { kind, metadata: { name, uid = '', labels: objectLabels } }: Holder,
): Draft<'Pod'> {
  const [container] = spec?.template.spec?.containers ?? []
  const tenant = objectLabels?.[labels.tenant]
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      namespace,
      name: childNames.pod(id, incarnation, number),
      labels: {
        [labels.managedBy]: managedByEspalier,
        [lockLabel]: uid,
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
      // The lock protects no data, so the garbage collector may delete the lock after the deletion of the lock's
      // holder.
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    spec: {
      schedulingGates: [{ name: 'espalier.dev/lock' }],
      nodeSelector: nowhere,
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: podSecurityContext,
      containers: [
        {
          name: 'lock',
          image: container?.image ?? 'espalier.dev/lock',
          command: ['false'],
          ...(container?.resources === undefined ? {} : { resources: container.resources }),
          securityContext,
        },
      ],
    },
  }
}
