/**
 * The node of a pod, which the operator reads if the pod terminates or the node does not respond. Only an administrator
 * who turns off an unresponsive node knows that Postgres no longer runs there. So the operator never treats such a pod
 * as dead.
 */
import { type Cluster, isClusterError, type Node } from '../../../cluster/index.ts'
import type { PodFacts } from './pod.ts'

export type NodeFacts = {
  name: string
  /** Time since which the kubelet has not responded, RFC 3339; empty if unknown, absent if the kubelet responds. */
  silentSince: string | undefined
  /**
   * An administrator has tainted the node as out of service. Kubernetes then deletes its pods and detaches their
   * volumes.
   */
  isOutOfService: boolean
}

export const outOfServiceTaint = 'node.kubernetes.io/out-of-service'

export function nodeFacts({ metadata, spec, status }: Node): NodeFacts {
  const ready = status?.conditions?.find(condition => condition.type === 'Ready')
  // A responding kubelet reports `False`. The cluster sets `Unknown` if the kubelet does not respond.
  const isSilent = ready?.status === 'Unknown'
  return {
    name: metadata.name,
    silentSince: isSilent ? (ready.lastTransitionTime ?? ready.lastHeartbeatTime ?? '') : undefined,
    isOutOfService: spec?.taints?.some(taint => taint.key === outOfServiceTaint) === true,
  }
}

/** Reads the node if the state of the pod requires it; undefined otherwise, or if the node does not exist. */
export async function nodeOf(cluster: Cluster, pod: PodFacts | undefined): Promise<NodeFacts | undefined> {
  if (pod?.node === undefined || !(pod.terminating || pod.isNodeSilent)) return undefined
  try {
    const node = await cluster.get('Node', { name: pod.node })
    return node && nodeFacts(node)
  } catch (error) {
    // Without permission to read nodes, the operator still manages databases.
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
    : `node ${name} has not responded${silentSince === '' ? '' : ` since ${silentSince}`}, and Postgres may still run there: the operator does not start a second Postgres on its data. ` +
      `Start the node again. If you are certain that its machine is off: kubectl taint nodes ${name} ${outOfServiceTaint}=nodeshutdown:NoExecute`
  return { reason: 'NodeLost', message }
}
