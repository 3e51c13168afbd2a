/** The finalizer of an owner. The operator adds it with the id, and removes it when no object of the owner remains. */
import type { AnyObject, Cluster, Kinds } from '../../cluster/index.ts'
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

/** @throws LeftoversError if an object remained; ClusterError */
export async function finishDeletion<K extends OwnerName, O extends Observed>(
  cluster: Cluster,
  {
    kind,
    remainingBackups,
    outlives,
  }: {
    kind: K
    remainingBackups: (cluster: Cluster, observed: O) => Promise<readonly Backup[]>
    outlives?: (observed: O, object: AnyObject) => boolean
  },
  object: Kinds[K],
  observed: O,
): Promise<'replaced'> {
  await deleteRemains(
    cluster,
    observed.instance,
    () => remainingBackups(cluster, observed),
    object => outlives?.(observed, object) === true,
  )
  await cluster.replace(kind, withoutFinalizer(object))
  return 'replaced'
}

/**
 * Deletes the owner's children and backups that are in the cluster but in no cache.
 * @throws LeftoversError if there were any; ClusterError
 */
export async function deleteRemains(
  cluster: Cluster,
  instance: Instance,
  remainingBackups: () => Promise<readonly Backup[]>,
  outlives?: (object: AnyObject) => boolean,
): Promise<void> {
  await deleteLeftovers(cluster, instance, outlives)
  const remaining = await remainingBackups()
  if (remaining.length === 0) return
  await Promise.all(remaining.map(({ metadata: { uid, ...key } }) => cluster.delete('Backup', key, { uid })))
  const names = remaining.map(({ metadata }) => metadata.name).join(', ')
  throw new LeftoversError(`deleted ${remaining.length} remaining backups: ${names}`)
}
