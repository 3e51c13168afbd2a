/**
 * The requests of one connection, one after the other: RFC 9112 section 9.3.2 lets none that writes run beside another. It promises that a client that sends on without
 * waiting for its answers has one request run at a time, like one that waits; that it is not listened to without end; and that nothing is begun for it once it is gone.
 */
// @ts-nocheck

import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests that may wait on one connection for those before them. */
export const maximumWaiting = 64

export class RequestQueue {
  readonly #waiting = new WeakMap<Socket, (() => void)[]>()

  /** Begins once all that came before it on its connection is answered. A connection with too many that wait is ended. */
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
