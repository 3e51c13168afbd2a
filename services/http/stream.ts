/**
 * Answers that come bit by bit. It promises that what is held for a client that reads slowly has a bound, and for all of them together; that the writer learns of it; that
 * a client that reads nothing any more is hung up on; and that an answer whose writer fails is cut off, so that no client takes it for whole.
 */
import type { ServerResponse } from 'node:http'
import type { Budget, Reservation } from './budget.ts'
import type { AnswerStream } from './message.ts'

/** A client that has so much to fetch and is sent more is hung up on. */
const maximumPendingBytes = 1_048_576

/** Who fetches more slowly than 10 kB a second would have the answer held for as long as they like. */
const longestFetchMs = (bytes: number): number => 60_000 + bytes / 10

/** What is sent as a whole has to be fetched in time. */
export function boundSending(response: ServerResponse, bytes: number): void {
  const timer = setTimeout(() => response.destroy(), longestFetchMs(bytes))
  response.on('close', () => clearTimeout(timer))
}

/** Where nothing in the answer says where it ends but the end of the connection, that has to look like what it is. */
function cutOff(response: ServerResponse): void {
  const { socket } = response
  if (!response.useChunkedEncodingByDefault && socket !== null && !('encrypted' in socket)) socket.resetAndDestroy()
  response.destroy()
}

/** What waits in streams whose clients are slow: the room for all of it, and how long one may fetch nothing. */
type Backlog = { readonly budget: Budget; readonly stalledMs: number }

/** Whether a client still fetches what it is sent, though its writer does not wait for it. */
class Fetching {
  readonly #response: ServerResponse
  readonly #backlog: Backlog
  /** undefined: nothing waits. */
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

  /** @returns whether there is room for so much that waits */
  holds(bytes: number): boolean {
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
    this.#timer = setTimeout(() => this.#look(), this.#backlog.stalledMs)
  }

  #look(): void {
    this.#timer = undefined
    const waiting = this.#response.writableLength
    if (waiting === 0) return
    if (this.#written - waiting > this.#fetched) this.#watch()
    else this.#response.destroy()
  }
}

/** Writes to a response whose head is written, and ends it. `reservation` is asked for memory where `held` bytes are not enough. */
export async function writeStream(
  response: ServerResponse,
  stream: (out: AnswerStream) => Promise<void>,
  { reservation, held, backlog }: { readonly reservation: Reservation; readonly held: number; backlog: Backlog },
): Promise<void> {
  response.flushHeaders()
  const fetching = new Fetching(response, backlog)
  let allowed = 0
  let waiting: { readonly promise: Promise<void>; wake(): void } | undefined
  const wait = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => response.destroy(), longestFetchMs(response.writableLength))
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
      if (waits > maximumPendingBytes || !fetching.holds(waits)) {
        response.destroy()
        return false
      }
      const isQuick = response.write(text)
      fetching.wrote(Buffer.byteLength(text))
      return isQuick
    },
    allow(bytes) {
      if (!reservation.grow(held + allowed + bytes)) return false
      allowed += bytes
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
    cutOff(response)
  }
}
