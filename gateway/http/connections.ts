/**
 * The connections of the HTTPS listener. A connection that has sent nothing costs a socket but no TLS session. Above
 * the limit, the oldest connection without a request is closed, of the address with the most such connections. So
 * silent clients do not block other clients. A connection with a request in progress is never closed to make place for
 * another connection.
 */
import type { Socket } from 'node:net'
import { keepAliveMs } from '../session.ts'
import { normaliseAddress } from '../table.ts'
import type { HttpLimits } from './limits.ts'

export type HttpConnection = {
  /** The client's address, normalised. */
  readonly address: string
  /** The name in the client's TLS handshake (SNI). */
  serverName: string | undefined
  /** Call this when a request starts. Other requests of the connection may be in progress. */
  begin(): void
  /**
   * Call this when a request has ended. `isAbandoned`: the client disconnected before its response started. A
   * connection with too many of these is closed.
   */
  end(isAbandoned: boolean): void
  /** Sets how to close the connection gracefully once it is idle: with an HTTP/2 GOAWAY. */
  closeBy(close: () => void): void
  close(): void
}

type Peer = { readonly remoteAddress?: string | undefined; readonly remotePort?: number | undefined }

type HttpConnections = {
  accept(socket: Socket): void
  /** The connection that carries a TLS session; undefined if it is closed. */
  of(peer: Peer): HttpConnection | undefined
  count(): number
  /** Closes the connections without a request now, and the others as soon as they have no request. */
  drain(): void
  closeAll(): void
}

const keyOf = ({ remoteAddress, remotePort }: Peer): string => `${remoteAddress} ${remotePort}`

/** Connections without a request in progress, by address, oldest first. */
class Waiting {
  readonly #byAddress = new Map<string, Set<Connection>>()
  size = 0

  add(connection: Connection): void {
    const { address } = connection
    const of = this.#byAddress.get(address) ?? new Set()
    this.#byAddress.set(address, of)
    if (!of.has(connection)) this.size++
    of.add(connection)
  }

  delete(connection: Connection): void {
    const of = this.#byAddress.get(connection.address)
    if (of?.delete(connection) !== true) return
    this.size--
    if (of.size === 0) this.#byAddress.delete(connection.address)
  }

  oldestOf(address: string): Connection | undefined {
    return this.#byAddress.get(address)?.values().next().value
  }

  /** The oldest connection of the address with the most connections. */
  oldestOfMost(): Connection | undefined {
    let most: Set<Connection> | undefined
    for (const of of this.#byAddress.values()) if (of.size > (most?.size ?? 0)) most = of
    return most?.values().next().value
  }
}

class Connection implements HttpConnection {
  readonly address: string
  readonly #socket: Socket
  readonly #changed: (connection: Connection) => void
  #close: (() => void) | undefined
  readonly #mostAbandoned: number
  #abandoned = 0
  serverName: string | undefined
  requests = 0
  /** Whether the connection has had a request. */
  spoke = false
  /** The time at which the connection is closed if it has no request until then. */
  deadline: number

  constructor(
    { socket, address, deadline }: { socket: Socket; address: string; deadline: number },
    mostAbandoned: number,
    changed: (connection: Connection) => void,
  ) {
    this.#socket = socket
    this.#mostAbandoned = mostAbandoned
    this.address = address
    this.deadline = deadline
    this.#changed = changed
  }

  begin(): void {
    this.requests++
    this.spoke = true
    if (this.requests === 1) this.#changed(this)
  }

  end(isAbandoned: boolean): void {
    if (isAbandoned && ++this.#abandoned > this.#mostAbandoned) this.#socket.destroy()
    this.requests--
    if (this.requests === 0) this.#changed(this)
  }

  closeBy(close: () => void): void {
    this.#close = close
  }

  /** Called at every sweep, so that old abandoned requests no longer count. */
  decayAbandoned(): void {
    this.#abandoned = Math.floor(this.#abandoned * 0.9)
  }

  closeGracefully(): void {
    if (this.#close === undefined) this.#socket.destroy()
    else this.#close()
  }

  close(): void {
    this.#socket.destroy()
  }
}

export function createHttpConnections(options: {
  limits: HttpLimits
  now: () => number
  /** Handles a connection whose client has sent data. The data stay unread. */
  serve: (socket: Socket) => void
}): HttpConnections & { sweep(): void } {
  const { limits, now, serve } = options
  const open = new Map<string, Connection>()
  const keys = new Map<Connection, string>()
  const perAddress = new Map<string, number>()
  const silent = new Waiting()
  const idle = new Waiting()
  let draining = false

  const changed = (connection: Connection): void => {
    silent.delete(connection)
    idle.delete(connection)
    if (connection.requests > 0 || !keys.has(connection)) return
    connection.deadline = now() + limits.idleMs
    if (draining) connection.closeGracefully()
    else idle.add(connection)
  }

  /** Closes one connection if necessary. Returns false if all connections have a request in progress. */
  const ensureCapacity = (address: string): boolean => {
    let victim: Connection | undefined
    if ((perAddress.get(address) ?? 0) >= limits.connectionsPerAddress)
      victim = silent.oldestOf(address) ?? idle.oldestOf(address)
    else if (silent.size >= limits.silentConnections) victim = silent.oldestOfMost()
    else if (open.size >= limits.connections) victim = silent.oldestOfMost() ?? idle.oldestOfMost()
    else return true
    victim?.close()
    if (victim !== undefined) forget(victim)
    return victim !== undefined
  }

  const forget = (connection: Connection): void => {
    const key = keys.get(connection)
    if (key === undefined) return
    keys.delete(connection)
    open.delete(key)
    silent.delete(connection)
    idle.delete(connection)
    const remaining = (perAddress.get(connection.address) ?? 1) - 1
    if (remaining > 0) perAddress.set(connection.address, remaining)
    else perAddress.delete(connection.address)
  }

  const accept = (socket: Socket): void => {
    // A 'close' event follows every error of a socket.
    socket.on('error', () => {})
    const address = normaliseAddress(socket.remoteAddress ?? '')
    if (address === '' || draining || !ensureCapacity(address)) {
      socket.destroy()
      return
    }
    socket.setNoDelay(true).setKeepAlive(true, keepAliveMs)
    const connection = new Connection(
      { socket, address, deadline: now() + limits.firstRequestMs },
      limits.abandonedRequests,
      changed,
    )
    const key = keyOf(socket)
    open.set(key, connection)
    keys.set(connection, key)
    perAddress.set(address, (perAddress.get(address) ?? 0) + 1)
    silent.add(connection)
    socket.once('close', () => forget(connection))
    onceItSpeaks(socket, serve)
  }

  return {
    accept,
    of: peer => open.get(keyOf(peer)),
    count: () => open.size,
    sweep: () => {
      const at = now()
      for (const connection of open.values()) {
        connection.decayAbandoned()
        if (connection.requests > 0 || connection.deadline > at) continue
        // A connection that does not close after a graceful request is closed at the second sweep.
        if (connection.spoke && connection.deadline > at - limits.firstRequestMs) connection.closeGracefully()
        else connection.close()
      }
    },
    drain: () => {
      draining = true
      for (const connection of open.values()) if (connection.requests === 0) connection.closeGracefully()
    },
    closeAll: () => {
      for (const connection of open.values()) connection.close()
    },
  }
}

function onceItSpeaks(socket: Socket, serve: (socket: Socket) => void): void {
  const onReadable = (): void => {
    socket.off('readable', onReadable)
    if (socket.destroyed) return
    if (socket.readableLength > 0) serve(socket)
    else socket.destroy()
  }
  socket.on('readable', onReadable)
}
