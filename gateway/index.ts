/**
 * The gateway: the one way in from outside. It listens on a port per route, admits the addresses that the route's
 * allowlist admits, joins them to their database, and refuses the others in Postgres's own words. It fails closed:
 * without a route, without rules, or out of touch with the cluster, nobody is admitted.
 *
 * Routes come from the cluster and go in one direction: follower -> table -> listeners -> acknowledgement in the Lease.
 */
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { compareVersions } from '../cluster/informer/version.ts'
import type { ConfigMap } from '../cluster/kinds.ts'
import type { Cluster, WatchEvent } from '../cluster/port.ts'
import { type ConnectionLimits, type Connections, createConnections, type Resolve } from './connections.ts'
import { createDenialAgent, type DenialLimits } from './denial.ts'
import { followRoutes } from './follow.ts'
import { keepLease } from './lease.ts'
import { createListeners } from './listeners.ts'
import { createMetrics } from './metrics.ts'
import { buildTable, type RouteTable, verdict, withoutRoute, withRoute } from './table.ts'

export type { ConnectionLimits, Resolve } from './connections.ts'
export type { DenialLimits } from './denial.ts'

export type GatewayOptions = {
  cluster: Cluster
  /** Names this replica, and its Lease; no two replicas share one. */
  identity: string
  listenHost: string
  /** Shown to refused clients that ask for TLS; PEM. Admitted ones see their database's own. */
  certificate: { cert: string; key: string }
  resolve: Resolve
  limits?: Partial<ConnectionLimits>
  denialLimits?: Partial<DenialLimits>
  heartbeatMs?: number
  /** Takes the gateway's figures; without one it keeps its own. */
  registry?: Registry
  now?: () => number
  logger: Logger
}

export type Gateway = {
  /** Whether the rules are known to hold; while not, new connections are refused. */
  admitting(): boolean
  /** Admitted connections that are open. */
  connections(): number
  /** The resourceVersion up to which routes were read. */
  version(): string
  registry: Registry
  /** Accepts nothing more, gives up the Lease, lets open connections end for `drainMs`, then closes them. */
  stop(options?: { drainMs?: number }): Promise<void>
}

const defaultHeartbeatMs = 10_000
const defaultDrainMs = 5_000

/**
 * Starts at once, closed; it admits as soon as it has announced itself and read the routes, however long that takes.
 * @throws Error where the certificate and its key are no PEM, or do not belong together.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { cluster, logger, now = Date.now } = options
  let table: RouteTable = new Map()
  let version = '0'
  let tenureRead = 0

  const admitting = () => lease.valid() && tenureRead === lease.tenure()
  const agent = createDenialAgent({ certificate: options.certificate, limits: options.denialLimits, now })
  const metrics = createMetrics({
    registry: options.registry,
    connections: () => connections.count(),
    routes: () => table.size,
    admitting,
  })
  const connections: Connections = createConnections({
    admitting,
    verdict: (port, address) => verdict(table, port, address),
    resolve: options.resolve,
    agent,
    limits: options.limits,
    metrics,
    now,
    logger,
  })
  const listeners = createListeners({
    host: options.listenHost,
    onConnection: connections.accept,
    onRecovered: () => void (follower.following() && lease.renew()),
    logger,
  })
  const lease = keepLease({
    cluster,
    identity: options.identity,
    now,
    heartbeatMs: options.heartbeatMs ?? defaultHeartbeatMs,
    content: async () => {
      const read = version
      await listeners.settled()
      return { version: read, refusedPorts: listeners.refused() }
    },
    following: () => follower.following(),
    onTenure: () => follower.restart(),
    logger,
  })

  const put = (change: { table: RouteTable; problems: string[] }, at: string): void => {
    for (const problem of change.problems) logger.error({ route: problem }, 'a route cannot be read; it stays closed')
    const moved = !haveSamePorts(table, change.table)
    table = change.table
    version = at
    if (moved) listeners.setPorts(new Set(table.keys()))
    void lease.renew()
  }

  const observe = (event: WatchEvent<ConfigMap>): void => {
    if (event.type === 'BOOKMARK') {
      // Acknowledged with the next heartbeat: no route waits for it, and an answer to each could echo for ever.
      if (compareVersions(event.resourceVersion, version) > 0) version = event.resourceVersion
      return
    }
    const { object } = event
    const at = object.metadata.resourceVersion ?? version
    if (event.type === 'DELETED') put({ table: withoutRoute(table, object.metadata.name), problems: [] }, at)
    else put(withRoute(table, object), at)
  }

  const follower = followRoutes({
    cluster,
    lease: () => lease,
    sink: {
      replaceAll: (items, at, tenure) => {
        put(buildTable(items), at)
        tenureRead = tenure
      },
      observe,
    },
    logger,
  })

  return {
    admitting,
    connections: connections.count,
    version: () => version,
    registry: metrics.registry,
    stop: async ({ drainMs = defaultDrainMs } = {}) => {
      listeners.close()
      await follower.stop()
      await lease.release()
      await connections.drain(drainMs)
      agent.close()
    },
  }
}

function haveSamePorts(left: RouteTable, right: RouteTable): boolean {
  if (left.size !== right.size) return false
  for (const port of right.keys()) if (!left.has(port)) return false
  return true
}
