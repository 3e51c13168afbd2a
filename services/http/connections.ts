/**
 * Limits a server's connections. At the limit, the server closes the connection that has been unused for the longest
 * time. So clients that open thousands of connections do not block other clients. A connection is in use only
 * from the arrival of a complete request until the end of the response.
 */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

const usualMost = 10_000
/** File descriptors reserved for files, database connections and other uses. */
const otherFiles = 256

/**
 * The requested limit, or the file descriptor limit minus `otherFiles` if that is lower. Reads the soft limit, which
 * Node has already raised to the hard limit.
 */
export function mostConnections(wanted = usualMost): number {
  try {
    const files = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return files === undefined ? wanted : Math.max(1, Math.min(wanted, Number(files) - otherFiles))
  } catch {
    return wanted
  }
}

/** A TLS socket and its plain socket have the same key. Over a Unix socket, the other end has no address. */
const keyOf = (socket: Socket): string | Socket =>
  socket.remoteAddress === undefined ? socket : `${socket.remoteAddress} ${socket.remotePort}`

export class Connections {
  readonly #most: number
  #open = 0
  /** Connections that are not in use. The first one has been unused for the longest time. */
  readonly #unused = new Map<string | Socket, Socket>()

  constructor(server: Server, most: number) {
    this.#most = most
    server.on('connection', socket => this.#add(socket))
  }

  #add(socket: Socket): void {
    const key = keyOf(socket)
    this.#open += 1
    socket.once('close', () => {
      this.#open -= 1
      this.#unused.delete(key)
    })
    this.#unused.set(key, socket)
    if (this.#open <= this.#most) return
    for (const [oldest, unused] of this.#unused) {
      this.#unused.delete(oldest)
      unused.destroy()
      return
    }
  }

  /** Call this when the server has received a complete request. */
  use(socket: Socket): void {
    this.#unused.delete(keyOf(socket))
  }

  /** Call this when the response has ended. */
  release(socket: Socket): void {
    if (!socket.destroyed) this.#unused.set(keyOf(socket), socket)
  }
}
