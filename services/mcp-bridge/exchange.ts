/**
 * Matches requests and responses of one subprocess. The bridge gives each request to the subprocess its own id and
 * progress token, so that clients' ids cannot collide. It translates responses, progress and cancellations back. It
 * also gives each request of the subprocess an id, which only the addressed client can answer.
 */

import { connectionField } from '../mcp-protocol/bridge-fields.ts'
import type { Json, JsonObject } from '../mcp-protocol/json.ts'
import {
  errorResponse,
  internalError,
  isObject,
  type Message,
  metaOf,
  methodNotFound,
  type NotificationMessage,
  type RequestId,
  type RequestMessage,
  type ResponseMessage,
  type ResponseOutcome,
  writeMessage,
} from '../mcp-protocol/json-rpc.ts'
import { subscriptionKey } from '../mcp-protocol/names.ts'
import { withMeta } from './meta.ts'

/** A client's session, or one request without a session. Each is a connection of the subprocess. */
export type Owner = {
  readonly connection: string
  /**
   * Delivers a request or notification of the subprocess, with the client's ids. Returns false if the client cannot
   * receive it.
   */
  deliver(message: Message): boolean
}

type ClientRequest = {
  readonly owner: Owner
  readonly message: RequestMessage
  /** The bridge's own fields in `_meta`. */
  readonly fields: JsonObject
  /** Receives the messages that belong to this request and arrive before its response. */
  readonly onMessage: (message: Message) => void
  readonly timeoutMs: number
}

type Pending = ClientRequest & {
  readonly ownId: number
  readonly progressToken: Json | undefined
  readonly timer: NodeJS.Timeout
  readonly resolve: (response: ResponseMessage) => void
}

type ServerRequest = { readonly owner: Owner; readonly theirId: RequestId; readonly ownId: string }

/** The maximum number of unanswered requests of the subprocess to one client. */
const mostServerRequests = 100

type ExchangeSettings = {
  /** Returns false if the subprocess is not running. */
  readonly send: (message: JsonObject) => boolean
  /** Called for notifications that name no connection. */
  readonly onUnaddressed: (message: NotificationMessage) => void
}

export class Exchange {
  readonly #settings: ExchangeSettings
  readonly #pending = new Map<number, Pending>()
  readonly #owners = new Map<string, Owner>()
  /** Requests of the subprocess, by the id that the client received. */
  readonly #serverRequests = new Map<string, ServerRequest>()
  readonly #idle: (() => void)[] = []
  #lastId = 0

  constructor(settings: ExchangeSettings) {
    this.#settings = settings
  }

  get inFlight(): number {
    return this.#pending.size
  }

  inFlightOf(owner: Owner): number {
    let count = 0
    for (const one of this.#pending.values()) if (one.owner === owner) count += 1
    return count
  }

  /** Resolves when no request runs. */
  async idle(): Promise<void> {
    if (this.#pending.size > 0) await new Promise<void>(resolve => this.#idle.push(resolve))
  }

  /** Answers open subscriptions. Without this, they would stay open. */
  endListeners(): void {
    for (const { ownId, message } of [...this.#pending.values()]) {
      if (message.method !== 'subscriptions/listen') continue
      this.#finish(ownId, { result: { resultType: 'complete', _meta: { [subscriptionKey]: message.id } } })
    }
  }

  open(owner: Owner): void {
    this.#owners.set(owner.connection, owner)
  }

  /** Cancels the owner's requests. Answers the subprocess's requests to the owner with an error. */
  close(owner: Owner): void {
    if (this.#owners.get(owner.connection) === owner) this.#owners.delete(owner.connection)
    for (const one of [...this.#pending.values()]) if (one.owner === owner) this.#abandon(one, 'the session has ended')
    for (const [key, serverRequest] of this.#serverRequests) {
      if (serverRequest.owner !== owner) continue
      this.#serverRequests.delete(key)
      this.#answer(serverRequest.theirId, errorResponse(null, internalError, 'the client has disconnected').outcome)
    }
  }

  /** Returns the response with the client's id; never rejects. */
  request(outgoing: ClientRequest): Promise<ResponseMessage> {
    const { message, fields, timeoutMs } = outgoing
    const ownId = ++this.#lastId
    const progressToken = metaOf(message.params).progressToken
    return new Promise(resolve => {
      const timer = setTimeout(() => {
        const one = this.#pending.get(ownId)
        if (one !== undefined) this.#abandon(one, `no answer within ${timeoutMs} ms`)
      }, timeoutMs)
      timer.unref()
      this.#pending.set(ownId, { ...outgoing, ownId, progressToken, timer, resolve })
      const own = { ...fields, ...(progressToken !== undefined && { progressToken: ownId }) }
      const params = withMeta(message.params, own)
      const isSent = this.#settings.send(writeMessage({ ...message, id: ownId, params }))
      if (!isSent) this.#settle(ownId, { code: internalError, message: 'the tool server is not running' })
    })
  }

  /** Cancels a client's request. Returns whether the client has such a request. */
  cancel(owner: Owner, id: Json | undefined, reason: Json | undefined, fields: JsonObject): boolean {
    for (const one of this.#pending.values()) {
      if (one.owner !== owner || one.message.id !== id) continue
      const params = withMeta({ requestId: one.ownId, ...(reason !== undefined && { reason }) }, fields)
      this.#settings.send(writeMessage({ kind: 'notification', method: 'notifications/cancelled', params }))
      return true
    }
    return false
  }

  /** Cancels the request of a client that has disconnected, and discards further messages for it. */
  abandon(owner: Owner, id: RequestId, fields: JsonObject): void {
    this.cancel(owner, id, 'the client has disconnected', fields)
    for (const [ownId, one] of this.#pending)
      if (one.owner === owner && one.message.id === id)
        this.#settle(ownId, { code: internalError, message: 'cancelled' })
  }

  notify(message: NotificationMessage, fields: JsonObject): void {
    this.#settings.send(writeMessage({ ...message, params: withMeta(message.params, fields) }))
  }

  /** Sends a client's response to the subprocess. Returns false if the client had no such request. */
  reply(owner: Owner, { id, outcome }: ResponseMessage): boolean {
    const serverRequest = this.#serverRequests.get(String(id))
    if (serverRequest === undefined || serverRequest.owner !== owner) return false
    this.#serverRequests.delete(serverRequest.ownId)
    this.#answer(serverRequest.theirId, outcome)
    return true
  }

  receive(message: Message): void {
    switch (message.kind) {
      case 'response':
        this.#receiveResponse(message)
        break
      case 'request':
        this.#receiveRequest(message)
        break
      case 'notification':
        this.#receiveNotification(message)
    }
  }

  /** Fails all requests, because the subprocess has ended. */
  failAll(): void {
    for (const ownId of [...this.#pending.keys()])
      this.#settle(ownId, { code: internalError, message: 'the tool server ended before it answered' })
    this.#serverRequests.clear()
  }

  #receiveResponse({ id, outcome }: ResponseMessage): void {
    const one = typeof id === 'number' ? this.#pending.get(id) : undefined
    if (one !== undefined) this.#finish(one.ownId, this.#inClientsTerms(outcome, one))
  }

  /**
   * Removes the bridge's own fields from a result. At the end of a subscription, replaces the request's id with the
   * client's id.
   */
  #inClientsTerms(outcome: ResponseOutcome, one: Pending): ResponseOutcome {
    const { result } = outcome
    return isObject(result) && '_meta' in result ? { result: this.#renamed(result, one) } : outcome
  }

  #renamed(params: JsonObject, one: Pending): JsonObject {
    const isSubscription = metaOf(params)[subscriptionKey] === one.ownId
    return withMeta(params, isSubscription ? { [subscriptionKey]: one.message.id } : {})
  }

  #receiveRequest(message: RequestMessage): void {
    if (message.method === 'ping') {
      this.#answer(message.id, { result: {} })
      return
    }
    const connection = metaOf(message.params)[connectionField]
    const owner = typeof connection === 'string' ? this.#owners.get(connection) : undefined
    const open =
      owner === undefined
        ? 0
        : [...this.#serverRequests.values()].filter(serverRequest => serverRequest.owner === owner).length
    if (owner === undefined || open >= mostServerRequests) {
      this.#answer(message.id, errorResponse(null, methodNotFound, 'no client accepts this request').outcome)
      return
    }
    const ownId = `bridge-${++this.#lastId}`
    this.#serverRequests.set(ownId, { owner, theirId: message.id, ownId })
    const isDelivered = owner.deliver({ ...message, id: ownId, params: withMeta(message.params, {}) })
    if (!isDelivered)
      this.reply(owner, { ...errorResponse(ownId, methodNotFound, 'the client accepts no requests'), id: ownId })
  }

  #receiveNotification(message: NotificationMessage): void {
    const { method, params } = message
    const meta = metaOf(params)
    if (method === 'notifications/progress') {
      const one = typeof params.progressToken === 'number' ? this.#pending.get(params.progressToken) : undefined
      if (one?.progressToken === undefined) return
      one.onMessage({ ...message, params: { ...withMeta(params, {}), progressToken: one.progressToken } })
      return
    }
    const subscription = meta[subscriptionKey]
    const subscribed = typeof subscription === 'number' ? this.#pending.get(subscription) : undefined
    if (subscribed !== undefined) {
      subscribed.onMessage({ ...message, params: this.#renamed(params, subscribed) })
      return
    }
    const connection = meta[connectionField]
    const plain = { ...message, params: withMeta(params, {}) }
    if (connection === undefined) {
      this.#settings.onUnaddressed(plain)
      return
    }
    const owner = typeof connection === 'string' ? this.#owners.get(connection) : undefined
    if (owner === undefined) return
    if (method !== 'notifications/cancelled') {
      owner.deliver(plain)
      return
    }
    for (const serverRequest of [...this.#serverRequests.values()]) {
      if (serverRequest.owner !== owner || serverRequest.theirId !== params.requestId) continue
      this.#serverRequests.delete(serverRequest.ownId)
      owner.deliver({ ...plain, params: { ...plain.params, requestId: serverRequest.ownId } })
    }
  }

  #answer(id: RequestId, outcome: ResponseOutcome): void {
    this.#settings.send(writeMessage({ kind: 'response', id, outcome }))
  }

  #abandon(one: Pending, reason: string): void {
    const owner = { [connectionField]: one.owner.connection }
    const fields = one.fields[connectionField] === undefined ? {} : owner
    this.cancel(one.owner, one.message.id, reason, fields)
    this.#settle(one.ownId, { code: internalError, message: reason })
  }

  #settle(ownId: number, error: { readonly code: number; readonly message: string }): void {
    this.#finish(ownId, { error: { code: error.code, message: error.message } })
  }

  #finish(ownId: number, outcome: ResponseOutcome): void {
    const one = this.#pending.get(ownId)
    if (one === undefined) return
    this.#pending.delete(ownId)
    clearTimeout(one.timer)
    one.resolve({ kind: 'response', id: one.message.id, outcome })
    if (this.#pending.size === 0) for (const go of this.#idle.splice(0)) go()
  }
}
