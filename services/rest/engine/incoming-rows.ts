/**
 * Streams the rows of a request's statement. Sends a larger response as its rows arrive, so memory use is limited. A
 * response is complete only if its transaction was committed: an error after the head closes the connection.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RowSink } from '../../../wire/messages.ts'
import type { AnswerStream } from '../../http/message.ts'
import { Pieces } from '../../http/pieces.ts'
import type { Connection } from '../../postgres/connection.ts'
import type { Row } from '../../postgres/run.ts'
import type { Rendered } from '../sql/index.ts'

/** Responses up to this size are sent in one write. Until then, the service can still return a normal error. */
const maximumCompleteBytes = 65_536
/** The number of bytes that a response reserves in memory at a time, if Postgres should not wait for the client. */
const memoryStep = 262_144
const checkIntervalMs = 100
/**
 * The total time that Postgres waits for a slow client. Applies if other requests wait for the connection and no memory
 * is left for the response.
 */
const maximumWaitMs = 5_000

/** Receives the text of a result with one row and one column. */
export class TextSink implements RowSink {
  readonly isForLarge = false
  text = ''
  begin(): void {}
  push(part: Buffer): void {
    this.text += part.toString('latin1')
  }
  flush(): void {}
}

type Options = {
  readonly connection: Connection
  readonly rowBody: Rendered['rowBody']
  /**
   * Whether Postgres should not wait for a slow client, because another request needs the connection or because the
   * statement timeout is near.
   */
  readonly isUnderPressure: () => boolean
  /** Whether a waiting request can get a connection only if the service closes one. */
  readonly isWaitedFor: () => boolean
  /** Called when the response exceeds the size that is sent in one write. */
  readonly onOpen: () => void
}

export class IncomingRows implements RowSink {
  /** If the body is one value, a value that fits in one read remains in the run's result. */
  readonly isForLarge: boolean
  readonly #options: Options
  readonly #separator: Buffer
  #head: Row | undefined
  #pending = new Pieces()
  #rows = 0
  /** The length in bytes of a body that is one value. */
  #length = 0
  #isOpen = false
  #out: AnswerStream | undefined
  #isPaused = false
  #isEnded = false
  /** How long the server has waited for the client, up to the client's last read. */
  #waitedMs = 0
  /**
   * The last bytes of a body with a Content-Length. The client treats the response as complete only when it has them.
   */
  #last: Buffer | undefined

  constructor(options: Options) {
    this.#options = options
    this.isForLarge = options.rowBody === undefined
    this.#separator = Buffer.from(options.rowBody?.separator ?? '')
  }

  /** The main row's cells without the body. */
  get head(): Row | undefined {
    return this.#head
  }

  /** Whether the response is being streamed. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** The body's length, if it is known before the body's end. */
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
    else if (!this.#isOpen && this.#pending.length > maximumCompleteBytes) {
      this.#isOpen = true
      this.#options.connection.pause()
      this.#options.onOpen()
    }
  }

  /** All rows have arrived, or no more rows will arrive. The connection now belongs to another request. */
  end(): void {
    this.#isEnded = true
    this.#options.connection.resume()
  }

  /** The complete body of a response that is not streamed. Undefined if no row has arrived. */
  complete(): Buffer | undefined {
    if (this.#head === undefined) return undefined
    this.#close()
    const bytes = this.#pending.bytes()
    return Buffer.isBuffer(bytes) ? bytes : Buffer.concat(bytes)
  }

  /** Writes the received bytes and further bytes until `ended`, which resolves when the transaction ends. */
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
    if (isSlow && !this.#isPaused && !this.#isEnded) void this.#pauseReading(out)
  }

  #write(out: AnswerStream, piece: Buffer): boolean {
    if (piece.length === 0) return true
    if (this.length === undefined) return out.write(piece)
    const before = this.#last
    this.#last = piece
    return before === undefined || out.write(before)
  }

  /**
   * Pauses reading from Postgres until the client has read the buffered bytes. If Postgres should not wait, pauses only
   * until memory is free. If no memory is free, the service disconnects slow clients, since a few of them would block
   * all other clients.
   */
  async #pauseReading(out: AnswerStream): Promise<void> {
    const { connection, isUnderPressure, isWaitedFor } = this.#options
    const began = performance.now()
    const waitedMs = () => this.#waitedMs + performance.now() - began
    this.#isPaused = true
    connection.pause()
    let isFetched = false
    const fetched = out.drained().then(() => {
      isFetched = true
    })
    while (!isFetched && !this.#isEnded && !(isUnderPressure() && out.allow(memoryStep))) {
      if (waitedMs() > maximumWaitMs && isWaitedFor()) return connection.close()
      await Promise.race([fetched, sleep(checkIntervalMs, undefined, { ref: false })])
    }
    this.#waitedMs = waitedMs()
    this.#isPaused = false
    if (!this.#isEnded) connection.resume()
  }
}
