/**
 * The gateway on Kubernetes: the agent beside a HAProxy. HAProxy forwards the connections that its maps admit. The
 * agent watches the routes, updates the maps, renews one Lease for both, and sends refused clients an error in
 * Postgres's protocol. Each of the two may crash at any time. HAProxy without its agent admits clients until its
 * deadline. A restarted HAProxy refuses every client until the agent has pushed all rules.
 */

import type { Logger } from 'pino'
import { Histogram, type Registry } from 'prom-client'
import type { Cluster } from '../../cluster/port.ts'
import type { Certificate } from '../../server/certificate.ts'
import { createDenialAgent, type DenialLimits } from '../denial/denial.ts'
import { createRefuse } from '../denial/refuse.ts'
import { createUnreachable } from '../denial/unreachable.ts'
import { createMetrics } from '../metrics.ts'
import { startReplica } from '../replica.ts'
import type { Certificates } from './certificates.ts'
import { createHaproxyPlane } from './data-plane.ts'
import { readLoginCounts } from './login-counts.ts'
import type { Paths, PortRange } from './paths.ts'
import { serveRefusals } from './refusals.ts'
import type { RuntimeLimits } from './runtime.ts'
import { followTargets } from './targets.ts'

export type HaproxyGatewayOptions = {
  cluster: Cluster
  /** The name of this replica and its Lease; unique among replicas. */
  identity: string
  paths: Paths
  /** The ports on which HAProxy listens. The agent reports a route with another port as a refused port. */
  ports: PortRange
  /** Whether HAProxy listens for HTTPS. */
  https?: boolean
  /**
   * The certificate, in PEM, for refused clients that request TLS. Admitted clients get the certificate of their
   * database.
   */
  certificate: Certificate
  denialLimits?: Partial<DenialLimits>
  runtimeLimits?: RuntimeLimits
  heartbeatMs?: number
  now?: () => number
  logger: Logger
}

export type HaproxyGateway = {
  /** Why new connections should use another replica; undefined if ready. */
  problem(): string | undefined
  /** The resourceVersion up to which the agent has read routes. */
  version(): string
  registry: Registry
  /**
   * Replaces the certificate for refused clients. @throws Error if the pair is invalid; the previous certificate stays
   */
  setCertificate(certificate: Certificate): void
  /** Sets the certificates of the HTTPS listener, by region. */
  setHttpsCertificates(certificates: Certificates): void
  /**
   * Becomes unready at once. Admits clients for `settleMs`, until load balancers use other replicas. Then admits no
   * client and releases the Lease. HAProxy keeps open sessions.
   */
  stop(options?: { settleMs?: number }): Promise<void>
}

const defaultSettleMs = 15_000

/**
 * Starts at once, whether HAProxy is running or not. Admits clients as soon as HAProxy has the rules.
 * @throws Error if the certificate and its key are not PEM or do not match, or if the socket for refusals cannot be
 * opened
 */
export async function startHaproxyGateway(options: HaproxyGatewayOptions): Promise<HaproxyGateway> {
  const { cluster, identity, paths, ports, heartbeatMs, logger, now = Date.now } = options
  const agent = createDenialAgent({ certificate: options.certificate, limits: options.denialLimits, now })
  const metrics = createMetrics({
    logins: { count: () => readLoginCounts(paths.runtime), labelOf: port => replica.table().get(port)?.label },
    routes: () => replica.table().size,
    admitting: () => replica.admitting() && plane.problem() === undefined,
  })
  const pushes = new Histogram({
    name: 'espalier_gateway_push_seconds',
    help: 'Time in which HAProxy applied a push of the changed entries (change) or of all entries (all).',
    labelNames: ['scope'],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
    registers: [metrics.registry],
  })
  const unreachable = createUnreachable({ now, onReport: () => replica.announce() })
  const targets = followTargets({ cluster, onChange: () => plane.retarget(), logger })
  const plane = createHaproxyPlane({
    paths,
    ports,
    addressOf: targets.addressOf,
    resolvable: targets.synced,
    https: options.https ?? false,
    limits: options.runtimeLimits,
    onRecovered: () => replica.announce(),
    onPushed: ({ all, seconds }) => pushes.observe({ scope: all ? 'all' : 'change' }, seconds),
    logger,
  })
  const replica = startReplica({
    ...{ cluster, identity, plane, heartbeatMs, now, logger },
    unreachablePorts: unreachable.ports,
  })
  const refusals = await serveRefusals({
    path: paths.refusals,
    table: replica.table,
    admitting: replica.admitting,
    onUnreachable: unreachable.report,
    refuse: createRefuse({ agent, metrics, now, logger }),
    logger,
  })
  let stopping = false

  return {
    problem: () => {
      if (stopping) return 'stopping'
      return plane.problem() ?? (replica.admitting() ? undefined : 'the rules may be outdated')
    },
    version: replica.version,
    registry: metrics.registry,
    setCertificate: agent.setCertificate,
    setHttpsCertificates: certificates => plane.setCertificates(certificates),
    stop: async ({ settleMs = defaultSettleMs } = {}) => {
      stopping = true
      plane.drain()
      await new Promise(resolve => setTimeout(resolve, settleMs))
      if (settleMs > 0) await plane.endHttps()
      await replica.stop()
      await plane.stop()
      await targets.stop()
      await refusals.stop()
      agent.close()
    },
  }
}
