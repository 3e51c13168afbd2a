/**
 * Finds the replica that has the tasks, or the calls waiting for input, that a request of 2026-07-28 names. Each of
 * them exists in one process's memory.
 */
import type { Process } from '../http/peers/handles.ts'
import type { Peers } from '../http/peers/index.ts'
import { isObject, type RequestMessage } from './json-rpc.ts'

type Named = { readonly kind: 'task' | 'state'; readonly handle: string }

function handlesIn({ method, params }: RequestMessage): readonly Named[] {
  const { taskId, requestState, notifications } = params
  const listened = method === 'subscriptions/listen' && isObject(notifications) ? notifications.taskIds : []
  const tasks = method.startsWith('tasks/') ? [taskId] : Array.isArray(listened) ? listened : []
  const named = (kind: Named['kind'], all: readonly unknown[]) =>
    all.flatMap((handle): Named[] => (typeof handle === 'string' ? [{ kind, handle }] : []))
  return [...named('task', tasks), ...named('state', [requestState])]
}

/**
 * Returns the owner of the first handle that another replica owns. Returns undefined if this process or no process owns
 * the handles.
 */
export function ownerOf(message: RequestMessage, peers: Pick<Peers, 'read'>): Process | undefined {
  for (const { kind, handle } of handlesIn(message)) {
    const { owner } = peers.read(kind, handle)
    if (owner !== undefined) return owner
  }
  return undefined
}
