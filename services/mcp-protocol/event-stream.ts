/**
 * A stream of server-sent events: it keeps what is written while nobody listens, and what a client may have missed. With ids, each event names its stream and its position, so that a client
 * continues where its connection broke. What is kept is limited; the oldest event is dropped first.
 */
import type { HeaderList } from '../http/headers.ts'
import type { AnswerStream } from '../http/message.ts'
import type { EventMemory } from './event-memory.ts'

type KeptEvent = { readonly position: number; readonly text: string }

/** Of one stream; those that nobody has seen included. */
export type StreamBounds = { readonly events: number; readonly bytes: number }
export type StreamLimits = StreamBounds & { readonly memory: Pick<EventMemory, 'hold'> }

/** For a stream that is read from its begin, and lasts no longer than one request. */
const unlimited: StreamLimits = {
  events: Number.POSITIVE_INFINITY,
  bytes: Number.POSITIVE_INFINITY,
  memory: { hold() {} },
}

/** For readers that take events one by one. */
export const streamHeaders: HeaderList = [
  ['Content-Type', 'text/event-stream'],
  ['Cache-Control', 'no-cache, no-transform'],
  ['X-Accel-Buffering', 'no'],
]

export const keepAlive = ': keepalive\n\n'

/** For a stream that nobody can come back to. */
export function discardWithClient(stream: EventStream, signal: AbortSignal): void {
  if (signal.aborted) stream.discard()
  else signal.addEventListener('abort', () => stream.discard())
}

const closeEvent = (reason: string): string => `event: close\ndata: ${JSON.stringify({ reason })}\n\n`

export class EventStream {
  readonly name: string
  readonly #limits: StreamLimits
  readonly #hasIds: boolean
  #kept: KeptEvent[] = []
  #keptBytes = 0
  #position = 0
  /** The position of what was last written to a client. */
  #seen = 0
  #out: { readonly stream: AnswerStream; readonly end: () => void } | undefined
  #isEnded = false
  #isDiscarded = false

  constructor(name = '0', limits = unlimited, hasIds = false) {
    this.name = name
    this.#limits = limits
    this.#hasIds = hasIds
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  get seen(): number {
    return this.#seen
  }

  get isOpen(): boolean {
    return this.#out !== undefined
  }

  /** Writes an event, or keeps it for the next client. After the end it does nothing. `data`: JSON, in one line. */
  send(data: string): void {
    if (this.#isEnded) return
    const id = this.#hasIds ? `id: ${this.name}-${++this.#position}\n` : ''
    const text = `event: message\n${id}data: ${data}\n\n`
    if (this.#out !== undefined) {
      this.#out.stream.write(text)
      this.#seen = this.#position
    }
    // Without ids nobody can say what they have seen, so what was written counts as seen.
    if (this.#hasIds || this.#out === undefined) this.#keep({ position: this.#position, text })
  }

  #keep(event: KeptEvent): void {
    if (this.#isDiscarded) return
    this.#kept.push(event)
    this.#keptBytes += event.text.length
    this.#shrink(this.#limits.events, this.#limits.bytes)
  }

  #shrink(events: number, bytes: number): void {
    while (this.#kept.length > events || this.#keptBytes > bytes) {
      const oldest = this.#kept.shift()
      if (oldest === undefined) break
      this.#keptBytes -= oldest.text.length
    }
    this.#limits.memory.hold(this, this.#keptBytes)
  }

  /** All streams together keep too much, and this one most. */
  shed(): void {
    this.#shrink(this.#limits.events, Math.floor(this.#keptBytes / 2))
  }

  /**
   * Whoever listened before is closed.
   * @param after the position of the last event that the client has; undefined: it has none
   * @param isPrimed begins with an event that has nothing but an id, from which the client can go on
   */
  async attach(stream: AnswerStream, after: number | undefined, isPrimed: boolean): Promise<void> {
    this.detach('replaced by another stream')
    if (isPrimed && this.#hasIds) stream.write(`id: ${this.name}-${after ?? 0}\ndata: \n\n`)
    for (const event of this.#kept) if (!this.#hasIds || event.position > (after ?? 0)) stream.write(event.text)
    this.#seen = this.#position
    if (!this.#hasIds) this.#forget()
    if (this.#isEnded) return
    await new Promise<void>(end => {
      this.#out = { stream, end }
    })
  }

  /** The client has gone: what comes is kept from now on. */
  leave(stream: AnswerStream): void {
    if (this.#out?.stream !== stream) return
    this.#out.end()
    this.#out = undefined
  }

  /** Ends the connection of who listens, and says why. */
  detach(reason: string): void {
    const out = this.#out
    this.#out = undefined
    out?.stream.write(closeEvent(reason))
    out?.end()
  }

  /** Nothing more comes of it; it may be read again from what is kept. */
  end(): void {
    this.#isEnded = true
    const out = this.#out
    this.#out = undefined
    out?.end()
  }

  /** Nobody can come back to it. */
  discard(): void {
    this.#isDiscarded = true
    this.#forget()
  }

  #forget(): void {
    this.#kept = []
    this.#keptBytes = 0
    this.#limits.memory.hold(this, 0)
  }
}
