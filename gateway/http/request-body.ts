/**
 * Forwards the body of a request to a service. It applies the service's backpressure, and stops if the client is too
 * slow or sends too much.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import type { HttpLimits } from './limits.ts'
import { type HttpRefusal, largeBody, slowBody } from './refusal.ts'

export type ClientSide = IncomingMessage | Http2ServerRequest

const isTruncated = (request: ClientSide): boolean =>
  'stream' in request ? request.stream.aborted || (request.stream.rstCode ?? 0) !== 0 : !request.complete

export class RequestBody {
  readonly #request: ClientSide
  readonly #limits: HttpLimits
  readonly #expected: number | undefined
  readonly #fail: (refusal: HttpRefusal | undefined) => void
  #sink: ClientRequest | undefined
  #isWaiting = false
  #isReading = false
  #bytes = 0
  #discarded = 0
  #interval: { since: number; bytes: number } | undefined
  #discardingSince: number | undefined
  #over = () => {}
  isOver = false

  /** `fail` gets no refusal if the client has aborted its body. */
  constructor(
    request: ClientSide,
    limits: HttpLimits,
    expected: number | undefined,
    fail: (refusal: HttpRefusal | undefined) => void,
  ) {
    this.#request = request
    this.#limits = limits
    this.#expected = expected
    this.#fail = fail
  }

  /** Sends the body, and then ends the request. */
  sendTo(sink: ClientRequest, now: number): void {
    this.#sink = sink
    this.#interval = { since: now, bytes: 0 }
    sink.on('drain', () => {
      this.#isWaiting = false
      this.#request.resume()
    })
    this.#read()
  }

  /**
   * Stops forwarding. Some of the rest is read, so that the client reads its response. `over` is called when all of it
   * was read.
   */
  discard(now: number, over: () => void): void {
    this.#sink = undefined
    this.#over = over
    this.#discardingSince ??= now
    this.#isWaiting = false
    this.#read()
    this.#request.resume()
  }

  /** Called at intervals. Returns `overdue` if reading must stop. */
  check(now: number): 'overdue' | undefined {
    if (this.isOver) return undefined
    if (this.#discardingSince !== undefined) {
      const isMuch = this.#discarded > this.#limits.discardedBytes
      return isMuch || now - this.#discardingSince >= this.#limits.discardMs ? 'overdue' : undefined
    }
    const interval = this.#interval
    if (interval === undefined || now - interval.since < this.#limits.bodyIntervalMs) return undefined
    const isSlow = !this.#isWaiting && this.#bytes - interval.bytes < this.#limits.bodyIntervalBytes
    this.#interval = { since: now, bytes: this.#bytes }
    if (isSlow) this.#fail(slowBody)
    return undefined
  }

  #read(): void {
    if (this.#isReading) return
    this.#isReading = true
    this.#request.on('data', (chunk: Buffer) => this.#take(chunk))
    this.#request.on('end', () => this.#end())
  }

  #take(chunk: Buffer): void {
    if (this.#sink === undefined) {
      this.#discarded += chunk.length
      return
    }
    this.#bytes += chunk.length
    if (this.#bytes > this.#limits.bodyBytes) this.#fail(largeBody(this.#limits.bodyBytes))
    else if (!this.#sink.write(chunk)) {
      this.#isWaiting = true
      this.#request.pause()
    }
  }

  #end(): void {
    this.isOver = true
    const sink = this.#sink
    const isShort = this.#expected !== undefined && this.#bytes !== this.#expected
    if (sink === undefined) this.#over()
    else if (isShort || isTruncated(this.#request)) this.#fail(undefined)
    else this.#endSink(sink)
  }

  #endSink(sink: ClientRequest): void {
    const { trailers } = this.#request
    if (Object.keys(trailers).length > 0 && sink.getHeader('transfer-encoding') !== undefined)
      sink.addTrailers({ ...trailers })
    sink.end()
  }
}
