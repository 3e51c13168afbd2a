/**
 * Watches the routes of a cluster while the gateway runs. Every lease term (lease.ts) starts with a write of the Lease,
 * and only then are the routes listed. So the list contains every change that the operator made without waiting for
 * this replica.
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

/** Events of the watch, in the cluster's order. */
type RouteSink = {
  /** All routes, and the version of this list, read in this lease term. */
  replaceAll: (items: ConfigMap[], version: string, term: number) => void
  observe: (event: WatchEvent<ConfigMap>) => void
}

type RouteFollower = {
  /** Whether the cluster responds, so that changes of routes arrive. */
  following(): boolean
  /** Call this when a new lease term has started, so that the routes are read again. */
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
  let termOver = Promise.withResolvers<void>()
  stopping.signal.addEventListener('abort', () => termOver.resolve())

  /**
   * Ensures a valid Lease, but writes none before the routes can be read, because the operator should not wait for a
   * replica that cannot apply them.
   */
  const announce = async (): Promise<boolean> => {
    try {
      await cluster.list('ConfigMap', { ...routes, limit: 1 })
      return lease().valid() || (await lease().renew())
    } catch (error) {
      following = false
      logger.warn({ err: error }, 'cannot read the routes; retrying')
      return false
    }
  }

  const follow = async (term: number): Promise<void> => {
    const reflector = startReflector({
      cluster,
      kind: 'ConfigMap',
      selection: routes,
      sink: {
        replaceAll: (items, version) => sink.replaceAll(items, version, term),
        observe: sink.observe,
        received: () => {
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
    await termOver.promise
    await reflector.stop()
  }

  const run = async (): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      if (await announce()) {
        failures = 0
        termOver = Promise.withResolvers()
        if (!stopping.signal.aborted) await follow(lease().term())
      } else await sleep(systemClock, backoffMs(++failures, retryDelays), stopping.signal)
    }
  }

  const running = run()
  return {
    following: () => following,
    restart: () => termOver.resolve(),
    stop: () => {
      stopping.abort()
      return running
    },
  }
}
