/**
 * Runs the requests of one connection one after another. By RFC 9112 (section 9.3.2), only requests with safe methods
 * may run in parallel. A limited number of pipelined requests may wait. After the client disconnects, no further
 * request starts.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** How many requests of one connection may wait for earlier requests. */
export const maximumWaiting = 64

export class RequestQueue {
  readonly #waiting = new WeakMap<Socket, (() => void)[]>()

  /**
   * Starts the request after all earlier requests of the connection have been answered. Closes a connection with too
   * many waiting requests.
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
