/**
 * Streamed responses. Memory for slow clients is limited, for each client and in total. `write` reports when the writer
 * must wait. The server disconnects a client that stops reading or reads too slowly. If the writer fails, the server
 * aborts the response, so that no client treats it as complete.
 */
import type { ServerResponse } from 'node:http'
import type { Budget, Reservation } from './budget.ts'
import { HttpError } from './errors.ts'
import type { AnswerStream } from './message.ts'

/** If more unreserved bytes than this wait for a client, the server disconnects the client at the next write. */
const maximumPendingBytes = 1_048_576

/** How long a client may take to read this many bytes: 60 s, plus the time at 10 kB/s. */
const longestFetchMs = (bytes: number): number => 60_000 + bytes / 10

/** Aborts the response if the client takes longer than `longestFetchMs` to read it. */
export function boundSending(response: ServerResponse, bytes: number): void {
  const timer = setTimeout(() => abortResponse(response), longestFetchMs(bytes))
  response.on('close', () => clearTimeout(timer))
}

const isTcp = ({ socket }: ServerResponse): boolean => socket?.remoteAddress !== undefined && !('encrypted' in socket)

/** Whether an aborted stream looks complete to the client, which happens with HTTP/1.0 over a Unix socket. */
export const hidesItsEnd = (response: ServerResponse): boolean =>
  !response.useChunkedEncodingByDefault && response.socket?.remoteAddress === undefined

/** Aborts the response. Without chunks, resets a TCP connection, so that the client detects the abort. */
function abortResponse(response: ServerResponse): void {
  if (!response.useChunkedEncodingByDefault && isTcp(response)) response.socket?.resetAndDestroy()
  response.destroy()
}

/** Reserves this many bytes in total for a request. Returns false if the budget is exhausted. */
type Reserve = (bytes: number) => boolean

/**
 * Collects all bytes that a stream writes. If the budget is exhausted, calls `abort`, which must end the stream.
 * @throws what the stream throws; HttpError if the budget is exhausted
 */
export async function gather(
  stream: (out: AnswerStream) => Promise<void>,
  {
    bufferedBytes,
    reserve,
    abort,
  }: { readonly bufferedBytes: number; readonly reserve: Reserve; readonly abort: () => void },
): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  let isFull = false
  const write = (text: string | Buffer) => {
    const piece = typeof text === 'string' ? Buffer.from(text) : text
    length += piece.length
    if (isFull) return false
    isFull = !reserve(bufferedBytes + length)
    if (isFull) abort()
    else pieces.push(piece)
    return !isFull
  }
  try {
    await stream({ write, allow: () => true, drained: () => Promise.resolve() })
  } catch (error) {
    throw isFull ? new HttpError({ kind: 'memory exhausted' }) : error
  }
  if (isFull) throw new HttpError({ kind: 'memory exhausted' })
  return Buffer.concat(pieces)
}

/** Limits for slow clients: the budget of waiting bytes, and the time for which a client may read nothing. */
export type Backlog = { readonly budget: Budget; readonly stalledMs: number }

/** Detects whether a client still reads a stream, even if the writer does not wait for the client. */
class Fetching {
  readonly #response: ServerResponse
  readonly #backlog: Backlog
  /** Undefined: no bytes wait. */
  #reservation: Reservation | undefined
  #written = 0
  #fetched = 0
  #timer: NodeJS.Timeout | undefined

  constructor(response: ServerResponse, backlog: Backlog) {
    this.#response = response
    this.#backlog = backlog
    response.on('close', () => {
      clearTimeout(this.#timer)
      this.#reservation?.release()
    })
  }

  /** Reserves memory for this many waiting bytes. @returns false if the budget is exhausted */
  isBuffered(bytes: number): boolean {
    if (bytes > 0) {
      this.#reservation ??= this.#backlog.budget.reserve()
      return this.#reservation.grow(bytes)
    }
    this.#reservation?.release()
    this.#reservation = undefined
    return true
  }

  wrote(bytes: number): void {
    this.#written += bytes
    if (this.#timer === undefined && this.#response.writableLength > 0) this.#watch()
  }

  #watch(): void {
    this.#fetched = this.#written - this.#response.writableLength
    this.#timer = setTimeout(() => this.#checkProgress(), this.#backlog.stalledMs)
  }

  #checkProgress(): void {
    this.#timer = undefined
    const waiting = this.#response.writableLength
    if (waiting === 0) return
    if (this.#written - waiting > this.#fetched) this.#watch()
    else abortResponse(this.#response)
  }
}

/**
 * Sends the head, writes the body, and ends the response. `out.allow` reserves `bufferedBytes`, the waiting bytes
 * and the bytes of the call.
 */
export async function writeStream(
  response: ServerResponse,
  stream: (out: AnswerStream) => Promise<void>,
  {
    bufferedBytes,
    reserve,
    backlog,
  }: { readonly bufferedBytes: number; readonly reserve: Reserve; readonly backlog: Backlog },
): Promise<void> {
  response.flushHeaders()
  const fetching = new Fetching(response, backlog)
  let allowed = 0
  let waiting: { readonly promise: Promise<void>; wake(): void } | undefined
  const wait = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => abortResponse(response), longestFetchMs(response.writableLength))
    const end = () => {
      clearTimeout(timer)
      waiting = undefined
      resolve()
    }
    return { promise, wake: end }
  }
  const wake = () => waiting?.wake()
  response.on('drain', wake)
  response.on('close', wake)
  const out: AnswerStream = {
    write(text) {
      if (response.destroyed || response.writableEnded) return false
      const waits = Math.max(0, response.writableLength - allowed)
      if (waits > maximumPendingBytes || !fetching.isBuffered(waits)) {
        abortResponse(response)
        return false
      }
      const isQuick = response.write(text)
      fetching.wrote(Buffer.byteLength(text))
      return isQuick
    },
    allow(bytes) {
      // Reuses the reservation of earlier calls, because a writer can call `allow` before each small piece.
      const waits = response.writableLength + bytes
      if (waits <= allowed) return true
      if (!reserve(bufferedBytes + waits)) return false
      allowed = waits
      return true
    },
    drained() {
      if (response.destroyed || !response.writableNeedDrain) return Promise.resolve()
      waiting ??= wait()
      return waiting.promise
    },
  }
  try {
    await stream(out)
    if (response.writableLength > 0) boundSending(response, response.writableLength)
    response.end()
  } catch {
    abortResponse(response)
  }
}
