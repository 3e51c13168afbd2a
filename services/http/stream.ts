/**
 * Answers that come bit by bit. It promises that what is held for a client that reads slowly has a bound, that the writer learns of it, and
 * that an answer whose writer fails is cut off, so that no client takes it for whole.
 */
import type { ServerResponse } from 'node:http'
import type { Reservation } from './budget.ts'
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

/** Writes to a response whose head is written, and ends it. `reservation` is asked for memory where `held` bytes are not enough. */
export async function writeStream(
  response: ServerResponse,
  stream: (out: AnswerStream) => Promise<void>,
  { reservation, held }: { readonly reservation: Reservation; readonly held: number },
): Promise<void> {
  response.flushHeaders()
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
      if (response.writableLength > maximumPendingBytes + allowed) {
        response.destroy()
        return false
      }
      return response.write(text)
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
