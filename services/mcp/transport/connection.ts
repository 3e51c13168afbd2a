/**
 * One client over stdio: its first message fixes which era it speaks, and what it cancels is answered no more. A bridge has many such clients behind one
 * pair of pipes, each with a connection of its own.
 */

import { hasClaim } from '../../mcp-protocol/envelope.ts'
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
import type { Asking } from './context.ts'
import { modernError } from './errors.ts'
import type { Transports } from './index.ts'
import { LegacySession } from './legacy/session.ts'

/** Who sends a message, and from where, where a bridge says so. */
export type Asker = Pick<Asking, 'caller' | 'address'>

type Era = 'open' | 'legacy' | 'modern'

/** Requests of one connection at once. */
const maximumRunning = 256

export class Connection {
  readonly #transports: Transports
  readonly #send: (message: ServerMessage) => void
  readonly #experimental: JsonObject
  readonly #running = new Map<RequestId, AbortController>()
  readonly #over = new AbortController()
  #era: Era = 'open'
  /** Made with its first message: of changes is told whoever speaks the older revisions. */
  #legacy: LegacySession | undefined

  constructor(transports: Transports, send: (message: ServerMessage) => void, experimental: JsonObject) {
    this.#transports = transports
    this.#send = send
    this.#experimental = experimental
  }

  /** Whether it keeps nothing that a later message could need. */
  get isIdle(): boolean {
    return this.#era !== 'legacy' && this.#running.size === 0
  }

  /** @returns the answer; undefined where there is none to be given */
  async receive(message: Received, asker: Asker): Promise<string | undefined> {
    if (this.#eraOf(message) === 'modern') return this.#receiveModern(message, asker)
    this.#legacy ??= new LegacySession({ ...this.#transports, send: this.#send, experimental: this.#experimental })
    return this.#legacy.receive(message, { ...asker, signal: this.#over.signal, notify: undefined })
  }

  close(): void {
    const reason = new Error('the client is gone')
    this.#over.abort(reason)
    this.#legacy?.close()
    for (const controller of this.#running.values()) controller.abort(reason)
  }

  /** `server/discover` is asked by clients that do not know yet what they will speak. */
  #eraOf(message: Received): Era {
    if (this.#era !== 'open') return this.#era
    if (message.kind === 'response' || message.kind === 'invalid') return 'legacy'
    if (!hasClaim(message.params)) {
      this.#era = 'legacy'
      return 'legacy'
    }
    if (message.method !== 'server/discover') this.#era = 'modern'
    return 'modern'
  }

  async #receiveModern(message: Received, asker: Asker): Promise<string | undefined> {
    switch (message.kind) {
      case 'request':
        return this.#answer(message, asker)
      case 'notification':
        if (message.method === 'notifications/cancelled') this.#cancel(message.params.requestId)
        return undefined
      case 'response':
        return undefined
      case 'invalid':
        return refusal(message.id, invalidFault(message))
    }
  }

  async #answer(request: RequestMessage, asker: Asker): Promise<string | undefined> {
    const { id, method, params } = request
    if (method === 'initialize' && !isObject(params._meta)) {
      const { protocolVersion } = params
      return refusal(id, {
        kind: 'unsupported version',
        requested: typeof protocolVersion === 'string' ? protocolVersion : undefined,
      })
    }
    if (this.#running.has(id)) return refusal(id, { kind: 'invalid request', problem: 'the id is in use' })
    if (this.#running.size >= maximumRunning)
      return refusal(id, { kind: 'exhausted', problem: 'too many requests at once' })
    const controller = new AbortController()
    this.#running.set(id, controller)
    const { signal } = controller
    try {
      const asking = { ...asker, signal, notify: this.#send, headers: undefined }
      const { text } = await this.#transports.modern.answer(request, asking)
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
