/**
 * A stream of server-sent events. The stream buffers events while no client is connected, and events that a client may
 * have missed. With ids, each event names its stream and position, so that a client can resume after its connection
 * broke. The buffer is limited and drops the oldest events first.
 */
import type { HeaderList } from '../http/headers.ts'
import type { AnswerStream } from '../http/message.ts'
import type { EventMemory } from './event-memory.ts'

type BufferedEvent = { readonly position: number; readonly text: string }

/** Limits of one stream's buffer. Unread events count too. */
export type StreamBounds = { readonly events: number; readonly bytes: number }
export type StreamLimits = StreamBounds & { readonly memory: Pick<EventMemory, 'setSize'> }

/** Limits for a stream that a client reads from its beginning, and that ends with its request. */
const unlimited: StreamLimits = {
  events: Number.POSITIVE_INFINITY,
  bytes: Number.POSITIVE_INFINITY,
  memory: { setSize() {} },
}

/** The headers of responses with server-sent events. */
export const streamHeaders: HeaderList = [
  ['Content-Type', 'text/event-stream'],
  ['Cache-Control', 'no-cache, no-transform'],
  ['X-Accel-Buffering', 'no'],
]

export const keepAlive = ': keepalive\n\n'

/** Discards a stream that no client can resume when its client disconnects. */
export function discardWithClient(stream: EventStream, signal: AbortSignal): void {
  if (signal.aborted) stream.discard()
  else signal.addEventListener('abort', () => stream.discard())
}

const closeEvent = (reason: string): string => `event: close\ndata: ${JSON.stringify({ reason })}\n\n`

export class EventStream {
  readonly name: string
  readonly #limits: StreamLimits
  readonly #hasIds: boolean
  #buffered: BufferedEvent[] = []
  #bufferedBytes = 0
  #position = 0
  /** The position of the last event that was written to a client. */
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

  /**
   * Writes an event, or buffers it for the next client. After the stream's end, does nothing. `data`: JSON on one line.
   */
  send(data: string): void {
    if (this.#isEnded) return
    const id = this.#hasIds ? `id: ${this.name}-${++this.#position}\n` : ''
    const text = `event: message\n${id}data: ${data}\n\n`
    if (this.#out !== undefined) {
      this.#out.stream.write(text)
      this.#seen = this.#position
    }
    // Without ids, a client cannot report which events it has seen. So every written event counts as seen.
    if (this.#hasIds || this.#out === undefined) this.#keep({ position: this.#position, text })
  }

  #keep(event: BufferedEvent): void {
    if (this.#isDiscarded) return
    this.#buffered.push(event)
    this.#bufferedBytes += event.text.length
    this.#shrink(this.#limits.events, this.#limits.bytes)
  }

  #shrink(events: number, bytes: number): void {
    while (this.#buffered.length > events || this.#bufferedBytes > bytes) {
      const oldest = this.#buffered.shift()
      if (oldest === undefined) break
      this.#bufferedBytes -= oldest.text.length
    }
    this.#limits.memory.setSize(this, this.#bufferedBytes)
  }

  /** Called when all streams together exceed the memory limit and this stream has the largest buffer. */
  dropHalf(): void {
    this.#shrink(this.#limits.events, Math.floor(this.#bufferedBytes / 2))
  }

  /**
   * Connects a client and disconnects the previous client.
   * @param after the position of the last event that the client has; undefined: it has no event
   * @param isPrimed the stream begins with an event that has only an id, so that the client can resume from it
   */
  async attach(stream: AnswerStream, after: number | undefined, isPrimed: boolean): Promise<void> {
    this.disconnect('replaced by another stream')
    if (isPrimed && this.#hasIds) stream.write(`id: ${this.name}-${after ?? 0}\ndata: \n\n`)
    for (const event of this.#buffered) if (!this.#hasIds || event.position > (after ?? 0)) stream.write(event.text)
    this.#seen = this.#position
    if (!this.#hasIds) this.#forget()
    if (this.#isEnded) return
    await new Promise<void>(end => {
      this.#out = { stream, end }
    })
  }

  /** Removes a client that has disconnected. The stream buffers further events. */
  removeReader(stream: AnswerStream): void {
    if (this.#out?.stream !== stream) return
    this.#out.end()
    this.#out = undefined
  }

  /** Disconnects the current client, with a reason. */
  disconnect(reason: string): void {
    const out = this.#out
    this.#out = undefined
    out?.stream.write(closeEvent(reason))
    out?.end()
  }

  /** Ends the stream. A client can still read the buffered events. */
  end(): void {
    this.#isEnded = true
    const out = this.#out
    this.#out = undefined
    out?.end()
  }

  /** Drops the buffer, because no client can resume the stream any more. */
  discard(): void {
    this.#isDiscarded = true
    this.#forget()
  }

  #forget(): void {
    this.#buffered = []
    this.#bufferedBytes = 0
    this.#limits.memory.setSize(this, 0)
  }
}
