/** Executes the calls of the gateway's thread (remote-cluster.ts) on this thread's cluster. */
import { ClusterError } from '../../cluster/errors.ts'
import type { ConfigMap } from '../../cluster/kinds.ts'
import type { ListResult } from '../../cluster/port.ts'
import type { GatewayCluster } from '../../gateway/cluster.ts'
import type { ClusterAnswer, ClusterCall, ClusterRequest, Failure, WatchRequest } from './protocol.ts'

const failureOf = (error: unknown): Failure => {
  if (error instanceof ClusterError) return { reason: error.reason, message: error.message }
  return { message: error instanceof Error ? error.message : String(error) }
}

export function serveCluster(
  cluster: GatewayCluster,
  post: (answer: ClusterAnswer) => void,
): { receive(request: ClusterRequest): void; close(): void } {
  const watches = new Map<number, AbortController>()

  const make = async (call: ClusterCall): Promise<ListResult<ConfigMap> | undefined> => {
    if (call.method === 'list') return cluster.list('ConfigMap', call.options)
    if (call.method === 'apply') await cluster.apply('Lease', call.lease)
    else await cluster.delete('Lease', call.key)
    return undefined
  }
  const answer = async (id: number, call: ClusterCall): Promise<void> => {
    try {
      const list = await make(call)
      post({ type: 'answer', id, ...(list === undefined ? {} : { list }) })
    } catch (error) {
      post({ type: 'failure', id, failure: failureOf(error) })
    }
  }
  const watch = async (id: number, options: WatchRequest): Promise<void> => {
    const stopping = new AbortController()
    watches.set(id, stopping)
    try {
      for await (const event of cluster.watch('ConfigMap', { ...options, signal: stopping.signal }))
        post({ type: 'event', id, event })
      post({ type: 'end', id })
    } catch (error) {
      post({ type: 'failure', id, failure: failureOf(error) })
    }
    watches.delete(id)
  }

  return {
    receive: request => {
      if (request.type === 'call') void answer(request.id, request.call)
      else if (request.type === 'watch') void watch(request.id, request.options)
      else watches.get(request.id)?.abort()
    },
    close: () => {
      for (const stopping of watches.values()) stopping.abort()
    },
  }
}
