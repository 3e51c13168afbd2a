/**
 * A gateway replica, whatever carries its connections. Routes come from the cluster and go in one direction:
 * follower -> table -> data plane -> acknowledgement in the Lease. What the replica may still admit ends when its Lease
 * does: the data plane is told so ahead, and needs nobody to close.
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
  /** Whether the rules are known to hold; while not, new connections are refused. */
  admitting(): boolean
  table(): RouteTable
  hosts(): HostTable
  /** The resourceVersion up to which routes were read. */
  version(): string
  /** The data plane has something new to say: whether it works, or where it listens. */
  announce(): void
  /** Admits nobody any more and gives up the Lease; open sessions are left alone. */
  stop(): Promise<void>
}

/** A table, and what was wrong with the ConfigMaps it was made from, in words for the log. */
type TableChange<T> = { table: T; problems: string[] }

const unproblematic = <T>(table: T): TableChange<T> => ({ table, problems: [] })

const defaultHeartbeatMs = 10_000

/** Starts at once, closed; it admits as soon as it has announced itself and read the routes, however long that takes. */
export function startReplica(options: {
  cluster: GatewayCluster
  /** Names this replica, and its Lease; no two replicas share one. */
  identity: string
  plane: DataPlane
  /** Routed ports whose databases could not be connected to just now. */
  unreachablePorts: () => number[]
  heartbeatMs?: number | undefined
  now: () => number
  logger: Logger
}): Replica {
  const { cluster, plane, now, logger } = options
  let table: RouteTable = new Map()
  let hosts: HostTable = noHosts
  let version = '0'
  let tenureRead = 0

  /** Routes read in an earlier tenure of the Lease are not known to hold. */
  const extend = (): void => {
    if (tenureRead === lease.tenure()) plane.admitUntil(lease.validUntil())
  }
  const lease = keepLease({
    cluster,
    identity: options.identity,
    now,
    heartbeatMs: options.heartbeatMs ?? defaultHeartbeatMs,
    content: async () => {
      const read = version
      const { refusedPorts } = await plane.inForce()
      const httpsCertificates = plane.httpsCertificates()
      return { version: read, refusedPorts, unreachablePorts: options.unreachablePorts(), httpsCertificates }
    },
    following: () => follower.following(),
    onTenure: () => follower.restart(),
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
      // Acknowledged with the next heartbeat: no route waits for it, and an answer to each could echo for ever.
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
      replaceAll: (items, at, tenure) => {
        put(buildTable(items), buildHosts(items), at)
        tenureRead = tenure
        extend()
      },
      observe,
    },
    logger,
  })

  return {
    admitting: () => lease.valid() && tenureRead === lease.tenure(),
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
