/** The pods of a service. Kubernetes assigns their names and addresses. */
import { type Cluster, isClusterError, type Kinds } from '../cluster/index.ts'
import { labels, type ServiceType } from '../crds/index.ts'
import type { Instance } from './agents.ts'

/** The maximum number of pods. While a service is being replaced, it has old and new pods. */
const mostPods = 4

const createdAt = ({ metadata }: Kinds['Pod']): number => Date.parse(String(metadata.creationTimestamp ?? ''))

/** Returns the newest pods first. @throws ClusterError if the cluster cannot list the pods */
export async function servicePods(
  cluster: Cluster,
  { id, namespace }: Instance,
  service: ServiceType,
): Promise<Kinds['Pod'][]> {
  try {
    const { items } = await cluster.list('Pod', {
      namespace,
      labels: { [labels.database]: id, [labels.service]: service },
    })
    return items.toSorted((left, right) => createdAt(right) - createdAt(left)).slice(0, mostPods)
  } catch (error) {
    // The namespace does not exist, so no pod has run in it.
    if (isClusterError(error, 'NotFound')) return []
    throw error
  }
}
