/**
 * One client over stdio. The client's first request or notification, except a modern `server/discover`, decides the
 * group of revisions (`Era`). A cancelled request receives no response. A bridge connects many clients through one pair
 * of pipes, and each of these clients has its own `Connection`.
 */

import { declaresVersion } from '../../mcp-protocol/envelope.ts'
import { invalidFault, ProtocolError } from '../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import {
  errorText,
  isObject,
  type Received,
  type RequestId,
  type RequestMessage,
  type ServerMessage,
} from '../../mcp-protocol/json-rpc.ts'
import type { Requester } from './context.ts'
import { modernError } from './errors.ts'
import type { Transports } from './index.ts'
import { LegacySession } from './legacy/session.ts'

/** The caller of a message. The address is the client's address, if a bridge reports it. */
export type Sender = Pick<Requester, 'caller' | 'address'>

type Era = 'open' | 'legacy' | 'modern'

/** The maximum number of concurrent requests of one connection. */
const maximumRunning = 256

export class Connection {
  readonly #transports: Transports
  readonly #send: (message: ServerMessage) => void
  readonly #experimental: JsonObject
  readonly #running = new Map<RequestId, AbortController>()
  readonly #over = new AbortController()
  #era: Era = 'open'
  /** Handles the messages of an older client. Before the era is known, also handles responses and invalid messages. */
  #legacy: LegacySession | undefined

  constructor(transports: Transports, send: (message: ServerMessage) => void, experimental: JsonObject) {
    this.#transports = transports
    this.#send = send
    this.#experimental = experimental
  }

  /** Whether the connection has no state that a later message could need. */
  get isIdle(): boolean {
    return this.#era !== 'legacy' && this.#running.size === 0
  }

  /** Returns the response; undefined if the message has none. */
  async receive(message: Received, sender: Sender): Promise<string | undefined> {
    if (this.#eraOf(message) === 'modern') return this.#receiveModern(message, sender)
    this.#legacy ??= new LegacySession({ ...this.#transports, send: this.#send, experimental: this.#experimental })
    return this.#legacy.receive(message, { ...sender, signal: this.#over.signal, notify: undefined })
  }

  close(): void {
    const reason = new Error('the client has disconnected')
    this.#over.abort(reason)
    this.#legacy?.close()
    for (const controller of this.#running.values()) controller.abort(reason)
  }

  /** A client may send `server/discover` before it chooses a revision, so this request does not decide the era. */
  #eraOf(message: Received): Era {
    if (this.#era !== 'open') return this.#era
    if (message.kind === 'response' || message.kind === 'invalid') return 'legacy'
    if (!declaresVersion(message.params)) {
      this.#era = 'legacy'
      return 'legacy'
    }
    if (message.method !== 'server/discover') {
      this.#era = 'modern'
      // Modern clients receive changes only through subscriptions.
      this.#legacy?.close()
    }
    return 'modern'
  }

  async #receiveModern(message: Received, sender: Sender): Promise<string | undefined> {
    switch (message.kind) {
      case 'request':
        return this.#answer(message, sender)
      case 'notification':
        if (message.method === 'notifications/cancelled') this.#cancel(message.params.requestId)
        return undefined
      case 'response':
        return undefined
      case 'invalid':
        return refusal(message.id, invalidFault(message))
    }
  }

  async #answer(request: RequestMessage, sender: Sender): Promise<string | undefined> {
    const { id, method, params } = request
    if (method === 'initialize' && !isObject(params._meta)) {
      const { protocolVersion } = params
      return refusal(id, {
        kind: 'unsupported version',
        requested: typeof protocolVersion === 'string' ? protocolVersion : undefined,
      })
    }
    if (this.#running.has(id))
      return refusal(id, { kind: 'invalid request', problem: 'a request with this id is running' })
    if (this.#running.size >= maximumRunning)
      return refusal(id, { kind: 'exhausted', problem: `at most ${maximumRunning} requests may run at the same time` })
    const controller = new AbortController()
    this.#running.set(id, controller)
    const { signal } = controller
    try {
      const requester = { ...sender, signal, notify: this.#send, headers: undefined }
      const { text } = await this.#transports.modern.answer(request, requester)
      return signal.aborted ? undefined : text
    } finally {
      this.#running.delete(id)
    }
  }

  #cancel(id: unknown): void {
    if (typeof id === 'string' || typeof id === 'number')
      this.#running.get(id)?.abort(new Error('the client has cancelled the request'))
  }
}

const refusal = (id: RequestId | undefined, fault: ProtocolError['fault']): string =>
  errorText(id, modernError(new ProtocolError(fault), '').error)
