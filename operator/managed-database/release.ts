/** The last step of a deletion: lets the database go, once nothing of it is left. */
import type { Cluster } from '../../cluster/index.ts'
import { type ManagedDatabase, teardownFinalizer } from '../../crds/index.ts'
import { deleteLeftovers } from '../workload/leftovers.ts'

/** @throws LeftoversError; ClusterError */
export async function finishDeletion(cluster: Cluster, database: ManagedDatabase): Promise<'released'> {
  await deleteLeftovers(cluster, database)
  const finalizers = database.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? []
  await cluster.replace('ManagedDatabase', { ...database, metadata: { ...database.metadata, finalizers } })
  return 'released'
}
