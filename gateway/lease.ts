/**
 * The Lease of a gateway replica. In it, the replica reports that it is live and which version it has applied (the
 * protocol is in routes/route.ts).
 *
 * As long as the Lease is renewed without a gap of `gatewayLeaseSeconds`, the replica is in one lease term: the
 * operator waits for it at every change. After a gap, the operator may have ignored the replica. So a new term starts,
 * and the replica must read the routes again before it admits any client.
 */
import type { Logger } from 'pino'
import { backoffMs } from '../cluster/informer/clock.ts'
import { labels, managedByEspalier, systemNamespace } from '../crds/metadata.ts'
import {
  acknowledgedAnnotation,
  gatewayComponent,
  gatewayLeaseName,
  gatewayLeaseSeconds,
  httpsCertificatesAnnotation,
  portsInUseAnnotation,
  unreachableAnnotation,
} from '../routes/route.ts'
import { microTime } from '../values/time.ts'
import type { GatewayCluster } from './cluster.ts'

type LeaseContent = {
  /** The resourceVersion up to which all routes are applied. */
  version: string
  /** Routed ports on which the gateway cannot listen. */
  refusedPorts: number[]
  /** Routed ports whose databases could not be reached recently. */
  unreachablePorts: number[]
  /** The value of `DataPlane.httpsCertificates`. */
  httpsCertificates: string | undefined
}

export type LeaseKeeper = {
  /** Writes the Lease with the current state, one write at a time. Resolves to whether the write succeeded. */
  renew(): Promise<boolean>
  /** Whether the operator waits for this replica. */
  valid(): boolean
  /** The time at which the Lease expires unless it is renewed, in milliseconds since the epoch. */
  validUntil(): number
  /** The number of the current or last lease term; 0 before the first term. */
  term(): number
  /** Stops writing, and deletes the Lease. With `keep`, lets it expire instead. */
  release(options: { keep: boolean }): Promise<void>
}

const retryDelays = { minimumMs: 250, maximumMs: 10_000 }

export function keepLease(options: {
  cluster: GatewayCluster
  identity: string
  /** The wall clock, since the operator compares the time with its own. */
  now: () => number
  heartbeatMs: number
  /** Returns the content to report, once its version is applied. */
  content: () => Promise<LeaseContent>
  /** Called at each heartbeat. A replica whose route watch is broken lets its Lease expire. */
  following: () => boolean
  onTermStarted: () => void
  onRenewed: () => void
  logger: Logger
}): LeaseKeeper {
  const { cluster, identity, now, content, following, onTermStarted, onRenewed, logger } = options
  const name = gatewayLeaseName(identity)
  let renewedAt = Number.NEGATIVE_INFINITY
  let term = 0
  let failures = 0
  let released = false
  let retry: NodeJS.Timeout | undefined
  let inFlight: Promise<boolean> | undefined
  let queued: Promise<boolean> | undefined

  const validUntil = () => renewedAt + gatewayLeaseSeconds * 1000
  const valid = () => now() < validUntil()

  const write = async (): Promise<boolean> => {
    clearTimeout(retry)
    if (released) return false
    try {
      const written = await content()
      const at = now()
      await cluster.apply('Lease', leaseOf(identity, written, at))
      if (failures > 0) logger.info({ lease: name }, 'the lease is renewed again')
      failures = 0
      const lapsed = !valid()
      renewedAt = at
      if (lapsed) {
        term++
        onTermStarted()
      }
      onRenewed()
      return true
    } catch (error) {
      failures++
      logger.warn({ lease: name, failures, err: error }, 'cannot renew the lease; retrying')
      retry = setTimeout(() => following() && void renew(), backoffMs(failures, retryDelays))
      return false
    }
  }

  const renew = (): Promise<boolean> => {
    if (inFlight === undefined) {
      inFlight = write().finally(() => {
        inFlight = undefined
      })
      return inFlight
    }
    queued ??= inFlight.then(() => {
      queued = undefined
      return renew()
    })
    return queued
  }

  const heartbeat = setInterval(() => following() && void renew(), options.heartbeatMs)

  return {
    renew,
    valid,
    validUntil,
    term: () => term,
    release: async ({ keep }) => {
      released = true
      clearInterval(heartbeat)
      clearTimeout(retry)
      await (queued ?? inFlight)
      if (keep) return
      try {
        await cluster.delete('Lease', { namespace: systemNamespace, name })
      } catch (error) {
        logger.warn({ lease: name, err: error }, 'cannot delete the lease; it will expire')
      }
    },
  }
}

const leaseOf = (
  identity: string,
  { version, refusedPorts, unreachablePorts, httpsCertificates }: LeaseContent,
  at: number,
) => ({
  apiVersion: 'coordination.k8s.io/v1' as const,
  kind: 'Lease' as const,
  metadata: {
    name: gatewayLeaseName(identity),
    namespace: systemNamespace,
    labels: { [labels.component]: gatewayComponent, [labels.managedBy]: managedByEspalier },
    annotations: {
      [acknowledgedAnnotation]: version,
      ...(refusedPorts.length > 0 ? { [portsInUseAnnotation]: refusedPorts.join(',') } : {}),
      ...(unreachablePorts.length > 0 ? { [unreachableAnnotation]: unreachablePorts.join(',') } : {}),
      ...(httpsCertificates === undefined ? {} : { [httpsCertificatesAnnotation]: httpsCertificates }),
    },
  },
  spec: {
    holderIdentity: identity,
    leaseDurationSeconds: gatewayLeaseSeconds,
    renewTime: microTime(at),
  },
})
