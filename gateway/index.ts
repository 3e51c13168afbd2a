/**
 * The gateway of the embedded installation, in the calling thread. It is the only entry point from outside. It listens
 * on a port per route, admits the addresses in the route's allowlist, joins their connections to their database, and
 * refuses others with an error in Postgres's protocol. It also listens on one port for HTTPS to services (http/). It
 * fails closed: it admits no client without a route, without rules, or without the cluster. On Kubernetes, HAProxy
 * carries the connections (haproxy/index.ts).
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
  /**
   * The certificate, in PEM, for refused clients that request TLS. Admitted clients get the certificate of their
   * database.
   */
  certificate: Certificate
  resolve: Resolve
  /** If absent, the gateway does not listen for HTTPS. */
  https?: HttpsOptions
  limits?: Partial<ConnectionLimits>
  loginLimits?: Partial<LoginLimits>
  denialLimits?: Partial<DenialLimits>
  heartbeatMs?: number
  /** The registry for the gateway's metrics. If absent, the gateway creates one. */
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
  /** Replaces the certificate. @throws Error as `startGateway` does; then the previous certificate stays. */
  setCertificate(certificate: Certificate): void
  /** Replaces the HTTPS certificates; open connections continue. @throws Error in the same way */
  setHttpsCertificates(certificates: readonly Certificate[]): void
  /** Accepts no more connections, releases the Lease, waits `drainMs` for open connections to end, then closes them. */
  stop(options?: { drainMs?: number }): Promise<void>
}

const defaultDrainMs = 5_000

/**
 * Starts at once, without admitting clients. Admits clients once its Lease is written and the routes are read, however
 * long that takes.
 * @throws Error if a certificate and its key are not PEM or do not match, or if the port for HTTPS is in use
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
