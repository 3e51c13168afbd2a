/**
 * Limits the connections of a server. At the limit, the connection that has been idle or incomplete for longest is
 * closed, so that clients that open thousands of connections do not block others. A connection whose request is being
 * answered is never closed.
 */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

const usualMost = 10_000
/** File descriptors reserved for everything else. */
const otherFiles = 256

/**
 * The wanted number, or what the process's file descriptor limit allows. Node raises the soft limit to the hard limit.
 */
export function mostConnections(wanted = usualMost): number {
  try {
    const files = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return files === undefined ? wanted : Math.max(1, Math.min(wanted, Number(files) - otherFiles))
  } catch {
    return wanted
  }
}

/** The plain socket and its TLS socket map to the same entry. */
const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

export class Connections {
  readonly #most: number
  #open = 0
  /** Connections without a complete request that waits for its response, longest idle first. */
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

  /** A complete request has been received. */
  use(socket: Socket): void {
    this.#unused.delete(nameOf(socket))
  }

  /** The response has ended. */
  remove(socket: Socket): void {
    if (!socket.destroyed) this.#unused.set(nameOf(socket), socket)
  }
}
