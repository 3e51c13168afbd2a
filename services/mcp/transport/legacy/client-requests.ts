/**
 * Sends the server's requests to the client of a session, and matches the responses with the requests. Uses only the
 * first response to a request. Every request has a timeout. If the server abandons a request, it notifies the client.
 */

import { ProtocolError } from '../../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import { isObject, type RequestId, type ResponseMessage, type ServerMessage } from '../../../mcp-protocol/json-rpc.ts'
import type { LegacyVersion } from '../../../mcp-protocol/versions.ts'
import type { InputRequest } from '../../core/call.ts'

/** The timeout is long, because a person may have to answer the request. */
const maximumWaitMs = 600_000

type Waiting = { resolve(result: JsonObject): void; reject(error: unknown): void }

export class ClientRequests {
  readonly #waiting = new Map<RequestId, Waiting>()

  /** @throws ProtocolError if the client fails or does not answer. @throws the abort reason of `signal` */
  send(
    { method, params }: InputRequest,
    version: LegacyVersion,
    send: (message: ServerMessage) => void,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    // The prefix and the UUID distinguish this id from ids of the client's requests. The id is no secret.
    const id = `server-${crypto.randomUUID()}`
    const isUrl = method === 'elicitation/create' && params.mode === 'url' && version === '2025-11-25'
    const all = isUrl && params.elicitationId === undefined ? { ...params, elicitationId: id } : params
    return new Promise<JsonObject>((resolve, reject) => {
      const withdraw = (error: unknown) => {
        const params = { requestId: id, reason: 'the request was abandoned' }
        send({ method: 'notifications/cancelled', params })
        end(() => reject(error))
      }
      const onAbort = () => withdraw(signal.reason)
      const timer = setTimeout(
        () => withdraw(new ProtocolError({ kind: 'no answer', problem: 'the client did not answer in time' })),
        maximumWaitMs,
      )
      const end = (settle: () => void) => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        this.#waiting.delete(id)
        settle()
      }
      if (signal.aborted) return end(() => reject(signal.reason))
      signal.addEventListener('abort', onAbort)
      this.#waiting.set(id, {
        resolve: result => end(() => resolve(result)),
        reject: error => end(() => reject(error)),
      })
      send({ id, method, params: all })
    })
  }

  /** Ignores a response to an unknown request. */
  settle({ id, outcome }: ResponseMessage): void {
    const waiting = id === null ? undefined : this.#waiting.get(id)
    if (isObject(outcome.result)) waiting?.resolve(outcome.result)
    else waiting?.reject(new ProtocolError({ kind: 'no answer', problem: `the client failed: ${reasonOf(outcome)}` }))
  }
}

function reasonOf({ error }: ResponseMessage['outcome']): string {
  if (error === undefined) return 'its result is not an object'
  return typeof error.message === 'string' ? truncate(error.message) : 'no reason given'
}

const truncate = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}...` : text)
