/**
 * A client's session: its caller, its streams, and the requests to repeat after the tool server restarts. A session has
 * no connection of its own, but streams connect and disconnect.
 */
import { randomBytes } from 'node:crypto'
import { EventStream, type StreamLimits } from '../mcp-protocol/event-stream.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import { type Message, type NotificationMessage, writeMessage } from '../mcp-protocol/json-rpc.ts'
import type { BridgeCaller, BridgeCallerAt } from './callers.ts'
import { BridgeRefusal } from './errors.ts'
import type { Owner } from './exchange.ts'

type SessionSettings = {
  readonly timeoutMs: number
  readonly maximumSessions: number
  readonly streamLimits: StreamLimits
}

/** The maximum number of streams of one session. Ended streams count while a client can still read them. */
const mostStreams = 8
const mostSubscriptions = 1_000

/** A running request whose client accepts messages before the response. */
type Run = { send(message: Message): void; isClosed(): boolean }
type NotificationListener = (session: Session, message: NotificationMessage) => void
type SessionParts = {
  readonly id: string
  readonly number: number
  readonly caller: BridgeCallerAt
  readonly initialize: JsonObject
  readonly limits: StreamLimits
  readonly onNotification: NotificationListener
}

export const unknownSession = (): BridgeRefusal =>
  new BridgeRefusal({ status: 404 }, 'the session is unknown or has expired')

export class Session implements Owner {
  readonly id: string
  readonly connection: string
  readonly caller: BridgeCallerAt
  readonly #limits: StreamLimits
  /** The parameters of the client's `initialize`. */
  readonly initialize: JsonObject
  version = ''
  isInitialized = false
  lastUsed: number
  readonly subscriptions = new Set<string>()
  /** The GET stream, with the name `0`, is first. The other streams belong to requests. */
  readonly #streams: EventStream[] = []
  /** Requests that have no response yet. */
  readonly #runs = new Set<Run>()
  #lastStream = 0
  #isClosed = false

  readonly #onNotification: NotificationListener

  constructor({ id, number, caller, initialize, limits, onNotification }: SessionParts) {
    this.id = id
    this.connection = `s${number}`
    this.caller = caller
    this.initialize = initialize
    this.#limits = limits
    this.#onNotification = onNotification
    this.lastUsed = Date.now()
  }

  /** Since 2025-03-26, clients can resume a stream. */
  get hasEventIds(): boolean {
    return this.version >= '2025-03-26'
  }

  get isPrimed(): boolean {
    return this.version >= '2025-11-25'
  }

  get general(): EventStream {
    const first = this.#streams[0]
    if (first !== undefined) return first
    const made = new EventStream('0', this.#limits, this.hasEventIds)
    this.#streams.push(made)
    if (this.#isClosed) made.discard()
    return made
  }

  /** Whether a client is connected or waits for a response. */
  get isInUse(): boolean {
    return this.#runs.size > 0 || this.#streams.some(stream => stream.isOpen)
  }

  /**
   * Opens the stream of one request's response. While the response is buffered, a client can read it again by event id.
   */
  openRequestStream(): EventStream {
    const { general } = this
    const made = new EventStream(String(++this.#lastStream), this.#limits, this.hasEventIds)
    this.#streams.push(made)
    if (this.#isClosed) made.discard()
    const oldest = this.#streams.findIndex(stream => stream !== general && stream.isEnded)
    if (oldest > 0 && this.#streams.length > mostStreams) this.#streams.splice(oldest, 1)[0]?.discard()
    return made
  }

  /** Returns a function that ends the run. */
  begin(run: Run): () => void {
    this.#runs.add(run)
    return () => void this.#runs.delete(run)
  }

  /** Returns the stream and the position that an event's id names; undefined if there is no such stream. */
  streamOf(eventId: string): { readonly stream: EventStream; readonly after: number } | undefined {
    const [, name, position] = /^(\d{1,15})-(\d{1,15})$/.exec(eventId) ?? []
    const stream = name === '0' ? this.general : this.#streams.find(one => one.name === name)
    return stream && { stream, after: Number(position) }
  }

  /**
   * Delivers messages of a running request to its response stream, and changes of lists and resources to the GET
   * stream.
   */
  deliver(message: Message): boolean {
    const isGeneral =
      message.kind === 'notification' && /^notifications\/(resources|tools|prompts)\//.test(message.method)
    const running = isGeneral ? undefined : [...this.#runs].find(run => !run.isClosed())
    if (running === undefined) this.general.send(JSON.stringify(writeMessage(message)))
    else running.send(message)
    if (message.kind === 'notification') this.#onNotification(this, message)
    return true
  }

  /** @throws BridgeRefusal */
  subscribe(uri: string): void {
    if (this.subscriptions.size >= mostSubscriptions)
      throw new BridgeRefusal({ status: 429 }, `a session can have at most ${mostSubscriptions} subscriptions`)
    this.subscriptions.add(uri)
  }

  touch(): void {
    this.lastUsed = Date.now()
  }

  close(reason: string): void {
    this.#isClosed = true
    for (const stream of this.#streams) {
      stream.disconnect(reason)
      stream.discard()
    }
  }
}

type SessionEvents = {
  /** Makes the id that the client receives. */
  readonly nameOf: (random: string) => string
  readonly onClose: (session: Session) => void
  /** Called after the session has received the notification. */
  readonly onNotification: NotificationListener
}

export class Sessions {
  readonly #settings: SessionSettings
  readonly #events: SessionEvents
  readonly #sessions = new Map<string, Session>()
  #lastNumber = 0

  constructor(settings: SessionSettings, events: SessionEvents) {
    this.#settings = settings
    this.#events = events
  }

  /**
   * At the session limit, closes a session of the caller with the most sessions, if this caller has more than the new
   * one. @throws BridgeRefusal if no session can be closed
   */
  create(caller: BridgeCallerAt, initialize: JsonObject): Session {
    this.expire()
    if (this.#sessions.size >= this.#settings.maximumSessions && !this.#evictFor(caller))
      throw new BridgeRefusal({ status: 503 }, 'the maximum number of sessions is open; try again later')
    const { streamLimits: limits } = this.#settings
    const { onNotification } = this.#events
    const id = this.#events.nameOf(randomBytes(24).toString('base64url'))
    const session = new Session({ id, number: ++this.#lastNumber, caller, initialize, limits, onNotification })
    this.#sessions.set(session.id, session)
    return session
  }

  /**
   * Closes a session of the caller with the most sessions, if both callers then have as many or that caller has more.
   * Prefers sessions that are not in use, then the session that was unused for longest.
   */
  #evictFor({ principal }: BridgeCaller): boolean {
    const byCaller = Map.groupBy(this.#sessions.values(), session => session.caller.principal)
    const own = byCaller.get(principal)?.length ?? 0
    const largest = [...byCaller.values()].reduce((most, list) => (list.length > most.length ? list : most), [])
    if (largest.length <= own + 1) return false
    const order = (one: Session, other: Session) =>
      Number(one.isInUse) - Number(other.isInUse) || one.lastUsed - other.lastUsed
    const [first] = largest.sort(order)
    if (first !== undefined) this.close(first, 'the session was closed for another caller')
    return true
  }

  /** A session of another caller counts as unknown. @throws BridgeRefusal */
  find(id: string, caller: BridgeCaller): Session {
    const session = this.#sessions.get(id)
    if (session !== undefined && this.#isExpired(session)) this.close(session, 'the session has expired')
    else if (session !== undefined && session.caller.principal === caller.principal) {
      session.touch()
      return session
    }
    throw unknownSession()
  }

  #isExpired(session: Session): boolean {
    return !session.isInUse && Date.now() - session.lastUsed > this.#settings.timeoutMs
  }

  expire(): void {
    for (const session of this.#sessions.values())
      if (this.#isExpired(session)) this.close(session, 'the session has expired')
  }

  close(session: Session, reason: string): void {
    if (!this.#sessions.delete(session.id)) return
    session.close(reason)
    this.#events.onClose(session)
  }

  has(session: Session): boolean {
    return this.#sessions.has(session.id)
  }

  get count(): number {
    return this.#sessions.size
  }

  all(): readonly Session[] {
    return [...this.#sessions.values()]
  }

  /** Ends streams that have no running request. Their clients reconnect, possibly to another replica. */
  closeStreams(reason: string): void {
    for (const session of this.#sessions.values()) session.general.disconnect(reason)
  }

  closeAll(reason: string): void {
    for (const session of this.all()) this.close(session, reason)
  }
}
