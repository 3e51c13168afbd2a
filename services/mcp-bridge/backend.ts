/**
 * The tool server as sessions use it: one subprocess with one connection for each session (ADR 0047). Detects whether
 * the server distinguishes connections, and emulates sessions if it does not.
 */
import { setTimeout as startTimer } from 'node:timers'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { callerField, closedMethod, connectionField } from '../mcp-protocol/bridge-fields.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import {
  errorResponse,
  invalidRequest,
  isObject,
  type Message,
  methodNotFound,
  type NotificationMessage,
  type RequestMessage,
  type ResponseMessage,
} from '../mcp-protocol/json-rpc.ts'
import type { Scope } from '../mcp-protocol/scopes.ts'
import { ToolFigures } from '../mcp-protocol/tool-figures.ts'
import { legacyVersions } from '../mcp-protocol/versions.ts'
import type { BridgeCallerAt } from './callers.ts'
import { BridgeRefusal, notRunning } from './errors.ts'
import type { Owner } from './exchange.ts'
import { initializedAs, isMultiplexed, versionIn } from './initialized.ts'
import { type KnownTool, knownTools } from './known-tools.ts'
import { type Link, makeLink } from './link.ts'
import { ModernProcess } from './modern-process.ts'
import type { Session } from './session.ts'
import type { SubprocessSettings } from './subprocess.ts'

const initializeTimeoutMs = 30_000

type BackendSettings = SubprocessSettings & {
  readonly requestTimeoutMs: number
  /** Limits of running requests, in total and per session. */
  readonly maximumInFlight: number
  readonly maximumInFlightPerSession: number
  readonly version: string
}

type BackendEvents = {
  /** Receives notifications to all clients from a server that does not distinguish connections. */
  readonly onBroadcast: (message: NotificationMessage) => void
  readonly sessions: () => readonly Session[]
}

type Known =
  | { readonly kind: 'starting' }
  | { readonly kind: 'shared' | 'multiplexed'; readonly initialized: ResponseMessage }

type OnMessage = (message: Message) => void

const hasFailed = ({ outcome: { error, result } }: ResponseMessage): boolean =>
  error !== undefined || (isObject(result) && result.isError === true)

export class Backend {
  readonly #settings: BackendSettings
  readonly #events: BackendEvents
  readonly #logger: Logger
  readonly #main: Link
  readonly #modern: ModernProcess
  readonly #shared: Owner
  readonly toolFigures = new ToolFigures()
  #known: Known = { kind: 'starting' }
  #waiting: (() => void)[] = []
  #tools: Promise<ReadonlyMap<string, KnownTool>> | undefined
  #lastModern = 0
  #isStopping = false

  constructor(settings: BackendSettings, events: BackendEvents, logger: Logger) {
    this.#settings = settings
    this.#events = events
    this.#logger = logger
    this.#modern = new ModernProcess(settings, logger)
    this.#shared = { connection: 'shared', deliver: message => this.#deliverShared(message) }
    this.#main = makeLink(
      settings,
      {
        onUp: () => void this.#initialize(),
        onDown: () => {
          this.#known = { kind: 'starting' }
          this.#tools = undefined
          if (this.#isStopping) this.#wake()
        },
        onUnaddressed: message => this.#onUnaddressed(message),
      },
      logger,
    )
  }

  start(): void {
    this.#main.subprocess.start()
  }

  /** Ends open subscriptions, then waits until no request runs or the time is over. */
  async drained(withinMs: number): Promise<void> {
    this.#isStopping = true
    this.#wake()
    const exchanges = [this.#main, this.#modern.current].flatMap(link => (link === undefined ? [] : [link.exchange]))
    for (const exchange of exchanges) exchange.endListeners()
    if (this.#known.kind === 'starting') return
    const late = setTimeout(withinMs, undefined, { ref: false })
    await Promise.race([late, Promise.all(exchanges.map(exchange => exchange.idle()))])
    // Leaves time to write the last response to its client's stream.
    await setImmediate()
  }

  #wake(): void {
    for (const go of this.#waiting.splice(0)) go()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#main.subprocess.stop(), this.#modern.stop()])
  }

  get isReady(): boolean {
    return this.#main.subprocess.state === 'running' && this.#known.kind !== 'starting'
  }

  get distinguishesSessions(): boolean {
    return this.#known.kind === 'multiplexed'
  }

  /** Whether the process has ended and the bridge does not restart it. */
  get hasFailed(): boolean {
    return this.#main.subprocess.state === 'failed'
  }

  #deliverShared(message: Message): boolean {
    if (message.kind !== 'notification') return false
    if (message.method === 'notifications/tools/list_changed') this.#tools = undefined
    this.#events.onBroadcast(message)
    return true
  }

  #fields(connection: string, caller: BridgeCallerAt): JsonObject {
    if (this.#known.kind === 'shared') return {}
    const { kind, principal, username, scopes, session, address } = caller
    const callerFields = {
      kind,
      principal,
      ...(username !== undefined && { username }),
      scopes: [...scopes],
      session,
      address,
    }
    return { [connectionField]: connection, [callerField]: callerFields }
  }

  async #initialize(): Promise<void> {
    const { exchange } = this.#main
    exchange.open(this.#shared)
    const params = {
      protocolVersion: legacyVersions[0],
      capabilities: {},
      clientInfo: { name: 'espalier-mcp-bridge', version: this.#settings.version },
    }
    const initialized = await exchange.request({
      owner: this.#shared,
      message: { kind: 'request', id: 'initialize', method: 'initialize', params },
      fields: { [connectionField]: this.#shared.connection },
      onMessage: () => {},
      timeoutMs: initializeTimeoutMs,
    })
    if (this.#main.subprocess.state !== 'running') return
    if (initialized.outcome.error !== undefined)
      this.#logger.warn(
        { error: initialized.outcome.error },
        'the tool server refused initialize: older clients receive the same error',
      )
    this.#known = { kind: isMultiplexed(initialized) ? 'multiplexed' : 'shared', initialized }
    this.#logger.info({ sessions: this.#known.kind }, 'the tool server is initialized')
    const fields = this.#known.kind === 'multiplexed' ? { [connectionField]: this.#shared.connection } : {}
    exchange.notify({ kind: 'notification', method: 'notifications/initialized', params: {} }, fields)
    await this.#repeat()
    this.#wake()
  }

  /** Repeats each session's initialize and subscriptions in a restarted process. */
  async #repeat(): Promise<void> {
    const uris = new Set<string>()
    for (const session of this.#events.sessions()) {
      if (this.#known.kind === 'multiplexed') await this.#repeatSession(session)
      else for (const uri of session.subscriptions) uris.add(uri)
    }
    for (const uri of uris) await this.#subscribeAgain(this.#shared, { uri }, {})
  }

  async #repeatSession(session: Session): Promise<void> {
    const { exchange } = this.#main
    const fields = this.#fields(session.connection, session.caller)
    exchange.open(session)
    const message = { kind: 'request', id: 'again', method: 'initialize', params: session.initialize } as const
    await exchange.request({ owner: session, message, fields, onMessage: () => {}, timeoutMs: initializeTimeoutMs })
    if (session.isInitialized)
      exchange.notify({ kind: 'notification', method: 'notifications/initialized', params: {} }, fields)
    for (const uri of session.subscriptions) await this.#subscribeAgain(session, { uri }, fields)
  }

  #subscribeAgain(owner: Owner, params: JsonObject, fields: JsonObject): Promise<ResponseMessage> {
    const message = { kind: 'request', id: 'again', method: 'resources/subscribe', params } as const
    return this.#main.exchange.request({ owner, message, fields, onMessage: () => {}, timeoutMs: initializeTimeoutMs })
  }

  /** Waits until the server is initialized. @throws BridgeRefusal with 503 if it is not running */
  async #ready(): Promise<void> {
    if (this.#main.subprocess.state !== 'running') throw notRunning()
    if (this.#known.kind !== 'starting') return
    if (this.#isStopping) throw notRunning()
    await new Promise<void>(resolve => {
      const timer = startTimer(resolve, initializeTimeoutMs)
      this.#waiting.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
    if (!this.isReady) throw notRunning()
  }

  #requireCapacity({ exchange }: Link, owner: Owner): void {
    const { maximumInFlight, maximumInFlightPerSession } = this.#settings
    if (exchange.inFlight >= maximumInFlight)
      throw new BridgeRefusal({ status: 503 }, 'too many requests are running; try again later')
    if (exchange.inFlightOf(owner) >= maximumInFlightPerSession)
      throw new BridgeRefusal(
        { status: 429 },
        `a session can have at most ${maximumInFlightPerSession} running requests`,
      )
  }

  /**
   * The scope that a request requires, if the bridge must check it. A server that distinguishes connections checks
   * scopes itself. @throws BridgeRefusal
   */
  async requiredScope(message: RequestMessage): Promise<Scope> {
    await this.#ready()
    if (message.method !== 'tools/call' || this.distinguishesSessions) return 'mcp:read'
    return (await this.toolOf(message))?.isReadOnly === true ? 'mcp:read' : 'mcp:write'
  }

  /** Returns the called tool, if the server lists it. @throws BridgeRefusal */
  async toolOf({ method, params }: RequestMessage): Promise<KnownTool | undefined> {
    await this.#ready()
    if (method !== 'tools/call' || typeof params.name !== 'string') return undefined
    const fields = this.distinguishesSessions ? { [connectionField]: this.#shared.connection } : {}
    this.#tools ??= knownTools(this.#main.exchange, this.#shared, fields)
    return (await this.#tools).get(params.name)
  }

  async initialize(session: Session, message: RequestMessage): Promise<ResponseMessage> {
    await this.#ready()
    const { exchange } = this.#main
    exchange.open(session)
    if (this.#known.kind === 'shared') {
      const answer = initializedAs(this.#known.initialized, message)
      session.version = versionIn(answer)
      return answer
    }
    const fields = this.#fields(session.connection, session.caller)
    const { requestTimeoutMs: timeoutMs } = this.#settings
    const answer = await exchange.request({ owner: session, message, fields, onMessage: () => {}, timeoutMs })
    session.version = versionIn(answer)
    return answer
  }

  /** @param session undefined for a request of an older client without a session @throws BridgeRefusal */
  async legacy(
    session: Session | undefined,
    caller: BridgeCallerAt,
    message: RequestMessage,
    onMessage: OnMessage,
  ): Promise<ResponseMessage> {
    await this.#ready()
    if (message.method === 'ping') return { kind: 'response', id: message.id, outcome: { result: {} } }
    const owner: Owner = session ?? { connection: this.#shared.connection, deliver: () => false }
    this.#requireCapacity(this.#main, owner)
    const local = this.#answerShared(session, message) ?? this.#noteSubscription(session, message)
    if (local !== undefined) return local
    const fields = this.#fields(owner.connection, caller)
    const { requestTimeoutMs: timeoutMs } = this.#settings
    return this.#counted(message, () => this.#main.exchange.request({ owner, message, fields, onMessage, timeoutMs }))
  }

  #counted({ method }: RequestMessage, request: () => Promise<ResponseMessage>): Promise<ResponseMessage> {
    return method === 'tools/call' ? this.toolFigures.count(request, hasFailed) : request()
  }

  /**
   * Answers requests that a server without connections cannot answer for one client. A log level would apply to all
   * clients. A resource needs only one subscription for all sessions.
   */
  #answerShared(session: Session | undefined, { id, method, params }: RequestMessage): ResponseMessage | undefined {
    if (this.#known.kind !== 'shared') return undefined
    if (method === 'logging/setLevel') return errorResponse(id, methodNotFound, 'Method not found')
    const uri = params.uri
    if (typeof uri !== 'string' || session === undefined) return undefined
    const isElsewhere = this.#events.sessions().some(one => one !== session && one.subscriptions.has(uri))
    const done: ResponseMessage = { kind: 'response', id, outcome: { result: {} } }
    if (method === 'resources/subscribe' && isElsewhere) {
      session.subscribe(uri)
      return done
    }
    if (method === 'resources/unsubscribe' && isElsewhere) {
      session.subscriptions.delete(uri)
      return done
    }
    return undefined
  }

  #noteSubscription(session: Session | undefined, { id, method, params }: RequestMessage): ResponseMessage | undefined {
    if (method !== 'resources/subscribe' && method !== 'resources/unsubscribe') return undefined
    if (session === undefined)
      return errorResponse(id, invalidRequest, 'Invalid Request', 'a subscription requires a session')
    if (typeof params.uri !== 'string') return undefined
    if (method === 'resources/subscribe') session.subscribe(params.uri)
    else session.subscriptions.delete(params.uri)
    return undefined
  }

  async notify(session: Session | undefined, caller: BridgeCallerAt, message: NotificationMessage): Promise<void> {
    await this.#ready()
    const owner = session ?? this.#shared
    const fields = this.#fields(owner.connection, caller)
    if (message.method === 'notifications/cancelled') {
      if (session !== undefined)
        this.#main.exchange.cancel(session, message.params.requestId, message.params.reason, fields)
      return
    }
    if (session !== undefined && message.method === 'notifications/initialized') session.isInitialized = true
    if (this.#known.kind === 'multiplexed' && session !== undefined) this.#main.exchange.notify(message, fields)
  }

  reply(session: Session, message: ResponseMessage): void {
    this.#main.exchange.reply(session, message)
  }

  /** An abort of `signal` cancels the request. @throws BridgeRefusal */
  async modern(
    caller: BridgeCallerAt,
    message: RequestMessage,
    onMessage: OnMessage,
    signal: AbortSignal,
  ): Promise<ResponseMessage> {
    await this.#ready()
    const link = this.distinguishesSessions ? this.#main : await this.#modern.link()
    const connection = `r${++this.#lastModern}`
    const owner: Owner = {
      connection,
      deliver: one => {
        if (one.kind === 'notification') onMessage(one)
        return one.kind === 'notification'
      },
    }
    this.#requireCapacity(link, owner)
    const fields = this.#fields(connection, caller)
    const { exchange } = link
    exchange.open(owner)
    const abandon = () => exchange.abandon(owner, message.id, fields)
    signal.addEventListener('abort', abandon)
    try {
      const isLong = message.method === 'subscriptions/listen'
      const timeoutMs = isLong ? longestSubscriptionMs : this.#settings.requestTimeoutMs
      return await this.#counted(message, () => exchange.request({ owner, message, fields, onMessage, timeoutMs }))
    } finally {
      signal.removeEventListener('abort', abandon)
      exchange.close(owner)
    }
  }

  /** Cancels the session's running requests, and unsubscribes from resources that no other session needs. */
  closed(session: Session): void {
    const { exchange } = this.#main
    exchange.close(session)
    if (this.#known.kind === 'multiplexed') {
      exchange.notify(
        { kind: 'notification', method: closedMethod, params: {} },
        { [connectionField]: session.connection },
      )
      return
    }
    if (!this.isReady) return
    const others = this.#events.sessions()
    for (const uri of session.subscriptions) {
      if (others.some(one => one.subscriptions.has(uri))) continue
      const message = { kind: 'request', id: 'gone', method: 'resources/unsubscribe', params: { uri } } as const
      const initialize = {
        owner: this.#shared,
        message,
        fields: {},
        onMessage: () => {},
        timeoutMs: initializeTimeoutMs,
      }
      void exchange.request(initialize)
    }
  }

  #onUnaddressed(message: NotificationMessage): void {
    if (message.method === 'notifications/tools/list_changed') this.#tools = undefined
    if (message.method === 'notifications/resources/updated') {
      const uri = message.params.uri
      for (const session of this.#events.sessions())
        if (typeof uri === 'string' && session.subscriptions.has(uri)) session.deliver(message)
      return
    }
    if (!message.method.endsWith('/list_changed')) return
    for (const session of this.#events.sessions()) session.deliver(message)
    this.#events.onBroadcast(message)
  }
}

const longestSubscriptionMs = 86_400_000
