/**
 * The lock that keeps an old Postgres from starting while a restore copies and replaces its volume: a pod of the very
 * name that its StatefulSet's pod has. The API server has one object of a name, so a StatefulSet controller that acts on
 * old news can make no pod on the volume. The lock is never given a node, and mounts nothing.
 */
import type { Cluster, Draft, KindName, Pod, StatefulSet } from '../../../cluster/index.ts'
import { apiVersion, childNames, labels, managedByEspalier, type ObjectMeta } from '../../../crds/index.ts'
import { createIfAbsent } from '../../objects/create.ts'
import type { MemberKey } from '../member.ts'
import { podSecurityContext, securityContext } from './security.ts'
import { podsOfMember } from './stopped.ts'

/** What holds a lock. */
type Holder = { kind: KindName; metadata: ObjectMeta }
/** On a lock: the uid of its holder. */
const lockLabel = 'espalier.dev/locked-by'
/** No node has it. Where a cluster knows no scheduling gates, it keeps a lock from every node by itself. */
const nowhere = { 'espalier.dev/lock': 'never-scheduled' }

/**
 * `running`: its pod is there, or its StatefulSet may still make one. `stopped`: neither, as far as its controller has
 * seen. `locked`: and none can be made.
 */
export type Stop = 'running' | 'stopped' | 'locked'

const isLockOf = ({ metadata, spec }: Pod, { metadata: { uid = '' } }: Holder): boolean =>
  metadata.labels?.[lockLabel] === uid && spec?.nodeName === undefined

/** The controller has seen the StatefulSet as it is now, and has no pod of it. */
const isScaledDown = ({ metadata, spec, status }: StatefulSet): boolean =>
  spec?.replicas === 0 &&
  status?.observedGeneration !== undefined &&
  status.observedGeneration >= (metadata.generation ?? 0) &&
  (status.replicas ?? 0) === 0

/** How a Postgres stands that a restore stops, by the cluster's own word. */
export async function stopOf(cluster: Cluster, of: MemberKey, holder: Holder): Promise<Stop> {
  const { namespace, id, incarnation, number } = of
  const set = await cluster.get('StatefulSet', { namespace, name: childNames.statefulSet(id, incarnation, number) })
  if (set !== undefined && !isScaledDown(set)) return 'running'
  if ((await podsOfMember(cluster, of)).length > 0) return 'running'
  const pod = await cluster.get('Pod', { namespace, name: childNames.pod(id, incarnation, number) })
  if (pod === undefined) return set === undefined ? 'locked' : 'stopped'
  return isLockOf(pod, holder) && pod.metadata.deletionTimestamp === undefined ? 'locked' : 'running'
}

/** The lock that a holder has; undefined where there is none. */
export async function lockOf(cluster: Cluster, of: MemberKey, holder: Holder): Promise<Pod | undefined> {
  const name = childNames.pod(of.id, of.incarnation, of.number)
  const pod = await cluster.get('Pod', { namespace: of.namespace, name })
  return pod !== undefined && isLockOf(pod, holder) ? pod : undefined
}

/** Takes the lock, unless a pod has the name: the next pass sees which. */
export async function lock(cluster: Cluster, of: MemberKey, holder: Holder): Promise<void> {
  const { namespace, id, incarnation, number } = of
  const set = await cluster.get('StatefulSet', { namespace, name: childNames.statefulSet(id, incarnation, number) })
  if (set !== undefined) await createIfAbsent(cluster, 'Pod', lockDraft(of, set, holder))
}

/** It asks for what the pod that it stands for asks for, so that whoever admits the one admits the other. */
function lockDraft(
  { namespace = '', id, incarnation, number }: MemberKey,
  { spec }: StatefulSet,
  { kind, metadata: { name, uid = '', labels: marks } }: Holder,
): Draft<'Pod'> {
  const [container] = spec?.template.spec?.containers ?? []
  const tenant = marks?.[labels.tenant]
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
      // It holds no data: where somebody removes the holder's finalizer, the lock is deleted with the holder.
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
