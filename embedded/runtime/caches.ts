/** The watch caches that kubelet, controllers and network share. */
import type { Logger } from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { namespaceIndex } from './network/services.ts'
import { ownerIndex, ownersOf } from './workloads/controllers.ts'

/** Objects of the embedded store are shared with it: a copy without managedFields would cost more memory than it saves. */
const whole = <T>(object: T): T => object

export type Caches = ReturnType<typeof createCaches>

export function createCaches(cluster: Cluster, logger: Logger) {
  const follow = <K extends 'StatefulSet' | 'Deployment' | 'Job' | 'Secret' | 'ConfigMap'>(kind: K) =>
    createInformer(cluster, kind, { logger, transform: whole })
  const caches = {
    pods: createInformer(cluster, 'Pod', {
      logger,
      transform: whole,
      indexes: { [ownerIndex]: ownersOf, [namespaceIndex]: pod => [pod.metadata.namespace ?? ''] },
    }),
    statefulSets: follow('StatefulSet'),
    deployments: follow('Deployment'),
    jobs: follow('Job'),
    services: createInformer(cluster, 'Service', {
      logger,
      transform: whole,
      indexes: { [namespaceIndex]: service => [service.metadata.namespace ?? ''] },
    }),
    secrets: follow('Secret'),
    configMaps: follow('ConfigMap'),
  }
  const all = Object.values(caches)
  return {
    ...caches,
    async start(): Promise<void> {
      await Promise.all(all.map(cache => cache.start()))
    },
    async stop(): Promise<void> {
      await Promise.all(all.map(cache => cache.stop()))
    },
  }
}
