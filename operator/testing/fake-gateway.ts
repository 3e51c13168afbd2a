/** A gateway that applies no route. It acknowledges every route, or delays its acknowledgement. */
import type { Logger } from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import { compareVersions, createInformer } from '../../cluster/informer/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import {
  acknowledgedAnnotation,
  gatewayComponent,
  gatewayLeaseName,
  gatewayLeaseSeconds,
  portsInUseAnnotation,
  routeComponent,
  unreachableAnnotation,
} from '../../routes/route.ts'
import { microTime } from '../../values/time.ts'

export type FakeGateway = {
  /** While paused, the gateway acknowledges nothing more. */
  pause(isPaused: boolean): void
  /** The gateway cannot connect to the databases behind these ports. */
  cannotReach(ports: number[]): void
  /** The gateway cannot listen on these ports, because another process uses them. */
  cannotListenOn(ports: number[]): void
  stop(): Promise<void>
}

const renewMs = 10_000

export async function startFakeGateway({
  cluster,
  logger,
}: {
  cluster: Cluster
  logger: Logger
}): Promise<FakeGateway> {
  const routes = createInformer(cluster, 'ConfigMap', {
    namespace: systemNamespace,
    labels: { [labels.component]: routeComponent },
    logger: logger.child({ part: 'fake-gateway' }),
  })
  let seen = '0'
  let acknowledged = '0'
  let isPaused = false
  let unreachable: number[] = []
  let refused: number[] = []
  let writing: Promise<void> | undefined
  let isRequested = false

  const write = async () => {
    while (isRequested) {
      isRequested = false
      if (!isPaused) acknowledged = seen
      try {
        await cluster.apply('Lease', leaseOf(acknowledged, unreachable, refused))
      } catch (error) {
        logger.warn({ err: error }, 'the fake gateway could not write its lease')
      }
    }
    writing = undefined
  }
  const request = () => {
    isRequested = true
    writing ??= write()
  }

  routes.onChange(({ object }) => {
    const { resourceVersion = '0' } = object.metadata
    if (compareVersions(resourceVersion, seen) > 0) seen = resourceVersion
    request()
  })
  await routes.start()
  request()
  const heartbeat = setInterval(request, renewMs)
  await writing

  return {
    pause: paused => {
      isPaused = paused
      request()
    },
    cannotReach: ports => {
      unreachable = ports
      request()
    },
    cannotListenOn: ports => {
      refused = ports
      request()
    },
    stop: async () => {
      clearInterval(heartbeat)
      await routes.stop()
      await writing
    },
  }
}

const leaseOf = (version: string, unreachable: number[], refused: number[]) => ({
  apiVersion: 'coordination.k8s.io/v1' as const,
  kind: 'Lease' as const,
  metadata: {
    name: gatewayLeaseName('fake'),
    namespace: systemNamespace,
    labels: { [labels.component]: gatewayComponent, [labels.managedBy]: managedByEspalier },
    annotations: {
      [acknowledgedAnnotation]: version,
      ...(unreachable.length > 0 ? { [unreachableAnnotation]: unreachable.join(',') } : {}),
      ...(refused.length > 0 ? { [portsInUseAnnotation]: refused.join(',') } : {}),
    },
  },
  spec: {
    holderIdentity: 'fake',
    leaseDurationSeconds: gatewayLeaseSeconds,
    renewTime: microTime(Date.now()),
  },
})
