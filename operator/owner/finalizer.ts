/** The finalizer of an owner: it is added with the id, and removed once nothing that belongs to the owner is left. */
import type { Cluster, Kinds } from '../../cluster/index.ts'
import type { Backup } from '../../crds/index.ts'
import { identified, withoutFinalizer } from '../objects/finalizer.ts'
import type { Instance } from '../objects/instance.ts'
import { deleteLeftovers, LeftoversError } from '../workload/leftovers.ts'
import type { Observed } from '../workload/observed.ts'
import type { OwnerName } from './kind.ts'

/** @throws ClusterError */
export async function identify<K extends OwnerName>(
  cluster: Cluster,
  kind: K,
  object: Kinds[K],
  id: string,
): Promise<'replaced'> {
  await cluster.replace(kind, identified(object, id))
  return 'replaced'
}

/** @throws LeftoversError where something was left; ClusterError */
export async function finishDeletion<K extends OwnerName, O extends Observed>(
  cluster: Cluster,
  {
    kind,
    remainingBackups,
  }: { kind: K; remainingBackups: (cluster: Cluster, observed: O) => Promise<readonly Backup[]> },
  object: Kinds[K],
  observed: O,
): Promise<'replaced'> {
  await deleteRemains(cluster, observed.instance, () => remainingBackups(cluster, observed))
  await cluster.replace(kind, withoutFinalizer(object))
  return 'replaced'
}

/** Deletes what no cache knows of: children, and the backups that belong to the owner. @throws LeftoversError where there was any; ClusterError */
export async function deleteRemains(
  cluster: Cluster,
  instance: Instance,
  remainingBackups: () => Promise<readonly Backup[]>,
): Promise<void> {
  await deleteLeftovers(cluster, instance)
  const left = await remainingBackups()
  if (left.length === 0) return
  await Promise.all(left.map(({ metadata: { uid, ...key } }) => cluster.delete('Backup', key, { uid })))
  const names = left.map(({ metadata }) => metadata.name).join(', ')
  throw new LeftoversError(`deleted ${left.length} remaining backups: ${names}`)
}
