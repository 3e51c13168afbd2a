/**
 * The revisions up to 2025-11-25, as one session of a client: it begins with `initialize`, and has a log level, subscriptions and requests of the server's to the
 * client. What carries the messages does not matter: stdio, a session over HTTP, or a single request, which is a session that does not last and whose client cannot be asked.
 */

import { invalidFault, ProtocolError } from '../../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../../mcp-protocol/json.ts'
import {
  errorText,
  type InvalidMessage,
  isObject,
  type Received,
  type RequestId,
  type RequestMessage,
  resultText,
  type ServerMessage,
} from '../../../mcp-protocol/json-rpc.ts'
import { isLogLevel, type LogLevel } from '../../../mcp-protocol/log-level.ts'
import { isLegacyVersion, type LegacyVersion, legacyVersions } from '../../../mcp-protocol/versions.ts'
import type { Caller } from '../../core/caller.ts'
import { CoreError } from '../../core/errors.ts'
import type { Core, CoreChange } from '../../core/index.ts'
import { abilitiesOf, noAbilities } from '../abilities.ts'
import { type CallMethod, type Calls, isCallMethod } from '../calls.ts'
import { type Asking, beginCall, type TransportLogger } from '../context.ts'
import { isForeseen, legacyError } from '../errors.ts'
import { isListMethod, type Lists } from '../lists.ts'
import { ClientRequests } from './client-requests.ts'
import { answered } from './rounds.ts'

/** What all sessions of a server share. */
type LegacyParts = {
  readonly core: Core
  readonly calls: Calls
  readonly lists: Lists
  readonly logger: TransportLogger
}

type LegacyOptions = LegacyParts & {
  /**
   * Sends a message of the server's own accord, to the session as a whole. undefined: there is no way, and no message of the client's comes
   * back to this session; it is for one request.
   */
  readonly send: ((message: ServerMessage) => void) | undefined
  /** The revision that a single request says it is of. */
  readonly version?: LegacyVersion | undefined
  /** Capabilities beyond MCP's own that `initialize` tells of. */
  readonly experimental?: JsonObject
}

/** Requests of one session at once, and resources it subscribes to. */
const maximumRunning = 256
const maximumSubscriptions = 1_000
const maximumUriLength = 8_192

/** As revisions before 2025-11-25 have it. */
const withoutIcons = ({ name, title, version }: Core['server']) => ({ name, title, version })

export class LegacySession {
  readonly #options: LegacyOptions
  readonly #running = new Map<RequestId, AbortController>()
  /** What ends the following of each. */
  readonly #subscriptions = new Map<string, () => void>()
  readonly #clientRequests = new ClientRequests()
  readonly #stopListening: () => void
  #version: LegacyVersion = '2025-03-26'
  #abilities = noAbilities
  #logLevel: LogLevel | undefined

  constructor(options: LegacyOptions) {
    this.#options = options
    if (options.send !== undefined) this.#logLevel = 'info'
    if (options.version !== undefined) this.#version = options.version
    this.#stopListening =
      options.send === undefined ? () => {} : options.core.onChange(change => this.#announce(change))
  }

  /**
   * Takes a message of the client's. Where `asking` has a way for messages that go with the request, the server's requests to the client go that way as well.
   * @returns the answer; undefined where there is none to be given
   */
  async receive(message: Received, asking: Asking): Promise<string | undefined> {
    switch (message.kind) {
      case 'request':
        return this.#answer(message, asking)
      case 'notification':
        if (message.method === 'notifications/cancelled') this.#cancel(message.params.requestId)
        return undefined
      case 'response':
        this.#clientRequests.settle(message)
        return undefined
      case 'invalid':
        return refusal(message)
    }
  }

  /** Ends what is under way. */
  close(): void {
    this.#stopListening()
    for (const end of this.#subscriptions.values()) end()
    this.#subscriptions.clear()
    for (const controller of this.#running.values()) controller.abort(new Error('the session is over'))
  }

  async #answer(request: RequestMessage, asking: Asking): Promise<string | undefined> {
    const { id } = request
    if (this.#options.send === undefined) return this.#said(request, asking)
    if (this.#running.has(id) || this.#running.size >= maximumRunning) {
      const problem = this.#running.has(id) ? 'a request with this id is under way' : 'too many requests at once'
      return errorText(id, legacyError(new ProtocolError({ kind: 'invalid request', problem }), ''))
    }
    const cancelled = new AbortController()
    this.#running.set(id, cancelled)
    try {
      const signal = AbortSignal.any([asking.signal, cancelled.signal])
      const said = await this.#said(request, { ...asking, signal })
      // Whoever cancels a request does not want to hear of it.
      return cancelled.signal.aborted ? undefined : said
    } finally {
      this.#running.delete(id)
    }
  }

  async #said(request: RequestMessage, asking: Asking): Promise<string> {
    try {
      const { method } = request
      const isCall = isCallMethod(method)
      const result = isCall ? await this.#call(method, request.params, asking) : this.#direct(request, asking)
      return resultText(request.id, result)
    } catch (error) {
      // Over HTTP a token that is for less is told by a status, so that a client can ask for more.
      if (this.#options.send === undefined && error instanceof CoreError && error.fault.kind === 'insufficient scope')
        throw error
      const requestId = crypto.randomUUID()
      if (!isForeseen(error) && !asking.signal.aborted)
        this.#options.logger.error({ err: error, request: requestId, method: request.method }, 'a request failed')
      return errorText(request.id, legacyError(error, requestId))
    }
  }

  /** What needs nobody but this session and the definitions. As JSON. */
  #direct({ method, params }: RequestMessage, { caller }: Asking): string {
    if (!caller.scopes.has('mcp:read')) throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:read'] })
    if (isListMethod(method)) return `{${this.#options.lists(method, caller, params.cursor)}}`
    switch (method) {
      case 'initialize':
        return JSON.stringify(this.#initialize(params, caller))
      case 'ping':
        return '{}'
      case 'logging/setLevel': {
        if (!isLogLevel(params.level))
          throw new CoreError({ kind: 'invalid params', problem: 'level must be a level of RFC 5424 in lower case' })
        if (this.#options.send !== undefined) this.#logLevel = params.level
        return '{}'
      }
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        if (this.#options.send === undefined) break
        this.#subscribe(params.uri, method === 'resources/subscribe', caller)
        return '{}'
    }
    throw new ProtocolError({ kind: 'unknown method', method })
  }

  #initialize({ protocolVersion, capabilities }: JsonObject, caller: Asking['caller']): JsonObject {
    const { core, send, experimental } = this.#options
    this.#version = isLegacyVersion(protocolVersion) ? protocolVersion : legacyVersions[0]
    this.#abilities = isObject(capabilities) && send !== undefined ? abilitiesOf(capabilities) : noAbilities
    const lasts = send === undefined ? {} : { listChanged: true }
    return {
      protocolVersion: this.#version,
      capabilities: {
        tools: lasts,
        resources: send === undefined ? {} : { subscribe: true, listChanged: true },
        prompts: lasts,
        completions: {},
        ...(send === undefined ? {} : { logging: {} }),
        ...(experimental === undefined ? {} : { experimental }),
      },
      serverInfo: this.#version === '2025-11-25' ? core.server : withoutIcons(core.server),
      instructions: core.instructions(caller),
    }
  }

  async #call(method: CallMethod, params: JsonObject, asking: Asking): Promise<string> {
    const { calls, send } = this.#options
    const abilities = this.#abilities
    const notify = asking.notify ?? send
    const call = beginCall({
      params,
      abilities,
      answers: undefined,
      logLevel: this.#logLevel,
      asking: notify === asking.notify ? asking : { ...asking, notify },
    })
    const strictShape = this.#version !== '2025-11-25'
    try {
      const result = await answered({
        call: answers =>
          calls.call(method, params, answers === undefined ? call.context : { ...call.context, answers }, strictShape),
        abilities,
        ask: notify && (request => this.#clientRequests.ask(request, this.#version, notify, asking.signal)),
      })
      return JSON.stringify(result)
    } finally {
      call.finish()
    }
  }

  #subscribe(uri: unknown, isWanted: boolean, caller: Caller): void {
    if (typeof uri !== 'string' || uri.length > maximumUriLength) {
      const problem = `uri must be a string of at most ${maximumUriLength} characters`
      throw new CoreError({ kind: 'invalid params', problem })
    }
    const end = this.#subscriptions.get(uri)
    if (!isWanted) {
      this.#subscriptions.delete(uri)
      end?.()
    } else if (end !== undefined) return
    else if (this.#subscriptions.size < maximumSubscriptions)
      this.#subscriptions.set(uri, this.#options.core.follow(uri, caller))
    else throw new CoreError({ kind: 'invalid params', problem: `at most ${maximumSubscriptions} subscriptions` })
  }

  #cancel(id: unknown): void {
    if (typeof id === 'string' || typeof id === 'number')
      this.#running.get(id)?.abort(new Error('the client has cancelled the request'))
  }

  #announce(change: CoreChange): void {
    const { send } = this.#options
    if (change.kind !== 'resource') send?.({ method: `notifications/${change.kind}/list_changed`, params: {} })
    else if (this.#subscriptions.has(change.uri))
      send?.({ method: 'notifications/resources/updated', params: { uri: change.uri } })
  }
}

/** Of a message that is none. Whoever sends one over and over gets one answer each. */
const refusal = (message: InvalidMessage): string =>
  errorText(message.id ?? null, legacyError(new ProtocolError(invalidFault(message)), ''))
