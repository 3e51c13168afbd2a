/**
 * The body of a request, read as it comes. It promises that a body which is too large, that there is no room for, or that its reader refuses, is refused as soon as that shows;
 * that no body keeps others from their turn; and that one in tiny chunks costs not much more than its bytes.
 */
import type { IncomingMessage } from 'node:http'
import type { Reservation } from './budget.ts'
import { HttpError } from './errors.ts'
import { lingerAfter } from './linger.ts'
import type { BodySink } from './message.ts'
import { parseInSlices } from './slices.ts'

/**
 * After so much of a body others have their turn; and after so long, where it comes in many small chunks: of so many it is
 * looked at the clock.
 */
const turnBytes = 65_536
const turnMs = 2
const chunksBetweenLooks = 128
/** A turn that took longer is followed by a pause as long as it was, since what others wait for takes several turns of theirs. */
const longTurnMs = 4
/** Chunks of fewer bytes are put together before they are looked at: one may be of one byte. */
const smallChunkBytes = 1_024
const coalescedBytes = 16_384

/** Hands on chunks of a body, small ones together; but the first one as it is, since most bodies are one. */
class Coalescer {
  readonly #handOn: (chunk: Buffer) => void
  #buffer: Buffer | undefined
  #filled = 0
  #isFirst = true

  constructor(handOn: (chunk: Buffer) => void) {
    this.#handOn = handOn
  }

  push(chunk: Buffer): void {
    if (this.#isFirst || chunk.length >= smallChunkBytes) {
      this.#isFirst = false
      this.flush()
      this.#handOn(chunk)
      return
    }
    this.#buffer ??= Buffer.allocUnsafe(coalescedBytes)
    this.#filled += chunk.copy(this.#buffer, this.#filled)
    if (this.#filled > coalescedBytes - smallChunkBytes) this.flush()
  }

  flush(): void {
    const whole = this.#buffer?.subarray(0, this.#filled)
    this.#buffer = undefined
    this.#filled = 0
    if (whole !== undefined) this.#handOn(whole)
  }
}

type Reading = {
  readonly request: IncomingMessage
  readonly into: BodySink
  readonly maximumBytes: number
  readonly reservation: Reservation
  readonly gone: AbortSignal
}

/** Reads a body to its end. */
export function readBody({ request, into, maximumBytes, reservation, gone }: Reading): Promise<void> {
  const tooLarge = () => new HttpError({ kind: 'body too large', maximumBytes })
  if (Number(request.headers['content-length'] ?? 0) > maximumBytes) return Promise.reject(tooLarge())
  return new Promise((resolve, reject) => {
    if (gone.aborted) return reject(gone.reason)
    const { socket } = request
    let isOver = false
    const arrived = reservation.coming(() => end(new HttpError({ kind: 'memory exhausted' })))
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
    // What is cut into chunks can be cut into thousands in what is read at once.
    let isSliced = false
    const slice = () => {
      isSliced = !isOver && !request.complete && parseInSlices(socket)
    }
    if (request.headers['transfer-encoding'] !== undefined) process.nextTick(slice)
    /** What has come since others had their turn. */
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
    // What has been read of the socket already comes all the same.
    const giveWay = () => socket.pause()
    let length = 0
    let chunks = 0
    const coalescer = new Coalescer(chunk => {
      into.push(chunk)
      if (!reservation.grow(into.held)) throw new HttpError({ kind: 'memory exhausted' })
      if (turn === undefined || isSliced || socket.isPaused()) return
      if (length - turn.from >= turnBytes || performance.now() - turn.began >= turnMs) giveWay()
    })
    request.on('data', (chunk: Buffer) =>
      attempt(() => {
        turn ??= beginTurn()
        length += chunk.length
        if (length > maximumBytes) throw tooLarge()
        coalescer.push(chunk)
        const isLate = ++chunks % chunksBetweenLooks === 0 && performance.now() - turn.began >= turnMs
        if (isLate && !isSliced && !socket.isPaused()) giveWay()
      }),
    )
    request.on('end', () => {
      attempt(() => coalescer.flush())
      end()
    })
    // Whatever else ends a body early ends its connection as well.
    request.on('error', () => {})
    gone.addEventListener('abort', () => end(gone.reason))
  })
}

/** Undefined where the client does not say it. */
export const bodyLength = ({ headers }: IncomingMessage): number | undefined =>
  headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : undefined

/**
 * What is left of a body that is answered without it, so that the next request of its connection can be read, and so that the client has read the answer before its connection ends; with
 * more than a connection may discard, it ends. Node by itself would read on for as long as it comes.
 */
export function discardBody(request: IncomingMessage, maximumBytes: number): void {
  if (bodyLength(request) === 0 || request.readableEnded || request.destroyed) return
  lingerAfter(request, maximumBytes)
  let left = maximumBytes
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) request.socket.destroy()
  })
  request.resume()
}
