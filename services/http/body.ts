/**
 * Reads a request body as it arrives. Refuses a body as soon as it is too large or exceeds the memory budget, or if
 * its sink throws. The reader yields to other requests. Each chunk has a fixed cost, so the reader joins small chunks.
 */
import type { IncomingMessage } from 'node:http'
import type { Reservation } from './budget.ts'
import { delayCloseAfter } from './delayed-close.ts'
import { HttpError } from './errors.ts'
import type { BodySink } from './message.ts'
import { parseInSlices } from './slices.ts'

/** The reader yields after this many bytes. A turn is the work between two yields. */
const turnBytes = 65_536
/** The reader also yields after this time, in ms. */
const turnMs = 2
/** For small chunks, the reader reads the clock once per this many chunks. */
const chunksBetweenChecks = 128
/** After a turn longer than this, in ms, the reader pauses for as long as the turn took, so that other requests run. */
const longTurnMs = 4
/** The reader joins chunks that are smaller than this, because clients can send one byte per chunk. */
const smallChunkBytes = 1_024
const coalescedBytes = 16_384

/**
 * Joins small chunks of a body. Passes on the first chunk without a copy, because most bodies have one chunk.
 */
class Coalescer {
  readonly #passOn: (chunk: Buffer) => void
  #buffer: Buffer | undefined
  #filled = 0
  #isFirst = true

  constructor(passOn: (chunk: Buffer) => void) {
    this.#passOn = passOn
  }

  push(chunk: Buffer): void {
    if (this.#isFirst || chunk.length >= smallChunkBytes) {
      this.#isFirst = false
      this.flush()
      this.#passOn(chunk)
      return
    }
    this.#buffer ??= Buffer.allocUnsafe(coalescedBytes)
    this.#filled += chunk.copy(this.#buffer, this.#filled)
    if (this.#filled > coalescedBytes - smallChunkBytes) this.flush()
  }

  flush(): void {
    const complete = this.#buffer?.subarray(0, this.#filled)
    this.#buffer = undefined
    this.#filled = 0
    if (complete !== undefined) this.#passOn(complete)
  }
}

type Reading = {
  readonly request: IncomingMessage
  readonly into: BodySink
  readonly maximumBytes: number
  readonly reservation: Reservation
  readonly disconnected: AbortSignal
}

/** Rejects with HttpError, the error of the sink, or the reason of `disconnected`. */
export function readBody({ request, into, maximumBytes, reservation, disconnected }: Reading): Promise<void> {
  const tooLarge = () => new HttpError({ kind: 'body too large', maximumBytes })
  if (Number(request.headers['content-length'] ?? 0) > maximumBytes) return Promise.reject(tooLarge())
  return new Promise((resolve, reject) => {
    if (disconnected.aborted) return reject(disconnected.reason)
    const { socket } = request
    let isOver = false
    const arrived = reservation.addUpload(() => end(new HttpError({ kind: 'memory exhausted' })))
    const end = (error?: unknown) => {
      isOver = true
      arrived()
      if (error === undefined) resolve()
      else reject(error)
    }
    const attempt = (step: () => void) => {
      try {
        if (!isOver) step()
      } catch (error) {
        end(error)
      }
    }
    // One read from the socket can contain thousands of chunks of a chunked body.
    let isSliced = false
    const slice = () => {
      isSliced = !isOver && !request.complete && parseInSlices(socket)
    }
    if (request.headers['transfer-encoding'] !== undefined) process.nextTick(slice)
    /** The current turn: its start, and the number of bytes received before it. */
    let turn: { readonly began: number; readonly from: number } | undefined
    const beginTurn = () => {
      setImmediate(endTurn)
      return { began: performance.now(), from: length }
    }
    const endTurn = () => {
      const took = performance.now() - (turn?.began ?? 0)
      turn = undefined
      if (isSliced || !socket.isPaused()) return
      if (took > longTurnMs) setTimeout(() => socket.resume(), took)
      else socket.resume()
    }
    const pause = () => socket.pause()
    let length = 0
    let chunks = 0
    const coalescer = new Coalescer(chunk => {
      into.push(chunk)
      if (!reservation.grow(into.bufferedBytes)) throw new HttpError({ kind: 'memory exhausted' })
      if (turn === undefined || isSliced || socket.isPaused()) return
      if (length - turn.from >= turnBytes || performance.now() - turn.began >= turnMs) pause()
    })
    request.on('data', (chunk: Buffer) =>
      attempt(() => {
        turn ??= beginTurn()
        length += chunk.length
        if (length > maximumBytes) throw tooLarge()
        coalescer.push(chunk)
        const isLate = ++chunks % chunksBetweenChecks === 0 && performance.now() - turn.began >= turnMs
        if (isLate && !isSliced && !socket.isPaused()) pause()
      }),
    )
    request.on('end', () => {
      attempt(() => coalescer.flush())
      end()
    })
    // After an error, the connection closes, and `disconnected` ends the reading.
    request.on('error', () => {})
    disconnected.addEventListener('abort', () => end(disconnected.reason))
  })
}

/** Undefined for a chunked body; 0 if the request has no body. */
export const bodyLength = ({ headers }: IncomingMessage): number | undefined =>
  headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : undefined

/**
 * Discards the rest of a body whose request was answered early. Otherwise the server could not find the connection's
 * next request. A client that still sends would also lose the response when the connection closes. Closes the
 * connection above the discard limit. Without this, Node would read the rest without limit.
 */
export function discardBody(request: IncomingMessage, maximumBytes: number): void {
  if (bodyLength(request) === 0 || request.readableEnded || request.destroyed) return
  delayCloseAfter(request, maximumBytes)
  let remaining = maximumBytes
  request.on('data', (chunk: Buffer) => {
    remaining -= chunk.length
    if (remaining < 0) request.socket.destroy()
  })
  request.resume()
}
