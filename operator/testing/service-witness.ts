/**
 * Records what must never happen to services: a Service that selects no ready workload although there is one, and lost
 * Secrets.
 */
import type { Cluster, Secret, Service } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { labels } from '../../crds/index.ts'
import { readyPods } from '../service/workloads.ts'
import { silent, testNamespace } from './installation.ts'

export async function witnessServices(
  cluster: Cluster,
  complain: (complaint: string) => void,
): Promise<{ stop(): Promise<void> }> {
  const follow = { namespace: testNamespace, labels: { [labels.service]: true as const }, logger: silent }
  const services = createInformer(cluster, 'Service', follow)
  const secrets = createInformer(cluster, 'Secret', { namespace: testNamespace, logger: silent })
  const deployments = createInformer(cluster, 'Deployment', follow)
  /** The uid of each created Secret, by its name. */
  const minted = new Map<string, string | undefined>()
  const checks = new Set<Promise<void>>()
  const check = (work: () => Promise<void>) => {
    const running = work().finally(() => checks.delete(running))
    checks.add(running)
  }

  const checkSelected = async ({ metadata, spec }: Service) => {
    const selected = spec?.selector?.[labels.configuration]
    const own = {
      [labels.database]: metadata.labels?.[labels.database] ?? '',
      [labels.service]: metadata.labels?.[labels.service] ?? '',
    }
    const { items } = await cluster.list('Deployment', { namespace: testNamespace, labels: own })
    const current = await cluster.get('Service', { namespace: testNamespace, name: metadata.name })
    if (current?.spec?.selector?.[labels.configuration] !== selected) return
    const isReady = (is: boolean) =>
      items.some(found => (found.metadata.labels?.[labels.configuration] === selected) === is && readyPods(found) > 0)
    if (!isReady(true) && isReady(false))
      complain(`${metadata.name} selects a workload that is not ready, although another workload is ready`)
  }

  const checkMounted = async ({ metadata: { name } }: Secret) => {
    const key = { namespace: testNamespace, name }
    const found = await cluster.get('Deployment', key)
    const secret = await cluster.get('Secret', key)
    if (found !== undefined && found.metadata.deletionTimestamp === undefined && secret === undefined)
      complain(`the Secret ${name} was deleted although a Deployment mounts it`)
  }

  services.onChange(({ type, object }) => {
    if (type === 'set') check(() => checkSelected(object))
  })
  deployments.onChange(({ type, object }) => {
    if (type === 'deleted') check(() => checkRemaining(object.metadata.labels ?? {}))
  })
  const checkRemaining = async (serviceLabels: Record<string, string>) => {
    for (const service of services.list())
      if (
        service.metadata.labels?.[labels.service] === serviceLabels[labels.service] &&
        service.metadata.labels?.[labels.database] === serviceLabels[labels.database]
      )
        await checkSelected(service)
  }
  secrets.onChange(({ type, object }) => {
    const { name, uid } = object.metadata
    if (type === 'deleted') return check(() => checkMounted(object))
    if (object.metadata.labels?.[labels.component] !== 'service-token') return
    if (minted.has(name) && minted.get(name) !== uid) complain(`the token ${name} was created again`)
    minted.set(name, uid)
  })
  const informers = [services, secrets, deployments]
  await Promise.all(informers.map(informer => informer.start()))
  return {
    stop: async () => {
      await Promise.all(checks)
      await Promise.all(informers.map(informer => informer.stop()))
    },
  }
}
