/**
 * The connections of one server. It promises that their number has a bound, and that those that nobody makes use of go first: who opens thousands and sends nothing, or
 * never comes to an end, keeps nobody else out. What is being answered is never cut off for another.
 */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

const usualMost = 10_000
/** Of the files that a process may have open, for all else. */
const otherFiles = 256

/** As many as are wanted, or as the system lets this process have; Node has made use of the whole limit. */
export function mostConnections(wanted = usualMost): number {
  try {
    const files = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return files === undefined ? wanted : Math.max(1, Math.min(wanted, Number(files) - otherFiles))
  } catch {
    return wanted
  }
}

/** The same for a connection, and for what TLS makes of it. */
const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

export class Connections {
  readonly #most: number
  #open = 0
  /** No request of theirs has come whole and waits for its answer; the one that has been so for longest is first. */
  readonly #unused = new Map<string, Socket>()

  constructor(server: Server, most: number) {
    this.#most = most
    server.on('connection', socket => this.#add(socket))
  }

  #add(socket: Socket): void {
    const name = nameOf(socket)
    this.#open += 1
    socket.once('close', () => {
      this.#open -= 1
      this.#unused.delete(name)
    })
    this.#unused.set(name, socket)
    if (this.#open <= this.#most) return
    for (const [oldest, unused] of this.#unused) {
      this.#unused.delete(oldest)
      unused.destroy()
      return
    }
  }

  /** A request has come whole. */
  use(socket: Socket): void {
    this.#unused.delete(nameOf(socket))
  }

  /** Its answer is over. */
  leave(socket: Socket): void {
    if (!socket.destroyed) this.#unused.set(nameOf(socket), socket)
  }
}
