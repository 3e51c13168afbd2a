/** Sends a server the same small request continuously over one connection, and reports each duration. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const pauseMs = 1

export class BodyReader {
  readonly #port: number
  readonly #request: string
  readonly #times: number[] = []
  #socket: Socket | undefined
  #running: Promise<void> | undefined
  #isOver = false

  constructor(port: number, request: string) {
    this.#port = port
    this.#request = request
  }

  /** Resolves after the first response, which does not count because it opens connections. */
  async begin(): Promise<void> {
    const socket = connect({ host: '127.0.0.1', port: this.#port, noDelay: true })
    this.#socket = socket
    await once(socket, 'connect')
    await this.#sendRequest(socket)
    this.#times.length = 0
    this.#running = this.#go(socket)
  }

  /** Stops the requests. @returns the duration of each request in ms */
  async end(): Promise<number[]> {
    this.#isOver = true
    await this.#running
    this.#socket?.destroy()
    return this.#times
  }

  async #go(socket: Socket): Promise<void> {
    while (!this.#isOver) {
      await this.#sendRequest(socket)
      await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
  }

  /** Waits for one chunk, because the response to a small request arrives in one chunk. */
  async #sendRequest(socket: Socket): Promise<void> {
    const began = performance.now()
    socket.write(this.#request)
    await once(socket, 'data')
    this.#times.push(performance.now() - began)
  }
}
