/**
 * Serves accepted connections: joins admitted connections to their target, and refuses the others with an error in
 * Postgres's protocol. The rules are checked when a connection arrives, and again right before it is joined, so that
 * the current rules apply to a slow client. Between the two checks the connection waits for a login slot. Once joined,
 * only its two ends close it.
 */
import type { Socket } from 'node:net'
import type { RouteTarget } from '../routes/route.ts'
import { notAdmitted, notAvailable, outOfTouch, tooMany, tooManyLogins } from './denial/refusal.ts'
import type { Refuse } from './denial/refuse.ts'
import { createLogins, type Login, type LoginCounts, type LoginLimits, type Logins, watchLogin } from './logins.ts'
import type { GatewayMetrics } from './metrics.ts'
import { connectTarget, join, untilFirstBytes } from './session.ts'
import { type ConnectionDecision, normaliseAddress } from './table.ts'

export type ConnectionLimits = {
  /** The maximum number of concurrent admitted connections: of one route, and of all routes. */
  perRoute: number
  total: number
  /** How long a client may take to send its first bytes, in milliseconds. */
  firstBytesMs: number
  /** How long a target may take to answer, in milliseconds. */
  connectMs: number
  /** How long one side may keep its half of a connection open without traffic after the other side closed, in milliseconds. */
  halfOpenMs: number
}

const connectionLimits: ConnectionLimits = {
  perRoute: 2_000,
  total: 20_000,
  firstBytesMs: 10_000,
  connectMs: 5_000,
  halfOpenMs: 60_000,
}

/** Returns the address of a Service; undefined if no pod of the Service is ready. */
export type Resolve = (target: RouteTarget) => { host: string; port: number } | undefined

export type Connections = {
  accept(port: number, socket: Socket): void
  /** Returns the number of admitted connections, joined or not. */
  count(): number
  /** Waits up to `ms` for open connections to end, then closes the others. */
  drain(ms: number): Promise<void>
  /** Returns the connections that have not logged in. */
  logins(): LoginCounts
}

type ConnectionsOptions = {
  /** Whether the rules are known to be current. */
  admitting: () => boolean
  decide: (port: number, address: string) => ConnectionDecision
  resolve: Resolve
  refuse: Refuse
  limits?: Partial<ConnectionLimits> | undefined
  loginLimits?: Partial<LoginLimits> | undefined
  metrics: GatewayMetrics
  /** Called with a port when the connection to its database failed although the database's Service has an address. */
  onUnreachable: (port: number) => void
}

type Admission = { label: string; target: RouteTarget }

export function createConnections(options: ConnectionsOptions): Connections {
  return new AcceptedConnections(options)
}

class AcceptedConnections implements Connections {
  readonly #options: ConnectionsOptions
  readonly #limits: ConnectionLimits
  readonly #logins: Logins
  readonly #admitted = new Set<Socket>()
  readonly #admittedOf = new Map<number, number>()

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#limits = { ...connectionLimits, ...options.limits }
    this.#logins = createLogins(options.loginLimits)
  }

  accept(port: number, socket: Socket): void {
    // A 'close' event follows every error of a socket, so errors need no handler of their own.
    socket.on('error', () => {})
    const address = normaliseAddress(socket.remoteAddress ?? '')
    if (address === '') {
      socket.destroy()
      return
    }
    const found = this.#checkAdmission(socket, port, address)
    if (found === undefined) return
    if (!this.#claim(socket)) {
      this.#options.refuse(socket, { port, address, label: found.label }, 'too-many', tooMany(found.label))
      return
    }
    const login = this.#logins.arrive(port, address, () => socket.destroy())
    // Runs however the connection ends: refused, joined or closed.
    socket.once('close', login.end)
    void this.#serve(socket, port, found.label, address, login)
  }

  count(): number {
    return this.#admitted.size
  }

  logins(): LoginCounts {
    return this.#logins.countByPort()
  }

  async drain(ms: number): Promise<void> {
    const over = Promise.all([...this.#admitted].map(socket => new Promise(resolve => socket.once('close', resolve))))
    const deadline = setTimeout(() => {
      for (const socket of this.#admitted) socket.destroy()
    }, ms)
    await over
    clearTimeout(deadline)
  }

  /** Returns the target; undefined if the connection has been refused. */
  #checkAdmission(socket: Socket, port: number, address: string): Admission | undefined {
    const { admitting, decide, refuse } = this.#options
    if (!admitting()) {
      refuse(socket, { port, address }, 'out-of-touch', outOfTouch)
      return undefined
    }
    const found = decide(port, address)
    if (found.kind === 'allow') return found
    if (found.kind === 'deny')
      refuse(socket, { port, address, label: found.label }, 'denied', notAdmitted(found.label, address))
    // The route was removed while the connection arrived.
    else socket.destroy()
    return undefined
  }

  #claim(socket: Socket): boolean {
    if (this.#admitted.size >= this.#limits.total) return false
    this.#admitted.add(socket)
    socket.once('close', () => this.#admitted.delete(socket))
    return true
  }

  /** Counts a connection towards its route's limit once the client has sent data. Silent connections do not count. */
  #claimOfRoute(port: number, socket: Socket): boolean {
    const ofRoute = this.#admittedOf.get(port) ?? 0
    if (ofRoute >= this.#limits.perRoute) return false
    this.#admittedOf.set(port, ofRoute + 1)
    socket.once('close', () => {
      const remaining = (this.#admittedOf.get(port) ?? 1) - 1
      if (remaining > 0) this.#admittedOf.set(port, remaining)
      else this.#admittedOf.delete(port)
    })
    return true
  }

  async #serve(client: Socket, port: number, label: string, address: string, login: Login): Promise<void> {
    const { refuse, metrics } = this.#options
    if (!(await untilFirstBytes(client, this.#limits.firstBytesMs))) {
      metrics.count('silent')
      client.destroy()
      return
    }
    if (!login.speak()) {
      refuse(client, { port, address, label }, 'too-many-logins', tooManyLogins(label, address))
      return
    }
    if (!this.#claimOfRoute(port, client)) {
      login.end()
      refuse(client, { port, address, label }, 'too-many', tooMany(label))
      return
    }
    const inTime = await login.begin()
    if (client.destroyed) return
    const first = this.#checkAdmission(client, port, address)
    if (first === undefined) return
    if (inTime) await this.#connect(client, port, address, first, login)
    else refuse(client, { port, address, label: first.label }, 'too-many-logins', tooManyLogins(first.label, address))
  }

  /** Connects to the target, and joins client and target if the rules still admit the client. */
  async #connect(
    client: Socket,
    port: number,
    address: string,
    { label, target: routed }: Admission,
    login: Login,
  ): Promise<void> {
    const { resolve, refuse, metrics, onUnreachable } = this.#options
    const upstreamAddress = resolve(routed)
    const target = upstreamAddress && (await connectTarget(upstreamAddress, this.#limits.connectMs))
    if (upstreamAddress !== undefined && target === undefined && !client.destroyed) onUnreachable(port)
    if (client.destroyed) target?.destroy()
    else if (target === undefined) refuse(client, { port, address, label }, 'unavailable', notAvailable)
    else if (this.#checkAdmission(client, port, address) === undefined) target.destroy()
    else {
      metrics.count('allowed')
      watchLogin(client, target, login)
      join(client, target, this.#limits.halfOpenMs)
    }
  }
}
