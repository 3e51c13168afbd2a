/** Makes what another pass, or another process, may have made already. */
import { type Cluster, type Draft, isClusterError, type KindName } from '../../cluster/index.ts'

/** @returns false where there is one of this name already, whoever made it. @throws ClusterError but for that */
export async function createIfAbsent<K extends KindName>(
  cluster: Pick<Cluster, 'create'>,
  kind: K,
  draft: Draft<K>,
): Promise<boolean> {
  try {
    await cluster.create(kind, draft)
    return true
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return false
    throw error
  }
}
