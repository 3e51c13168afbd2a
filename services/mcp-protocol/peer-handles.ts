/** What a request of 2026-07-28 names that is in the memory of one process: tasks, and calls that wait for input. */
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

/** The replica that has what it names; of several the first. undefined: this process, or none. */
export function ownerOf(message: RequestMessage, peers: Pick<Peers, 'read'>): Process | undefined {
  for (const { kind, handle } of handlesIn(message)) {
    const { owner } = peers.read(kind, handle)
    if (owner !== undefined) return owner
  }
  return undefined
}
