/**
 * The node of a pod whose kubelet does not respond. Only the node itself, or an administrator who turns the machine off,
 * can know whether Postgres still runs there: so the operator never treats a pod as dead.
 */
import { type Cluster, isClusterError, type Node } from '../../../cluster/index.ts'
import type { PodFacts } from './pod.ts'

export type NodeFacts = {
  name: string
  /** Since when its kubelet has not responded, RFC 3339; absent if it responds. */
  silentSince: string | undefined
  /** An administrator has declared the machine off: Kubernetes deletes its pods and detaches their volumes. */
  isOutOfService: boolean
}

export const outOfServiceTaint = 'node.kubernetes.io/out-of-service'

export function nodeFacts({ metadata, spec, status }: Node): NodeFacts {
  const ready = status?.conditions?.find(condition => condition.type === 'Ready')
  // `False` comes from a responding kubelet; `Unknown` is set by the cluster if the kubelet does not respond.
  const isSilent = ready?.status === 'Unknown'
  return {
    name: metadata.name,
    silentSince: isSilent ? (ready.lastTransitionTime ?? ready.lastHeartbeatTime ?? 'an unknown time') : undefined,
    isOutOfService: spec?.taints?.some(taint => taint.key === outOfServiceTaint) === true,
  }
}

/** Reads the node if the state of the pod requires it; undefined if not, or if there is no such node. */
export async function nodeOf(cluster: Cluster, pod: PodFacts | undefined): Promise<NodeFacts | undefined> {
  if (pod?.node === undefined || !(pod.terminating || pod.isNodeSilent)) return undefined
  try {
    const node = await cluster.get('Node', { name: pod.node })
    return node && nodeFacts(node)
  } catch (error) {
    // An operator that may not read nodes still manages databases.
    if (isClusterError(error, 'Forbidden')) return undefined
    throw error
  }
}

/** The message for a database whose pod is on a silent node. */
export function lostNode(node: NodeFacts | undefined): { reason: 'NodeLost'; message: string } | undefined {
  if (node?.silentSince === undefined) return undefined
  const { name, silentSince } = node
  const message = node.isOutOfService
    ? `node ${name} is out of service: Kubernetes deletes its pod and detaches the volume, and Postgres starts on another node`
    : `node ${name} has not responded since ${silentSince}, and Postgres may still run there: no second Postgres is started on its data. ` +
      `Start the node again; or, once it is certain that its machine is off: kubectl taint nodes ${name} ${outOfServiceTaint}=nodeshutdown:NoExecute`
  return { reason: 'NodeLost', message }
}
