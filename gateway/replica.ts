/**
 * A gateway replica, with any data plane. Routes flow in one direction: watch -> table -> data plane -> acknowledgement
 * in the Lease. When the Lease expires, the replica stops admitting clients: the data plane gets the deadline in
 * advance, and closes by itself.
 */
import type { Logger } from 'pino'
import { compareVersions } from '../cluster/informer/version.ts'
import type { ConfigMap } from '../cluster/kinds.ts'
import type { WatchEvent } from '../cluster/port.ts'
import type { GatewayCluster } from './cluster.ts'
import type { DataPlane } from './data-plane.ts'
import { buildHosts, type HostTable, noHosts, withHost, withoutHost } from './http/table.ts'
import { keepLease } from './lease.ts'
import { followRoutes } from './route-watch.ts'
import { buildTable, type RouteTable, withoutRoute, withRoute } from './table.ts'

type Replica = {
  /** Whether the rules are known to be current. If not, new connections are refused. */
  admitting(): boolean
  table(): RouteTable
  hosts(): HostTable
  /** The resourceVersion up to which routes were read. */
  version(): string
  /** Call this when the data plane's state has changed: whether it works, or on which ports it listens. */
  announce(): void
  /** Stops admitting clients and releases the Lease. Open sessions continue. */
  stop(): Promise<void>
}

/** A table, and the errors of the ConfigMaps it was built from, as log messages. */
type TableChange<T> = { table: T; problems: string[] }

const unproblematic = <T>(table: T): TableChange<T> => ({ table, problems: [] })

const defaultHeartbeatMs = 10_000

/**
 * Starts at once, without admitting clients. Admits clients once its Lease is written and the routes are read, however
 * long that takes.
 */
export function startReplica(options: {
  cluster: GatewayCluster
  /** The name of this replica and its Lease; unique among replicas. */
  identity: string
  plane: DataPlane
  /** Routed ports whose databases could not be reached recently. */
  unreachablePorts: () => number[]
  heartbeatMs?: number | undefined
  now: () => number
  logger: Logger
}): Replica {
  const { cluster, plane, now, logger } = options
  let table: RouteTable = new Map()
  let hosts: HostTable = noHosts
  let version = '0'
  let termRead = 0

  /** Extends the deadline. Routes that were read in an earlier lease term may be outdated, so they do not extend it. */
  const extend = (): void => {
    if (termRead === lease.term()) plane.admitUntil(lease.validUntil())
  }
  const lease = keepLease({
    cluster,
    identity: options.identity,
    now,
    heartbeatMs: options.heartbeatMs ?? defaultHeartbeatMs,
    content: async () => {
      const read = version
      const { refusedPorts } = await plane.applied()
      const httpsCertificates = plane.httpsCertificates()
      return { version: read, refusedPorts, unreachablePorts: options.unreachablePorts(), httpsCertificates }
    },
    following: () => follower.following(),
    onTermStarted: () => follower.restart(),
    onRenewed: extend,
    logger,
  })

  const put = (ports: TableChange<RouteTable>, names: TableChange<HostTable>, at: string): void => {
    for (const problem of [...ports.problems, ...names.problems])
      logger.error({ route: problem }, 'a route cannot be read; it stays closed')
    table = ports.table
    hosts = names.table
    version = at
    plane.put(table, hosts)
    void lease.renew()
  }

  const observe = (event: WatchEvent<ConfigMap>): void => {
    if (event.type === 'BOOKMARK') {
      // The next heartbeat acknowledges this version, because no route waits for it. An immediate answer to each event
      // could loop forever.
      if (compareVersions(event.resourceVersion, version) > 0) version = event.resourceVersion
      return
    }
    const { object } = event
    const at = object.metadata.resourceVersion ?? version
    const { name } = object.metadata
    if (event.type !== 'DELETED') put(withRoute(table, object), withHost(hosts, object), at)
    else put(unproblematic(withoutRoute(table, name)), unproblematic(withoutHost(hosts, name)), at)
  }

  const follower = followRoutes({
    cluster,
    lease: () => lease,
    sink: {
      replaceAll: (items, at, term) => {
        put(buildTable(items), buildHosts(items), at)
        termRead = term
        extend()
      },
      observe,
    },
    logger,
  })

  return {
    admitting: () => lease.valid() && termRead === lease.term(),
    table: () => table,
    hosts: () => hosts,
    version: () => version,
    announce: () => void (follower.following() && lease.renew()),
    stop: async () => {
      const closed = await plane.close()
      await follower.stop()
      await lease.release({ keep: !closed })
    },
  }
}
