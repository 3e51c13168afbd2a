/**
 * The bridge as one of several replicas. It forwards a request to the replica that has the request's session, task or
 * call. In responses, it adds this process's address to the tool server's task ids and call states. In requests, it
 * removes the address.
 */

import type { HttpResponse, RequestHead } from '../http/message.ts'
import type { Process } from '../http/peers/handles.ts'
import { PeerFailure, type Peers } from '../http/peers/index.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import { isObject, type Message, type RequestMessage, type ResponseMessage } from '../mcp-protocol/json-rpc.ts'
import { ownerOf } from '../mcp-protocol/peer-handles.ts'
import { BridgeRefusal } from './errors.ts'

type ForwardedRequest = { readonly head: RequestHead; readonly body: Buffer; readonly signal: AbortSignal }
type Handed = (kind: 'task' | 'state', handle: string) => string

export class Replicas {
  readonly #peers: Peers | undefined

  constructor(peers: Peers | undefined) {
    this.#peers = peers
  }

  sessionId(random: string): string {
    return this.#peers?.mint('session', random) ?? random
  }

  /** Returns the replica that has the session, if it is not this process. */
  ownerOfSession(id: string, head: RequestHead): Process | undefined {
    return this.#peers?.isForwarded(head) ? undefined : this.#peers?.read('session', id).owner
  }

  ownerOf(message: RequestMessage, head: RequestHead): Process | undefined {
    return this.#peers === undefined || this.#peers.isForwarded(head) ? undefined : ownerOf(message, this.#peers)
  }

  /** Returns undefined if that replica no longer runs. @throws BridgeRefusal */
  async forward(to: Process, forwarded: ForwardedRequest): Promise<HttpResponse | undefined> {
    try {
      return await this.#peers?.forward(to, forwarded)
    } catch (error) {
      if (error instanceof PeerFailure) throw new BridgeRefusal({ status: 502 }, error.message)
      throw error
    }
  }

  /** Translates clients' handles to the tool server's handles. */
  inward(message: RequestMessage): RequestMessage {
    const peers = this.#peers
    if (peers === undefined) return message
    const params = renamed(message.params, (kind, handle) => peers.read(kind, handle).inner)
    return { ...message, params }
  }

  /** Translates the tool server's handles to clients' handles. */
  answer({ method }: RequestMessage, response: ResponseMessage): ResponseMessage {
    const { result } = response.outcome
    if (this.#peers === undefined || !isObject(result)) return response
    const { resultType } = result
    const isHandle = resultType === 'task' || resultType === 'input_required' || method.startsWith('tasks/')
    if (!isHandle) return response
    return { ...response, outcome: { result: renamed(result, this.#minted(this.#peers)) } }
  }

  notice(message: Message): Message {
    if (this.#peers === undefined || message.kind !== 'notification') return message
    if (!/^notifications\/(tasks|subscriptions\/acknowledged)$/.test(message.method)) return message
    return { ...message, params: renamed(message.params, this.#minted(this.#peers)) }
  }

  #minted(peers: Peers): Handed {
    return (kind, handle) => peers.mint(kind, handle)
  }
}

/** Handles have the same field names in results, parameters and notifications. */
function renamed(members: JsonObject, handed: Handed): JsonObject {
  const { taskId, requestState, notifications } = members
  const ids = isObject(notifications) ? notifications.taskIds : undefined
  return {
    ...members,
    ...(typeof taskId === 'string' && { taskId: handed('task', taskId) }),
    ...(typeof requestState === 'string' && { requestState: handed('state', requestState) }),
    ...(isObject(notifications) &&
      Array.isArray(ids) && {
        notifications: {
          ...notifications,
          taskIds: ids.map(id => (typeof id === 'string' ? handed('task', id) : id)),
        },
      }),
  }
}
