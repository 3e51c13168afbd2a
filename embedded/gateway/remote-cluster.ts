/**
 * The cluster as seen from the gateway's thread: each call is a message to the main thread, which executes it
 * (serve-cluster.ts).
 */
import { ClusterError } from '../../cluster/errors.ts'
import type { ConfigMap } from '../../cluster/kinds.ts'
import type { ListResult, WatchEvent, WatchOptions } from '../../cluster/port.ts'
import type { GatewayCluster } from '../../gateway/cluster.ts'
import type { ClusterAnswer, ClusterCall, ClusterRequest, Failure } from './protocol.ts'

const errorOf = ({ reason, message }: Failure): Error =>
  reason === undefined ? new Error(message) : new ClusterError(reason, message)

export function createRemoteCluster(post: (request: ClusterRequest) => void): {
  cluster: GatewayCluster
  receive(answer: ClusterAnswer): void
} {
  const receivers = new Map<number, (answer: ClusterAnswer) => void>()
  let lastId = 0

  const call = (what: ClusterCall): Promise<ListResult<ConfigMap> | undefined> =>
    new Promise((resolve, reject) => {
      const id = ++lastId
      receivers.set(id, answer => {
        receivers.delete(id)
        if (answer.type === 'failure') reject(errorOf(answer.failure))
        else resolve(answer.type === 'answer' ? answer.list : undefined)
      })
      post({ type: 'call', id, call: what })
    })

  async function* watch(_kind: 'ConfigMap', options: WatchOptions): AsyncGenerator<WatchEvent<ConfigMap>> {
    const { resourceVersion, namespace, labels, signal } = options
    if (signal.aborted) return
    const id = ++lastId
    const received: ClusterAnswer[] = []
    let wake = () => {}
    const abort = () => wake()
    receivers.set(id, answer => {
      received.push(answer)
      wake()
    })
    signal.addEventListener('abort', abort)
    post({ type: 'watch', id, options: { resourceVersion, namespace, labels } })
    try {
      while (!signal.aborted) {
        const answer = received.shift()
        if (answer === undefined) {
          await new Promise<void>(resolve => {
            wake = resolve
          })
        } else if (answer.type === 'event') yield answer.event
        else if (answer.type === 'failure') throw errorOf(answer.failure)
        else return
      }
    } finally {
      signal.removeEventListener('abort', abort)
      receivers.delete(id)
      post({ type: 'unwatch', id })
    }
  }

  return {
    receive: answer => receivers.get(answer.id)?.(answer),
    cluster: {
      list: async (_kind, options) => {
        const list = await call({ method: 'list', options })
        if (list === undefined) throw new Error('the main thread answered a list request without a list')
        return list
      },
      watch,
      apply: (_kind, lease) => call({ method: 'apply', lease }),
      delete: async (_kind, key) => void (await call({ method: 'delete', key })),
    },
  }
}
