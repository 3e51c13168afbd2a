/**
 * The rows of a request's statement while they come. It promises that an answer of some size goes to its client as it comes, that hardly more of it is in memory than is
 * on its way, and that it is whole only once its transaction has ended well: what fails after the head has gone out cuts the connection.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnswerStream } from '../../http/message.ts'
import { Pieces } from '../../http/pieces.ts'
import type { Connection } from '../../postgres/connection.ts'
import type { RowSink } from '../../postgres/messages.ts'
import type { Row } from '../../postgres/run.ts'
import type { Rendered } from '../sql/index.ts'

/** What is no larger is answered as a whole, in one write, and may still fail with an error of its own. */
const wholeBytes = 65_536
/** How much more of an answer is taken into memory at a time, where Postgres should not wait. */
const memoryStep = 262_144
const lookAgainMs = 100
/** How long in all a slow client is waited for, where others wait for its connection and there is no room to read its answer into memory. */
const patienceMs = 5_000

/** Takes the text of one row of one column. */
export class TextSink implements RowSink {
  readonly isForLarge = false
  text = ''
  begin(): void {}
  push(part: Buffer): void {
    this.text += part.toString('latin1')
  }
  flush(): void {}
}

type ComingOptions = {
  readonly connection: Connection
  readonly rowBody: Rendered['rowBody']
  /** Whether Postgres should rather not wait for a slow client: somebody needs the connection, or the statement's time is nearly over. */
  readonly isPressed: () => boolean
  /** Whether somebody waits who gets a connection only where one is given up. */
  readonly isWaitedFor: () => boolean
  /** Called once the answer has come to be too large to wait for its end. */
  readonly onOpen: () => void
}

export class ComingAnswer implements RowSink {
  /** Of one value that is small, nothing need be put together. */
  readonly isForLarge: boolean
  readonly #options: ComingOptions
  readonly #separator: Buffer
  #head: Row | undefined
  #pending = new Pieces()
  #rows = 0
  /** Of the body as one value, its bytes. */
  #length = 0
  #isOpen = false
  #out: AnswerStream | undefined
  #isHeld = false
  #isEnded = false
  /** For how long the client has been waited for, up to when it fetched something last. */
  #waitedMs = 0
  /** The end of a body whose length has been said: without it, no client takes what it has for whole. */
  #last: Buffer | undefined

  constructor(options: ComingOptions) {
    this.#options = options
    this.isForLarge = options.rowBody === undefined
    this.#separator = Buffer.from(options.rowBody?.separator ?? '')
  }

  /** The main row's cells but the body. */
  get head(): Row | undefined {
    return this.#head
  }

  /** Whether it goes out as it comes. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Of the body, where it is known before its end. */
  get length(): number | undefined {
    return this.#options.rowBody === undefined ? this.#length : undefined
  }

  begin(cells: Row, lastLength: number): void {
    if (this.#head === undefined) {
      this.#head = cells.map(cell => (cell === null ? null : Buffer.from(cell)))
      this.#length = Math.max(0, lastLength)
    } else if (this.#rows++ > 0) this.#pending.addCopy(this.#separator)
  }

  push(part: Buffer): void {
    this.#pending.add(part)
  }

  flush(): void {
    if (this.#out !== undefined) this.#send(this.#out)
    else if (!this.#isOpen && this.#pending.length > wholeBytes) {
      this.#isOpen = true
      this.#options.connection.pause()
      this.#options.onOpen()
    }
  }

  /** All has come, or nothing more will: the connection is somebody else's from now on. */
  end(): void {
    this.#isEnded = true
    this.#options.connection.resume()
  }

  /** The body, once all of it has come; undefined where it was too small to be handed on. */
  whole(): Buffer | undefined {
    if (this.#head === undefined) return undefined
    this.#close()
    const bytes = this.#pending.bytes()
    return Buffer.isBuffer(bytes) ? bytes : Buffer.concat(bytes)
  }

  /** Writes what has come and what comes, until `ended`, the end of the transaction. */
  async writeTo(out: AnswerStream, ended: Promise<unknown>): Promise<void> {
    this.#out = out
    if (!this.#isEnded) this.#options.connection.resume()
    this.#send(out)
    await ended
    this.#close()
    this.#send(out)
    if (this.#last !== undefined) out.write(this.#last)
  }

  #close(): void {
    const { rowBody } = this.#options
    if (rowBody !== undefined) this.#pending.addCopy(Buffer.from(rowBody.closing))
  }

  #send(out: AnswerStream): void {
    const bytes = this.#pending.bytes()
    this.#pending = new Pieces()
    let isSlow = false
    for (const piece of Buffer.isBuffer(bytes) ? [bytes] : bytes) isSlow = !this.#write(out, piece) || isSlow
    if (isSlow && !this.#isHeld && !this.#isEnded) void this.#hold(out)
  }

  #write(out: AnswerStream, piece: Buffer): boolean {
    if (piece.length === 0) return true
    if (this.length === undefined) return out.write(piece)
    const before = this.#last
    this.#last = piece
    return before === undefined || out.write(before)
  }

  /**
   * Reads no more of Postgres until the client has fetched what there is, or Postgres is pressed and there is room for more. Where there is none, a few slow clients would
   * keep everybody out: they give way.
   */
  async #hold(out: AnswerStream): Promise<void> {
    const { connection, isPressed, isWaitedFor } = this.#options
    const began = performance.now()
    const waitedMs = () => this.#waitedMs + performance.now() - began
    this.#isHeld = true
    connection.pause()
    let isFetched = false
    const fetched = out.drained().then(() => {
      isFetched = true
    })
    while (!isFetched && !this.#isEnded && !(isPressed() && out.allow(memoryStep))) {
      if (waitedMs() > patienceMs && isWaitedFor()) return connection.close()
      await Promise.race([fetched, sleep(lookAgainMs, undefined, { ref: false })])
    }
    this.#waitedMs = waitedMs()
    this.#isHeld = false
    if (!this.#isEnded) connection.resume()
  }
}
