/** Asks a server the same small question all the time over one connection, and says how long each answer took. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const pauseMs = 1

export class Asker {
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

  /** Resolves once the first answer is there, which does not count: it opens connections. */
  async begin(): Promise<void> {
    const socket = connect({ host: '127.0.0.1', port: this.#port, noDelay: true })
    this.#socket = socket
    await once(socket, 'connect')
    await this.#ask(socket)
    this.#times.length = 0
    this.#running = this.#go(socket)
  }

  /** Milliseconds of each answer. */
  async end(): Promise<number[]> {
    this.#isOver = true
    await this.#running
    this.#socket?.destroy()
    return this.#times
  }

  async #go(socket: Socket): Promise<void> {
    while (!this.#isOver) {
      await this.#ask(socket)
      await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
  }

  /** An answer to a small question comes in one piece. */
  async #ask(socket: Socket): Promise<void> {
    const began = performance.now()
    socket.write(this.#request)
    await once(socket, 'data')
    this.#times.push(performance.now() - began)
  }
}
