/**
 * The revisions up to 2025-11-25. A client's session begins with `initialize`. A session has a log level and
 * subscriptions, and the server can send requests to the client. Over HTTP, each HTTP request has its own temporary
 * session, and the server sends no requests to the client.
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
import { isLogLevel, type LogLevel, logLevels } from '../../../mcp-protocol/log-level.ts'
import { isLegacyVersion, type LegacyVersion, legacyVersions } from '../../../mcp-protocol/versions.ts'
import type { Caller } from '../../core/caller.ts'
import { CoreError } from '../../core/errors.ts'
import type { Core, CoreChange } from '../../core/index.ts'
import { type CallMethod, type Calls, isCallMethod } from '../calls.ts'
import { beginCall, type Requester, type TransportLogger } from '../context.ts'
import { isForeseen, legacyError } from '../errors.ts'
import { inputKindsOf, noInputKinds } from '../input-kinds.ts'
import { isListMethod, type Lists } from '../lists.ts'
import { ClientRequests } from './client-requests.ts'
import { answered } from './rounds.ts'

/** The parts that all sessions of a server share. */
type LegacyParts = {
  readonly core: Core
  readonly calls: Calls
  readonly lists: Lists
  readonly logger: TransportLogger
}

type LegacyOptions = LegacyParts & {
  /**
   * Sends a message that belongs to no request. Undefined over HTTP: the session exists only for one HTTP request, so
   * it cannot send such messages.
   */
  readonly send: ((message: ServerMessage) => void) | undefined
  /** Over HTTP, the revision that the request declares. */
  readonly version?: LegacyVersion | undefined
  /** The experimental capabilities in the `initialize` response. */
  readonly experimental?: JsonObject
}

/** Limits of one session. */
const maximumRunning = 256
const maximumSubscriptions = 1_000
const maximumUriLength = 8_192

/** Removes the icons, which revisions before 2025-11-25 do not have. */
const withoutIcons = ({ name, title, version }: Core['server']) => ({ name, title, version })

export class LegacySession {
  readonly #options: LegacyOptions
  readonly #running = new Map<RequestId, AbortController>()
  /** By resource URI, the function that ends the subscription. */
  readonly #subscriptions = new Map<string, () => void>()
  readonly #clientRequests = new ClientRequests()
  readonly #stopListening: () => void
  #version: LegacyVersion = '2025-03-26'
  #inputKinds = noInputKinds
  #logLevel: LogLevel | undefined

  constructor(options: LegacyOptions) {
    this.#options = options
    if (options.send !== undefined) this.#logLevel = 'info'
    if (options.version !== undefined) this.#version = options.version
    this.#stopListening =
      options.send === undefined ? () => {} : options.core.onChange(change => this.#announce(change))
  }

  /**
   * Handles a message of the client. Sends progress, log messages and requests by `requester.notify`, or else by
   * `send`. Returns the response; undefined if the message has none.
   */
  async receive(message: Received, requester: Requester): Promise<string | undefined> {
    switch (message.kind) {
      case 'request':
        return this.#answer(message, requester)
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

  /** Stops running requests, and ends subscriptions. */
  close(): void {
    this.#stopListening()
    for (const end of this.#subscriptions.values()) end()
    this.#subscriptions.clear()
    for (const controller of this.#running.values()) controller.abort(new Error('the session has ended'))
  }

  async #answer(request: RequestMessage, requester: Requester): Promise<string | undefined> {
    const { id } = request
    if (this.#options.send === undefined) return this.#respond(request, requester)
    if (this.#running.has(id) || this.#running.size >= maximumRunning) {
      const problem = this.#running.has(id)
        ? 'a request with this id is running'
        : `at most ${maximumRunning} requests may run at the same time`
      return errorText(id, legacyError(new ProtocolError({ kind: 'invalid request', problem }), ''))
    }
    const cancelled = new AbortController()
    this.#running.set(id, cancelled)
    try {
      const signal = AbortSignal.any([requester.signal, cancelled.signal])
      const response = await this.#respond(request, { ...requester, signal })
      return cancelled.signal.aborted ? undefined : response
    } finally {
      this.#running.delete(id)
    }
  }

  async #respond(request: RequestMessage, requester: Requester): Promise<string> {
    try {
      const { method } = request
      const isCall = isCallMethod(method)
      const result = isCall ? await this.#call(method, request.params, requester) : this.#direct(request, requester)
      return resultText(request.id, result)
    } catch (error) {
      // Over HTTP, a missing scope becomes an HTTP status, so that the client can request the scope.
      if (this.#options.send === undefined && error instanceof CoreError && error.fault.kind === 'insufficient scope')
        throw error
      const requestId = crypto.randomUUID()
      if (!isForeseen(error) && !requester.signal.aborted)
        this.#options.logger.error({ err: error, request: requestId, method: request.method }, 'a request failed')
      return errorText(request.id, legacyError(error, requestId))
    }
  }

  /** Answers methods that need only this session and the lists. Returns JSON. */
  #direct({ method, params }: RequestMessage, { caller }: Requester): string {
    if (!caller.scopes.has('mcp:read')) throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:read'] })
    if (isListMethod(method)) return `{${this.#options.lists(method, caller, params.cursor)}}`
    switch (method) {
      case 'initialize':
        return JSON.stringify(this.#initialize(params, caller))
      case 'ping':
        return '{}'
      case 'logging/setLevel': {
        if (!isLogLevel(params.level))
          throw new CoreError({ kind: 'invalid params', problem: `level: must be one of ${logLevels.join(', ')}` })
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

  #initialize({ protocolVersion, capabilities }: JsonObject, caller: Requester['caller']): JsonObject {
    const { core, send, experimental } = this.#options
    this.#version = isLegacyVersion(protocolVersion) ? protocolVersion : legacyVersions[0]
    this.#inputKinds = isObject(capabilities) && send !== undefined ? inputKindsOf(capabilities) : noInputKinds
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

  async #call(method: CallMethod, params: JsonObject, requester: Requester): Promise<string> {
    const { calls, send } = this.#options
    const inputKinds = this.#inputKinds
    const notify = requester.notify ?? send
    const call = beginCall({
      params,
      inputKinds,
      answers: undefined,
      logLevel: this.#logLevel,
      requester: notify === requester.notify ? requester : { ...requester, notify },
    })
    const strictShape = this.#version !== '2025-11-25'
    try {
      const result = await answered({
        call: answers =>
          calls.call(method, params, answers === undefined ? call.context : { ...call.context, answers }, strictShape),
        inputKinds,
        sendToClient:
          notify && (request => this.#clientRequests.send(request, this.#version, notify, requester.signal)),
      })
      return JSON.stringify(result)
    } finally {
      call.finish()
    }
  }

  #subscribe(uri: unknown, isWanted: boolean, caller: Caller): void {
    if (typeof uri !== 'string' || uri.length > maximumUriLength) {
      const problem = `uri: must be a string of at most ${maximumUriLength} characters`
      throw new CoreError({ kind: 'invalid params', problem })
    }
    const end = this.#subscriptions.get(uri)
    if (!isWanted) {
      this.#subscriptions.delete(uri)
      end?.()
    } else if (end !== undefined) return
    else if (this.#subscriptions.size < maximumSubscriptions)
      this.#subscriptions.set(uri, this.#options.core.follow(uri, caller))
    else
      throw new CoreError({
        kind: 'invalid params',
        problem: `a session may have at most ${maximumSubscriptions} subscriptions`,
      })
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

/** Returns the error response to an invalid message. */
const refusal = (message: InvalidMessage): string =>
  errorText(message.id ?? null, legacyError(new ProtocolError(invalidFault(message)), ''))
