/**
 * The gateway on Kubernetes: the agent beside a HAProxy. HAProxy carries the connections and judges them by its maps;
 * the agent follows the routes, keeps the maps, speaks for the pair by its Lease, and refuses in Postgres's own words
 * whom HAProxy does not admit. Either may die at any moment: HAProxy without its agent goes on until its deadline, a
 * HAProxy that was started anew is closed until the agent has pushed everything.
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
import { askLogins } from './login-counts.ts'
import type { Paths, PortRange } from './paths.ts'
import { serveRefusals } from './refusals.ts'
import type { RuntimeLimits } from './runtime.ts'
import { followTargets } from './targets.ts'

export type HaproxyGatewayOptions = {
  cluster: Cluster
  /** Names this replica, and its Lease; no two replicas share one. */
  identity: string
  paths: Paths
  /** What HAProxy listens on; a route with a port outside is reported as one that cannot be listened on. */
  ports: PortRange
  /** Whether HAProxy listens for HTTPS. */
  https?: boolean
  /** Shown to refused clients that ask for TLS; PEM. Admitted ones see their database's own. */
  certificate: Certificate
  denialLimits?: Partial<DenialLimits>
  runtimeLimits?: RuntimeLimits
  heartbeatMs?: number
  now?: () => number
  logger: Logger
}

export type HaproxyGateway = {
  /** Why new connections had better go elsewhere; undefined where all is well. */
  problem(): string | undefined
  /** The resourceVersion up to which routes were read. */
  version(): string
  registry: Registry
  /** Another certificate from now on. @throws Error as `startHaproxyGateway` does; the former one stays in use then. */
  setCertificate(certificate: Certificate): void
  /** The certificates of the HTTPS listener from now on, by region. */
  setHttpsCertificates(certificates: Certificates): void
  /**
   * Says at once that it is about to go, goes on for `settleMs` until balancers have heard of it, then admits nobody and
   * gives up the Lease. Open sessions are HAProxy's, and go on.
   */
  stop(options?: { settleMs?: number }): Promise<void>
}

const defaultSettleMs = 15_000

/**
 * Starts at once, with HAProxy there or not; it admits as soon as it can.
 * @throws Error where the certificate and its key are no PEM or do not belong together, or the socket for refusals
 *   cannot be listened on
 */
export async function startHaproxyGateway(options: HaproxyGatewayOptions): Promise<HaproxyGateway> {
  const { cluster, identity, paths, ports, heartbeatMs, logger, now = Date.now } = options
  const agent = createDenialAgent({ certificate: options.certificate, limits: options.denialLimits, now })
  const metrics = createMetrics({
    logins: { count: () => askLogins(paths.runtime), labelOf: port => replica.table().get(port)?.label },
    routes: () => replica.table().size,
    admitting: () => replica.admitting() && plane.problem() === undefined,
  })
  const pushes = new Histogram({
    name: 'espalier_gateway_push_seconds',
    help: 'Time in which HAProxy took a change of its maps, or all of them.',
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
      return plane.problem() ?? (replica.admitting() ? undefined : 'the rules are not known to hold')
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
