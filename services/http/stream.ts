/**
 * Answers that come bit by bit. It promises that what is held for a client that reads slowly has a bound, and for all of them together; that the writer learns of it; that
 * a client that reads nothing any more is hung up on; and that an answer whose writer fails is cut off, so that no client takes it for whole.
 */
import type { ServerResponse } from 'node:http'
import type { Budget, Reservation } from './budget.ts'
import { HttpError } from './errors.ts'
import type { AnswerStream } from './message.ts'

/** A client that has so much to fetch and is sent more is hung up on. */
const maximumPendingBytes = 1_048_576

/** Who fetches more slowly than 10 kB a second would have the answer held for as long as they like. */
const longestFetchMs = (bytes: number): number => 60_000 + bytes / 10

/** What is sent as a whole has to be fetched in time. */
export function boundSending(response: ServerResponse, bytes: number): void {
  const timer = setTimeout(() => cutOff(response), longestFetchMs(bytes))
  response.on('close', () => clearTimeout(timer))
}

const isTcp = ({ socket }: ServerResponse): boolean => socket?.remoteAddress !== undefined && !('encrypted' in socket)

/** Whether the end of the connection is all that says where a stream ends, over a socket on which that looks the same however it comes. */
export const hidesItsEnd = (response: ServerResponse): boolean =>
  !response.useChunkedEncodingByDefault && response.socket?.remoteAddress === undefined

/** Where nothing in the answer says where it ends but the end of the connection, that has to look like what it is. */
function cutOff(response: ServerResponse): void {
  if (!response.useChunkedEncodingByDefault && isTcp(response)) response.socket?.resetAndDestroy()
  response.destroy()
}

/** Whether so many bytes may be held for a request in all. */
type HasRoom = (bytes: number) => boolean

/**
 * All that a stream writes. Where there is no room for it beside the bytes that are held, `giveUp` has to end the stream.
 * @throws what the stream throws; HttpError where there is no room
 */
export async function gather(
  stream: (out: AnswerStream) => Promise<void>,
  { held, hasRoom, giveUp }: { readonly held: number; readonly hasRoom: HasRoom; readonly giveUp: () => void },
): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  let isFull = false
  const write = (text: string | Buffer) => {
    const piece = typeof text === 'string' ? Buffer.from(text) : text
    length += piece.length
    if (isFull) return false
    isFull = !hasRoom(held + length)
    if (isFull) giveUp()
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

/** What waits in streams whose clients are slow: the room for all of it, and how long one may fetch nothing. */
export type Backlog = { readonly budget: Budget; readonly stalledMs: number }

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
    else cutOff(this.#response)
  }
}

/** Writes to a response whose head is written, and ends it. `hasRoom` is asked for memory where `held` bytes are not enough. */
export async function writeStream(
  response: ServerResponse,
  stream: (out: AnswerStream) => Promise<void>,
  { held, hasRoom, backlog }: { readonly held: number; readonly hasRoom: HasRoom; readonly backlog: Backlog },
): Promise<void> {
  response.flushHeaders()
  const fetching = new Fetching(response, backlog)
  let allowed = 0
  let waiting: { readonly promise: Promise<void>; wake(): void } | undefined
  const wait = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => cutOff(response), longestFetchMs(response.writableLength))
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
        cutOff(response)
        return false
      }
      const isQuick = response.write(text)
      fetching.wrote(Buffer.byteLength(text))
      return isQuick
    },
    allow(bytes) {
      // What one step left unused counts for the next: a writer of small pieces asks for a step at each of them.
      const waits = response.writableLength + bytes
      if (waits <= allowed) return true
      if (!hasRoom(held + waits)) return false
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
    cutOff(response)
  }
}
