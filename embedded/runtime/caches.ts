/** Watch caches shared by kubelet, controllers and network. */
import type { Logger } from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { namespaceIndex } from './network/services.ts'
import { ownerIndex, ownersOf } from './workloads/controllers.ts'

/**
 * The cache shares its objects with the embedded store. Copies without managedFields would cost more memory than they
 * save.
 */
const identity = <T>(object: T): T => object

export type Caches = ReturnType<typeof createCaches>

export function createCaches(cluster: Cluster, logger: Logger) {
  const follow = <K extends 'StatefulSet' | 'Deployment' | 'Job' | 'Secret' | 'ConfigMap'>(kind: K) =>
    createInformer(cluster, kind, { logger, transform: identity })
  const caches = {
    pods: createInformer(cluster, 'Pod', {
      logger,
      transform: identity,
      indexes: { [ownerIndex]: ownersOf, [namespaceIndex]: pod => [pod.metadata.namespace ?? ''] },
    }),
    statefulSets: follow('StatefulSet'),
    deployments: follow('Deployment'),
    jobs: follow('Job'),
    services: createInformer(cluster, 'Service', {
      logger,
      transform: identity,
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
