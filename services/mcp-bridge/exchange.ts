/**
 * Who asked what of one subprocess. Towards it every request has an id and a progress token of the bridge's own; answers, progress and cancellations are translated back, so that what one client chooses
 * as an id concerns no other. Requests of the subprocess get an id as well, by which only who was asked can answer.
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

/** A client's session, or one request that stands alone: what the subprocess knows as a connection. */
export type Owner = {
  readonly connection: string
  /** A request or notification of the subprocess, already in the client's terms. @returns false where it cannot be delivered */
  deliver(message: Message): boolean
}

type Asking = {
  readonly owner: Owner
  readonly message: RequestMessage
  /** The bridge's own fields for `_meta`. */
  readonly fields: JsonObject
  /** Told what belongs to this very request and precedes its answer. */
  readonly onMessage: (message: Message) => void
  readonly timeoutMs: number
}

type Pending = Asking & {
  readonly ownId: number
  readonly progressToken: Json | undefined
  readonly timer: NodeJS.Timeout
  readonly resolve: (response: ResponseMessage) => void
}

type Asked = { readonly owner: Owner; readonly theirId: RequestId; readonly ownId: string }

/** Questions of the subprocess that one client leaves unanswered. */
const mostOpenQuestions = 100

type ExchangeSettings = {
  /** @returns false where the subprocess does not run */
  readonly send: (message: JsonObject) => boolean
  /** Of nobody in particular. */
  readonly onUnaddressed: (message: NotificationMessage) => void
}

export class Exchange {
  readonly #settings: ExchangeSettings
  readonly #pending = new Map<number, Pending>()
  readonly #owners = new Map<string, Owner>()
  /** By the id that the client was told, and by connection and the id that the subprocess chose. */
  readonly #asked = new Map<string, Asked>()
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

  /** Resolves once nothing is under way. */
  async settled(): Promise<void> {
    if (this.#pending.size > 0) await new Promise<void>(resolve => this.#idle.push(resolve))
  }

  /** Answers those that listen, who have no other end. */
  endListeners(): void {
    for (const { ownId, message } of [...this.#pending.values()]) {
      if (message.method !== 'subscriptions/listen') continue
      this.#finish(ownId, { result: { resultType: 'complete', _meta: { [subscriptionKey]: message.id } } })
    }
  }

  open(owner: Owner): void {
    this.#owners.set(owner.connection, owner)
  }

  /** What it had asked is cancelled, what it was asked is answered for it. */
  close(owner: Owner): void {
    if (this.#owners.get(owner.connection) === owner) this.#owners.delete(owner.connection)
    for (const one of [...this.#pending.values()]) if (one.owner === owner) this.#abandon(one, 'the session has ended')
    for (const [key, asked] of this.#asked) {
      if (asked.owner !== owner) continue
      this.#asked.delete(key)
      this.#answer(asked.theirId, errorResponse(null, internalError, 'the client has gone').outcome)
    }
  }

  /** Answers in the client's terms; never rejects. */
  request(asking: Asking): Promise<ResponseMessage> {
    const { message, fields, timeoutMs } = asking
    const ownId = ++this.#lastId
    const progressToken = metaOf(message.params).progressToken
    return new Promise(resolve => {
      const timer = setTimeout(() => {
        const one = this.#pending.get(ownId)
        if (one !== undefined) this.#abandon(one, `no answer within ${timeoutMs} ms`)
      }, timeoutMs)
      timer.unref()
      this.#pending.set(ownId, { ...asking, ownId, progressToken, timer, resolve })
      const own = { ...fields, ...(progressToken !== undefined && { progressToken: ownId }) }
      const params = withMeta(message.params, own)
      const isSent = this.#settings.send(writeMessage({ ...message, id: ownId, params }))
      if (!isSent) this.#settle(ownId, { code: internalError, message: 'the tool server does not run' })
    })
  }

  /** A client does not want an answer any more. @returns whether there was such a request of its own */
  cancel(owner: Owner, id: Json | undefined, reason: Json | undefined, fields: JsonObject): boolean {
    for (const one of this.#pending.values()) {
      if (one.owner !== owner || one.message.id !== id) continue
      const params = withMeta({ requestId: one.ownId, ...(reason !== undefined && { reason }) }, fields)
      this.#settings.send(writeMessage({ kind: 'notification', method: 'notifications/cancelled', params }))
      return true
    }
    return false
  }

  /** The client of a request is gone: nobody is told of what still comes. */
  abandon(owner: Owner, id: RequestId, fields: JsonObject): void {
    this.cancel(owner, id, 'the client is gone', fields)
    for (const [ownId, one] of this.#pending)
      if (one.owner === owner && one.message.id === id)
        this.#settle(ownId, { code: internalError, message: 'cancelled' })
  }

  notify(message: NotificationMessage, fields: JsonObject): void {
    this.#settings.send(writeMessage({ ...message, params: withMeta(message.params, fields) }))
  }

  /** A client's answer to a question of the subprocess. @returns false where it was not asked that */
  reply(owner: Owner, { id, outcome }: ResponseMessage): boolean {
    const asked = this.#asked.get(String(id))
    if (asked === undefined || asked.owner !== owner) return false
    this.#asked.delete(asked.ownId)
    this.#answer(asked.theirId, outcome)
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

  /** The subprocess is gone, and with it whatever it was asked. */
  failAll(): void {
    for (const ownId of [...this.#pending.keys()])
      this.#settle(ownId, { code: internalError, message: 'the tool server has ended before it answered' })
    this.#asked.clear()
  }

  #receiveResponse({ id, outcome }: ResponseMessage): void {
    const one = typeof id === 'number' ? this.#pending.get(id) : undefined
    if (one !== undefined) this.#finish(one.ownId, this.#inClientsTerms(outcome, one))
  }

  /** What was sent under the bridge's own names in a result: the end of a subscription names its request. */
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
    const open = owner === undefined ? 0 : [...this.#asked.values()].filter(asked => asked.owner === owner).length
    if (owner === undefined || open >= mostOpenQuestions) {
      this.#answer(message.id, errorResponse(null, methodNotFound, 'no client takes this request').outcome)
      return
    }
    const ownId = `bridge-${++this.#lastId}`
    this.#asked.set(ownId, { owner, theirId: message.id, ownId })
    const isDelivered = owner.deliver({ ...message, id: ownId, params: withMeta(message.params, {}) })
    if (!isDelivered)
      this.reply(owner, { ...errorResponse(ownId, methodNotFound, 'the client takes no requests'), id: ownId })
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
    for (const asked of [...this.#asked.values()]) {
      if (asked.owner !== owner || asked.theirId !== params.requestId) continue
      this.#asked.delete(asked.ownId)
      owner.deliver({ ...plain, params: { ...plain.params, requestId: asked.ownId } })
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
