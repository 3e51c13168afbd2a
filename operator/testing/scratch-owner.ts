/**
 * A controller whose owners are ConfigMaps, not ManagedDatabases. A ConfigMap has the desired Postgres and its reported
 * status. The controller uses only `workload/`, like the controllers of branches and restores, and shows how little
 * code is needed.
 */
import { type Cluster, type ConfigMap, isClusterError } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import { createMetrics, startController } from '../../controller/index.ts'
import { canonicalJson, labels, type PgVersion } from '../../crds/index.ts'
import { createCaches } from '../caches.ts'
import { ownedObjects } from '../children/owned.ts'
import { createKeyReader } from '../keys.ts'
import { noRestarts } from '../member/pod/plan/restart-annotations.ts'
import { podsOf } from '../member/pod/pod.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { nextRecord } from '../member/storage/plan/record.ts'
import { conditionsAfter } from '../objects/conditions.ts'
import type { Instance } from '../objects/instance.ts'
import { ownerKeyOf, ownerKindOf, ownerOf } from '../objects/ownership.ts'
import { execute } from '../owner/execute.ts'
import type { PodSettings } from '../pod-settings.ts'
import { serviceSettings } from '../service/settings.ts'
import { createUpgradeSlots } from '../service/upgrades.ts'
import { perform } from '../workload/act.ts'
import { deleteLeftovers } from '../workload/leftovers.ts'
import { observeInstance } from '../workload/observe.ts'
import { assess } from '../workload/plan/assessment.ts'
import type { InstanceCondition } from '../workload/plan/findings.ts'
import { awaitsPostgres, nextActions } from '../workload/plan/next-actions.ts'
import { teardown } from '../workload/plan/teardown.ts'
import { createWorkloads } from '../workload/workloads.ts'
import { silent } from './installation.ts'

/** The owner has no services, and nothing is deleted by its age. */
const withoutServices = {
  clock: { distrust: () => undefined },
  services: {
    ...{ image: undefined, settings: serviceSettings.parse({}), nodes: async () => 'unknown' as const },
    upgrades: createUpgradeSlots({ most: 1, now: Date.now }),
  },
  hasPgvector: () => false,
}

export const scratchFinalizer = 'example.dev/scratch'

const conditionTypes = {
  all: ['Ready', 'VolumeReady', 'CredentialsReady', 'EndpointReady'] satisfies InstanceCondition[],
  passing: new Set<InstanceCondition>(),
}

export async function startScratchOwner(options: {
  cluster: Cluster
  access: PostgresAccess
  images: Partial<Record<PgVersion, string>>
  pods: PodSettings
}): Promise<{ stop(): Promise<void> }> {
  const now = Date.now
  const caches = createCaches(options.cluster, silent, createMetrics())
  await caches.start()
  const cluster = caches.writeThrough(options.cluster)
  const keys = createKeyReader(caches.systemSecrets)
  const workloads = createWorkloads({
    cluster,
    caches,
    keys,
    accessFor: () => options.access,
    certificatesAtOnce: 1,
    enqueue: key => controller.enqueue(key),
    logger: silent,
    now,
  })
  const observer = { caches, cluster, images: options.images, pods: options.pods, now, ...withoutServices }

  const write = async (map: ConfigMap, status: Instance['status']): Promise<void> => {
    const text = canonicalJson(status)
    if (text !== map.data?.status) await cluster.replace('ConfigMap', { ...map, data: { ...map.data, status: text } })
  }
  const release = (map: ConfigMap) =>
    cluster.replace('ConfigMap', { ...map, metadata: { ...map.metadata, finalizers: [] } })

  const reconcile = async (key: string, signal: AbortSignal) => {
    const map = await cluster.get('ConfigMap', parseKey(key))
    if (map === undefined) {
      workloads.forget(key)
      return undefined
    }
    const { metadata, data = {} } = map
    const { namespace = '' } = metadata
    const status = JSON.parse(data.status ?? '{}')
    const spec = JSON.parse(data.spec ?? '')
    const source = data.source === undefined ? {} : { dataSource: JSON.parse(data.source) }
    const instance: Instance = { kind: 'ConfigMap', metadata, spec, status, ...source }
    const owner = ownerOf(instance, metadata.labels?.[labels.id] ?? '')
    const owned = { ...ownedObjects(caches, namespace, owner), pods: podsOf(caches, owner.id, namespace) }
    const request = { instance, owner, isAtRest: false, owned, services: { configs: [], isCopy: false } }
    const seen = await observeInstance(observer, request, keys(), workloads.prior(key))
    const pass = workloads.pass(key, seen, keys(), signal)
    const { observed } = seen
    if (metadata.deletionTimestamp !== undefined) {
      const step = teardown(observed, owner, now())
      await execute(step.actions, action => perform(workloads.executor, pass, action))
      if (step.isDone) {
        await deleteLeftovers(cluster, instance)
        await release(map)
      }
      return { requeueAfterMs: 100 }
    }
    const assessment = assess(observed, owner, now(), noRestarts)
    const { findings, desired, answered, fatal } = assessment
    const { errors } = await execute(nextActions(observed, assessment), action =>
      perform(workloads.executor, pass, action),
    )
    await write(map, {
      conditions: conditionsAfter(conditionTypes, status.conditions ?? [], findings, metadata.generation, now()),
      volume: nextRecord(observed, fatal ? undefined : answered),
      incarnation: observed.incarnation,
      endpoint: desired.endpoint,
    })
    const requeueMs = workloads.requeueAfter(pass, {
      awaitsPostgres: awaitsPostgres(observed, assessment),
      awaitsGateways: findings.EndpointReady?.reason === 'AcknowledgementPending',
      configurationDigest: desired.configurationDigest,
      requeueAt: undefined,
    })
    const fault = errors.find(error => !isClusterError(error, 'Conflict'))
    if (fault !== undefined) throw fault
    return { requeueAfterMs: Math.min(requeueMs ?? 1_000, 1_000) }
  }

  const controller = startController({ name: 'scratch', workers: 1, reconcile, logger: silent })
  const ofChild = ({ object }: { object: Parameters<typeof ownerKeyOf>[0] }) => {
    const key = ownerKindOf(object) === 'ConfigMap' ? ownerKeyOf(object) : undefined
    if (key !== undefined) controller.enqueue(key)
  }
  const { pods, statefulSets, secrets, claims, services, gateways } = caches
  for (const cache of [pods, statefulSets, secrets, claims, services]) cache.onChange(ofChild)
  caches.configMaps.onChange(ofChild)
  gateways.onChange(() => {
    for (const map of caches.configMaps.list()) ofChild({ object: map })
  })
  const owners = new AbortController()
  const { items, resourceVersion } = await cluster.list('ConfigMap', { labels: { scratch: true } })
  for (const { metadata } of items) controller.enqueue(`${metadata.namespace}/${metadata.name}`)
  const following = (async () => {
    const watch = { labels: { scratch: true as const }, resourceVersion, signal: owners.signal }
    for await (const event of cluster.watch('ConfigMap', watch))
      if (event.type !== 'BOOKMARK')
        controller.enqueue(`${event.object.metadata.namespace}/${event.object.metadata.name}`)
  })()

  return {
    stop: async () => {
      owners.abort()
      await following.catch(() => {})
      await controller.stop()
      await workloads.stop()
      await caches.stop()
    },
  }
}
