/** Deletes a previous volume. Deleted data are lost and a cache may lag, so this reads the cluster. */
import type { Cluster } from '../../cluster/index.ts'
import { childNames, labels, type ManagedDatabase, memberOfClaim } from '../../crds/index.ts'
import type { MemberKey } from '../member/member.ts'
import { podsOfMember } from '../member/pod/stopped.ts'
import { ownerUidOf } from '../objects/ownership.ts'
import type { OwnAction } from './actions.ts'

type Deletion = Extract<OwnAction, { do: 'delete-previous' }>

/** Keeps the volume if any check fails: the next pass decides again. @throws ClusterError */
export async function deletePrevious(
  cluster: Cluster,
  database: ManagedDatabase,
  { volume, backup }: Deletion,
): Promise<void> {
  const { namespace, uid, labels: objectLabels } = database.metadata
  const id = objectLabels?.[labels.id] ?? ''
  const current = await cluster.get('ManagedDatabase', database.metadata)
  const { status, metadata } = current ?? {}
  const serves = status?.volume?.uid === volume.uid || (status?.incarnation ?? 1) === volume.incarnation
  if (metadata?.uid !== uid || serves) return
  if (backup !== undefined && !(await isCompleted(cluster, namespace, backup))) return
  const member = { namespace, id, incarnation: volume.incarnation, number: memberOfClaim(volume.claim) }
  const remaining = await remainingOf(cluster, member, uid ?? '')
  for (const { kind, metadata } of remaining)
    await cluster.delete(kind, { namespace, name: metadata.name }, { uid: metadata.uid })
  const pods = await podsOfMember(cluster, member)
  if (remaining.length > 0 || pods.length > 0) return
  await cluster.delete('PersistentVolumeClaim', { namespace, name: volume.claim }, { uid: volume.uid })
}

/** The objects of the previous Postgres that the Restore has not deleted. */
async function remainingOf(cluster: Cluster, { namespace, id, incarnation, number }: MemberKey, uid: string) {
  const names = {
    StatefulSet: childNames.statefulSet(id, incarnation, number),
    ConfigMap: childNames.configuration(id, incarnation, number),
  } as const
  const found = await Promise.all(
    (['StatefulSet', 'ConfigMap'] as const).map(async kind => {
      const object = await cluster.get(kind, { namespace, name: names[kind] })
      return object !== undefined && ownerUidOf(object) === uid ? [{ kind, metadata: object.metadata }] : []
    }),
  )
  return found.flat()
}

async function isCompleted(
  cluster: Cluster,
  namespace: string | undefined,
  { name, uid }: NonNullable<Deletion['backup']>,
): Promise<boolean> {
  const found = await cluster.get('Backup', { namespace, name })
  const isSame = found?.metadata.uid === uid && found?.metadata.deletionTimestamp === undefined
  return isSame && found?.status?.phase === 'completed'
}
