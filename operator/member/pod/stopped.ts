import type { Cluster, Pod } from '../../../cluster/index.ts'
import { childNames, labels } from '../../../crds/index.ts'
import type { MemberKey } from '../member.ts'

/** The pods of one member, read from the cluster. */
export async function podsOfMember(
  cluster: Cluster,
  { namespace, id, incarnation, number }: MemberKey,
): Promise<readonly Pod[]> {
  const { items } = await cluster.list('Pod', { namespace, labels: { [labels.database]: id } })
  return items.filter(pod => pod.metadata.name === childNames.pod(id, incarnation, number))
}
