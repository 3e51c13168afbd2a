/**
 * Follows the routes of a cluster for as long as the gateway runs. Every tenure of the Lease (lease.ts) begins with a
 * Lease that says so, and only then are the routes listed: whatever the operator decided without waiting for this
 * replica is in that list.
 */
import type { Logger } from 'pino'
import { backoffMs, sleep, systemClock } from '../cluster/informer/clock.ts'
import { startReflector } from '../cluster/informer/reflector.ts'
import type { ConfigMap } from '../cluster/kinds.ts'
import type { WatchEvent } from '../cluster/port.ts'
import { labels, systemNamespace } from '../crds/metadata.ts'
import { routeComponent } from '../routes/route.ts'
import type { GatewayCluster } from './cluster.ts'
import type { LeaseKeeper } from './lease.ts'

const routes = { namespace: systemNamespace, labels: { [labels.component]: routeComponent } }
const retryDelays = { minimumMs: 250, maximumMs: 10_000 }

/** What the follower tells, in the order in which the cluster has it. */
type RouteSink = {
  /** All routes, and the version at which these are all, read in this tenure. */
  replaceAll: (items: ConfigMap[], version: string, tenure: number) => void
  observe: (event: WatchEvent<ConfigMap>) => void
}

type RouteFollower = {
  /** Whether the cluster answers: changes to routes arrive. */
  following(): boolean
  /** A new tenure has begun: read the routes anew. */
  restart(): void
  stop(): Promise<void>
}

export function followRoutes(options: {
  cluster: GatewayCluster
  lease: () => LeaseKeeper
  sink: RouteSink
  logger: Logger
}): RouteFollower {
  const { cluster, lease, sink, logger } = options
  const stopping = new AbortController()
  let following = false
  let tenureOver = Promise.withResolvers<void>()
  stopping.signal.addEventListener('abort', () => tenureOver.resolve())

  /** Makes sure of a valid Lease, but writes none before the routes can be read: nobody should wait for us in vain. */
  const announce = async (): Promise<boolean> => {
    try {
      await cluster.list('ConfigMap', { ...routes, limit: 1 })
      return lease().valid() || (await lease().renew())
    } catch (error) {
      following = false
      logger.warn({ err: error }, 'cannot read the routes; trying again')
      return false
    }
  }

  const follow = async (tenure: number): Promise<void> => {
    const reflector = startReflector({
      cluster,
      kind: 'ConfigMap',
      selection: routes,
      sink: {
        replaceAll: (items, version) => sink.replaceAll(items, version, tenure),
        observe: sink.observe,
        heard: () => {
          following = true
        },
        recovered: () => {
          following = true
        },
        failed: () => {
          following = false
        },
      },
      clock: systemClock,
      logger,
    })
    await tenureOver.promise
    await reflector.stop()
  }

  const run = async (): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      if (await announce()) {
        failures = 0
        tenureOver = Promise.withResolvers()
        if (!stopping.signal.aborted) await follow(lease().tenure())
      } else await sleep(systemClock, backoffMs(++failures, retryDelays), stopping.signal)
    }
  }

  const running = run()
  return {
    following: () => following,
    restart: () => tenureOver.resolve(),
    stop: () => {
      stopping.abort()
      return running
    },
  }
}
