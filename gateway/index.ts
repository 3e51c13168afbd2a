/**
 * The gateway of the embedded default, in the thread that calls it: the one way in from outside. It listens on a port per route,
 * admits the addresses that the route's allowlist admits, joins them to their database, and refuses the others in
 * Postgres's own words; and on one port for HTTPS to services (http/). It fails closed: without a route, without rules, or out of touch with the cluster, nobody is
 * admitted. On Kubernetes HAProxy does the carrying (haproxy/index.ts).
 */

import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Certificate } from '../server/certificate.ts'
import type { GatewayCluster } from './cluster.ts'
import type { ConnectionLimits, Resolve } from './connections.ts'
import { createDenialAgent, type DenialLimits } from './denial/denial.ts'
import { createRefuse } from './denial/refuse.ts'
import { createUnreachable } from './denial/unreachable.ts'
import { createInProcessPlane, type HttpsOptions } from './in-process.ts'
import type { LoginLimits } from './logins.ts'
import { createMetrics } from './metrics.ts'
import { startReplica } from './replica.ts'

export type GatewayOptions = {
  cluster: GatewayCluster
  /** Names this replica, and its Lease; no two replicas share one. */
  identity: string
  listenHost: string
  /** Shown to refused clients that ask for TLS; PEM. Admitted ones see their database's own. */
  certificate: Certificate
  resolve: Resolve
  /** Absent: no HTTPS. */
  https?: HttpsOptions
  limits?: Partial<ConnectionLimits>
  loginLimits?: Partial<LoginLimits>
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
  /** Another certificate from now on. @throws Error as `startGateway` does; the former one stays in use then. */
  setCertificate(certificate: Certificate): void
  /** Other certificates for HTTPS from now on; open connections go on. @throws Error as above */
  setHttpsCertificates(certificates: readonly Certificate[]): void
  /** Accepts nothing more, gives up the Lease, lets open connections end for `drainMs`, then closes them. */
  stop(options?: { drainMs?: number }): Promise<void>
}

const defaultDrainMs = 5_000

/**
 * Starts at once, closed; it admits as soon as it has announced itself and read the routes, however long that takes.
 * @throws Error where a certificate and its key are no PEM, or do not belong together, or the port for HTTPS is taken.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { cluster, identity, heartbeatMs, logger, now = Date.now } = options
  const agent = createDenialAgent({ certificate: options.certificate, limits: options.denialLimits, now })
  const metrics = createMetrics({
    registry: options.registry,
    connections: () => plane.count(),
    logins: { count: async () => plane.logins(), labelOf: port => replica.table().get(port)?.label },
    routes: () => replica.table().size,
    admitting: () => replica.admitting(),
  })
  const unreachable = createUnreachable({ now, onReport: () => replica.announce() })
  const plane = createInProcessPlane({
    host: options.listenHost,
    resolve: options.resolve,
    refuse: createRefuse({ agent, metrics, now, logger }),
    limits: options.limits,
    loginLimits: options.loginLimits,
    metrics,
    https: options.https,
    onRecovered: () => replica.announce(),
    onUnreachable: unreachable.report,
    now,
    logger,
  })
  await plane.start()
  const replica = startReplica({
    ...{ cluster, identity, plane, heartbeatMs, now, logger },
    unreachablePorts: unreachable.ports,
  })

  return {
    admitting: replica.admitting,
    connections: plane.count,
    version: replica.version,
    registry: metrics.registry,
    setCertificate: agent.setCertificate,
    setHttpsCertificates: plane.setHttpsCertificates,
    stop: async ({ drainMs = defaultDrainMs } = {}) => {
      await replica.stop()
      await plane.drain(drainMs)
      agent.close()
    },
  }
}
