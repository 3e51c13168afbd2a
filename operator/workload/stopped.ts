/** Whether a Postgres has stopped for good, by the cluster's own word. */
import type { Cluster, Pod } from '../../cluster/index.ts'
import { childNames, labels } from '../../crds/index.ts'

type Incarnation = { namespace: string | undefined; id: string; incarnation: number }

/** The pods of one incarnation, as the cluster itself has them. */
export async function podsOfIncarnation(
  cluster: Cluster,
  { namespace, id, incarnation }: Incarnation,
): Promise<readonly Pod[]> {
  const { items } = await cluster.list('Pod', { namespace, labels: { [labels.database]: id } })
  return items.filter(pod => pod.metadata.name === childNames.pod(id, incarnation))
}

/** Whether no pod of an incarnation is there, and none comes as long as its owner is fenced off. */
export async function isStoppedIncarnation(cluster: Cluster, of: Incarnation): Promise<boolean> {
  const { namespace, id, incarnation } = of
  const set = await cluster.get('StatefulSet', { namespace, name: childNames.statefulSet(id, incarnation) })
  if (set !== undefined && set.metadata.deletionTimestamp === undefined && set.spec?.replicas !== 0) return false
  return (await podsOfIncarnation(cluster, of)).length === 0
}
