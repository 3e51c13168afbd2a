/**
 * The gateway of the embedded installation, in the calling thread: the only entry point from outside. It listens on a
 * port per route, admits the addresses in the route's allowlist, joins them to their database, and refuses others with
 * an error in Postgres's protocol; and on one port for HTTPS to services (http/). It fails closed: without a route,
 * without rules, or disconnected from the cluster, no client is admitted. On Kubernetes HAProxy carries the connections
 * (haproxy/index.ts).
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
  /** The name of this replica and its Lease; unique among replicas. */
  identity: string
  listenHost: string
  /** The certificate for refused clients that request TLS; PEM. Admitted clients get their database's own. */
  certificate: Certificate
  resolve: Resolve
  /** If absent, no HTTPS. */
  https?: HttpsOptions
  limits?: Partial<ConnectionLimits>
  loginLimits?: Partial<LoginLimits>
  denialLimits?: Partial<DenialLimits>
  heartbeatMs?: number
  /** Registers the gateway's metrics; if absent, it has its own registry. */
  registry?: Registry
  now?: () => number
  logger: Logger
}

export type Gateway = {
  /** Whether the rules are known to be current; if not, new connections are refused. */
  admitting(): boolean
  /** Open admitted connections. */
  connections(): number
  /** The resourceVersion up to which routes were read. */
  version(): string
  registry: Registry
  /** Replaces the certificate. @throws Error as `startGateway` does; the previous one is then kept. */
  setCertificate(certificate: Certificate): void
  /** Replaces the HTTPS certificates; open connections continue. @throws Error as above */
  setHttpsCertificates(certificates: readonly Certificate[]): void
  /** Accepts nothing more, releases the Lease, waits `drainMs` for open connections to end, then closes them. */
  stop(options?: { drainMs?: number }): Promise<void>
}

const defaultDrainMs = 5_000

/**
 * Starts at once, closed; it admits clients once its Lease is written and the routes are read, however long that takes.
 * @throws Error if a certificate and its key are not PEM, or do not match, or the port for HTTPS is in use.
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
