/**
 * What becomes of each accepted connection: admitted ones are joined to their target, the others refused in Postgres's
 * words. A verdict is asked for when the connection arrives and again right before it is joined, so that one which
 * dawdles is judged by the rules of the moment. Between them it waits for its turn to log in. Once joined, only its two
 * ends close it.
 */
import type { Socket } from 'node:net'
import type { RouteTarget } from '../routes/route.ts'
import { notAdmitted, notAvailable, outOfTouch, tooMany, tooManyLogins } from './denial/refusal.ts'
import type { Refuse } from './denial/refuse.ts'
import { createLogins, type Login, type LoginCounts, type LoginLimits, watchLogin } from './logins.ts'
import type { GatewayMetrics } from './metrics.ts'
import { connectTarget, join, untilFirstBytes } from './session.ts'
import { normaliseAddress, type Verdict } from './table.ts'

export type ConnectionLimits = {
  /** Admitted connections at once, of one route and of all. */
  perRoute: number
  total: number
  /** How long a client may take to say something, in milliseconds. */
  firstBytesMs: number
  /** How long a target may take to answer, in milliseconds. */
  connectMs: number
  /** How long a side may keep its half of a connection whose other side is gone, without traffic, in milliseconds. */
  lingerMs: number
}

const connectionLimits: ConnectionLimits = {
  perRoute: 2_000,
  total: 20_000,
  firstBytesMs: 10_000,
  connectMs: 5_000,
  lingerMs: 60_000,
}

/** Where a Service is reached; undefined where nothing behind it is ready. */
export type Resolve = (target: RouteTarget) => { host: string; port: number } | undefined

export type Connections = {
  accept(port: number, socket: Socket): void
  /** Admitted connections, joined or about to be. */
  count(): number
  /** Waits for open connections to end, at most so long, then closes the rest. */
  drain(ms: number): Promise<void>
  /** Connections that have not logged in. */
  logins(): LoginCounts
}

export function createConnections(options: {
  /** Whether the rules are known to hold. */
  admitting: () => boolean
  verdict: (port: number, address: string) => Verdict
  resolve: Resolve
  refuse: Refuse
  limits?: Partial<ConnectionLimits> | undefined
  loginLimits?: Partial<LoginLimits> | undefined
  metrics: GatewayMetrics
  /** A database that is said to be there could not be connected to. */
  onUnreachable: (port: number) => void
}): Connections {
  const { admitting, resolve, refuse, metrics } = options
  const limits = { ...connectionLimits, ...options.limits }
  const logins = createLogins(options.loginLimits)
  const admitted = new Set<Socket>()
  const admittedOf = new Map<number, number>()

  /** The target, or undefined where the connection has been refused. */
  const judge = (socket: Socket, port: number, address: string): { label: string; target: RouteTarget } | undefined => {
    if (!admitting()) {
      refuse(socket, { port, address }, 'out-of-touch', outOfTouch)
      return undefined
    }
    const found = options.verdict(port, address)
    if (found.kind === 'allow') return found
    if (found.kind === 'deny')
      refuse(socket, { port, address, label: found.label }, 'denied', notAdmitted(found.label, address))
    // The route went away while the connection arrived.
    else socket.destroy()
    return undefined
  }

  const claim = (socket: Socket): boolean => {
    if (admitted.size >= limits.total) return false
    admitted.add(socket)
    socket.once('close', () => admitted.delete(socket))
    return true
  }

  /** A route's places are for connections that have sent something: silent ones take none. */
  const claimOfRoute = (port: number, socket: Socket): boolean => {
    const ofRoute = admittedOf.get(port) ?? 0
    if (ofRoute >= limits.perRoute) return false
    admittedOf.set(port, ofRoute + 1)
    socket.once('close', () => {
      const left = (admittedOf.get(port) ?? 1) - 1
      if (left > 0) admittedOf.set(port, left)
      else admittedOf.delete(port)
    })
    return true
  }

  const serve = async (client: Socket, port: number, label: string, address: string, login: Login): Promise<void> => {
    if (!(await untilFirstBytes(client, limits.firstBytesMs))) {
      metrics.count('silent')
      client.destroy()
      return
    }
    if (!login.speak()) {
      refuse(client, { port, address, label }, 'too-many-logins', tooManyLogins(label, address))
      return
    }
    if (!claimOfRoute(port, client)) {
      login.end()
      refuse(client, { port, address, label }, 'too-many', tooMany(label))
      return
    }
    const inTime = await login.begin()
    if (client.destroyed) return
    const first = judge(client, port, address)
    if (first === undefined) return
    if (!inTime) {
      refuse(client, { port, address, label: first.label }, 'too-many-logins', tooManyLogins(first.label, address))
      return
    }
    const place = resolve(first.target)
    const target = place && (await connectTarget(place, limits.connectMs))
    if (place !== undefined && target === undefined && !client.destroyed) options.onUnreachable(port)
    if (client.destroyed) target?.destroy()
    else if (target === undefined) refuse(client, { port, address, label: first.label }, 'unavailable', notAvailable)
    else if (judge(client, port, address) === undefined) target.destroy()
    else {
      metrics.count('allowed')
      watchLogin(client, target, login)
      join(client, target, limits.lingerMs)
    }
  }

  return {
    accept: (port, socket) => {
      // Whatever goes wrong with a socket, 'close' follows.
      socket.on('error', () => {})
      const address = normaliseAddress(socket.remoteAddress ?? '')
      if (address === '') {
        socket.destroy()
        return
      }
      const found = judge(socket, port, address)
      if (found === undefined) return
      if (!claim(socket)) {
        refuse(socket, { port, address, label: found.label }, 'too-many', tooMany(found.label))
        return
      }
      const login = logins.arrive(port, address, () => socket.destroy())
      // Whatever becomes of it: refused, joined or gone.
      socket.once('close', login.end)
      void serve(socket, port, found.label, address, login)
    },
    count: () => admitted.size,
    logins: logins.countByPort,
    drain: async ms => {
      const over = Promise.all([...admitted].map(socket => new Promise(resolve => socket.once('close', resolve))))
      const deadline = setTimeout(() => {
        for (const socket of admitted) socket.destroy()
      }, ms)
      await over
      clearTimeout(deadline)
    },
  }
}
