/**
 * The data plane of the embedded default: a listener per routed port and a proxy, in this thread. It listens on exactly
 * the ports that have a route.
 */
import type { Logger } from 'pino'
import { type ConnectionLimits, type Connections, createConnections, type Resolve } from './connections.ts'
import type { DataPlane } from './data-plane.ts'
import type { Refuse } from './denial/refuse.ts'
import { createListeners } from './listeners.ts'
import type { LoginLimits } from './logins.ts'
import type { GatewayMetrics } from './metrics.ts'
import { type RouteTable, verdict } from './table.ts'

type InProcessPlane = DataPlane & Pick<Connections, 'count' | 'drain' | 'logins'>

export function createInProcessPlane(options: {
  host: string
  resolve: Resolve
  refuse: Refuse
  limits?: Partial<ConnectionLimits> | undefined
  loginLimits?: Partial<LoginLimits> | undefined
  metrics: GatewayMetrics
  /** A port that could not be listened on is listened on now. */
  onRecovered: () => void
  /** A database that is said to be there could not be connected to. */
  onUnreachable: (port: number) => void
  now: () => number
  logger: Logger
}): InProcessPlane {
  const { now, logger } = options
  let table: RouteTable = new Map()
  let deadline = 0
  let closed = false
  const connections = createConnections({
    admitting: () => !closed && now() < deadline,
    verdict: (port, address) => verdict(table, port, address),
    resolve: options.resolve,
    refuse: options.refuse,
    limits: options.limits,
    loginLimits: options.loginLimits,
    metrics: options.metrics,
    onUnreachable: options.onUnreachable,
  })
  const listeners = createListeners({
    host: options.host,
    onConnection: (port, socket) => connections.accept(port, socket),
    onRecovered: options.onRecovered,
    logger,
  })
  return {
    put: next => {
      const moved = !haveSamePorts(table, next)
      table = next
      if (moved) listeners.setPorts(new Set(table.keys()))
    },
    inForce: async () => {
      await listeners.settled()
      return { refusedPorts: listeners.refused() }
    },
    admitUntil: until => {
      deadline = until
    },
    close: async () => {
      closed = true
      listeners.close()
      return true
    },
    count: () => connections.count(),
    logins: () => connections.logins(),
    drain: ms => connections.drain(ms),
  }
}

function haveSamePorts(left: RouteTable, right: RouteTable): boolean {
  if (left.size !== right.size) return false
  for (const port of right.keys()) if (!left.has(port)) return false
  return true
}
