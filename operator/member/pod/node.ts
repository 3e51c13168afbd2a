/**
 * The node of a pod that is not heard of. Whether its Postgres still runs there, nobody can tell but the node itself or
 * whoever switches the machine off: so nothing here ever takes a pod for dead.
 */
import { type Cluster, isClusterError, type Node } from '../../../cluster/index.ts'
import type { PodFacts } from './pod.ts'

export type NodeFacts = {
  name: string
  /** Since when its kubelet has said nothing, RFC 3339; absent where it does. */
  silentSince: string | undefined
  /** Somebody has said that the machine is off: Kubernetes gives up its pods and detaches their volumes. */
  isOutOfService: boolean
}

export const outOfServiceTaint = 'node.kubernetes.io/out-of-service'

export function nodeFacts({ metadata, spec, status }: Node): NodeFacts {
  const ready = status?.conditions?.find(condition => condition.type === 'Ready')
  // `False` comes from the kubelet, which is there then; `Unknown` from the cluster, which has not heard from it.
  const isSilent = ready?.status === 'Unknown'
  return {
    name: metadata.name,
    silentSince: isSilent ? (ready.lastTransitionTime ?? ready.lastHeartbeatTime ?? 'some time ago') : undefined,
    isOutOfService: spec?.taints?.some(taint => taint.key === outOfServiceTaint) === true,
  }
}

/** Looks at the node where the pod gives reason to: undefined where it gives none, or where there is no such node. */
export async function nodeOf(cluster: Cluster, pod: PodFacts | undefined): Promise<NodeFacts | undefined> {
  if (pod?.node === undefined || !(pod.terminating || pod.isUnheardOf)) return undefined
  try {
    const node = await cluster.get('Node', { name: pod.node })
    return node && nodeFacts(node)
  } catch (error) {
    // An operator that may not read nodes manages databases all the same.
    if (isClusterError(error, 'Forbidden')) return undefined
    throw error
  }
}

/** What is said of a database whose pod is on a node that is silent. */
export function lostNode(node: NodeFacts | undefined): { reason: 'NodeLost'; message: string } | undefined {
  if (node?.silentSince === undefined) return undefined
  const { name, silentSince } = node
  const message = node.isOutOfService
    ? `node ${name} is out of service: Kubernetes gives up its pod and detaches the volume, and Postgres starts elsewhere`
    : `nothing has been heard of node ${name} since ${silentSince}, and Postgres may still run there: no second one is started on its data. ` +
      `Bring the node back; or, once it is certain that its machine is off: kubectl taint nodes ${name} ${outOfServiceTaint}=nodeshutdown:NoExecute`
  return { reason: 'NodeLost', message }
}
