/**
 * The requests of one connection, one after another: RFC 9112 section 9.3.2 forbids running a request that writes in
 * parallel with another. A client that pipelines requests has one request running at a time and a limited queue. After
 * it disconnects, no further request is started.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that may wait for earlier ones. */
export const maximumWaiting = 64

export class RequestQueue {
  readonly #waiting = new WeakMap<Socket, (() => void)[]>()

  /**
   * Starts after all earlier requests of the connection have been answered. A connection with too many waiting requests
   * is closed.
   */
  add(socket: Socket, response: ServerResponse, begin: () => void): void {
    const start = () => {
      response.once('close', () => this.#next(socket))
      begin()
    }
    const waiting = this.#waiting.get(socket)
    if (waiting === undefined) {
      this.#waiting.set(socket, [])
      start()
    } else if (waiting.length < maximumWaiting) waiting.push(start)
    else socket.destroy()
  }

  #next(socket: Socket): void {
    const next = socket.destroyed ? undefined : this.#waiting.get(socket)?.shift()
    if (next === undefined) this.#waiting.delete(socket)
    else next()
  }
}
