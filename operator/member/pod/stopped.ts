/** The pods of one incarnation of a Postgres, by the cluster's own word. */
import type { Cluster, Pod } from '../../../cluster/index.ts'
import { childNames, labels } from '../../../crds/index.ts'

export type Incarnation = { namespace: string | undefined; id: string; incarnation: number }

/** The pods of one incarnation, as the cluster itself has them. */
export async function podsOfIncarnation(
  cluster: Cluster,
  { namespace, id, incarnation }: Incarnation,
): Promise<readonly Pod[]> {
  const { items } = await cluster.list('Pod', { namespace, labels: { [labels.database]: id } })
  return items.filter(pod => pod.metadata.name === childNames.pod(id, incarnation))
}
