/**
 * The runtime of a one-machine cluster: kubelet, controllers and storage driver in one. It watches a `Cluster`. It runs
 * pods as processes, stores claims as directories, and stores snapshots as copies of these directories.
 *
 * Guarantees: at start, the runtime ends every process of an earlier run before it starts anything. A process uses a
 * volume only while its pod has the volume mounted. A pod's object is deleted only after its processes have ended.
 */
import { readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Cluster, LogOptions, ObjectKey } from '../../cluster/index.ts'
import { createEventRecorder, type EventRecorder } from '../../controller/index.ts'
import { lockDirectory } from '../store/lock.ts'
import { type Caches, createCaches } from './caches.ts'
import { type Layout, type Owner, openLayout, withPool } from './directories.ts'
import { messageOf, RuntimeError } from './errors.ts'
import { type Identity, openIdentity } from './identity.ts'
import type { ImageResolver } from './images/resolver.ts'
import { readContainerLog } from './logs/read.ts'
import { keepLogs } from './logs/retention.ts'
import { type AddressPool, claimAddresses } from './network/addresses.ts'
import { createEndpointsFeed, type Endpoints, type EndpointsFeed } from './network/endpoints.ts'
import { keepNames } from './network/names.ts'
import { type Address, createServiceResolver, type ServicesOptions, type Target } from './network/services.ts'
import { type BackoffLimits, defaultBackoff } from './pods/backoff.ts'
import { type Kubelet, startKubelet } from './pods/kubelet.ts'
import { type PodHost, runtimeMarker } from './pods/pod-host.ts'
import { defaultProbeTiming, type ProbeTiming } from './pods/probing.ts'
import { referenceName } from './pods/references.ts'
import { createSharedProbes, type SharedProbes } from './pods/shared-probe.ts'
import { type Copies, openPool, type Pool } from './pool/index.ts'
import { endLeftovers } from './processes/leftovers.ts'
import { watchDisk } from './volumes/disk.ts'
import { directoryGrowth, type GrowthOptions } from './volumes/growth.ts'
import { createStorage, type Storage } from './volumes/storage.ts'
import { createVolumeUse, type VolumeUse } from './volumes/use.ts'
import { startWorkloads } from './workloads/controllers.ts'
import { defaultJobLimits, type JobLimits } from './workloads/job.ts'

export { RuntimeError } from './errors.ts'
export { createPostgresImages, imageHasPgvector } from './images/postgres.ts'
export type { ImageResolver } from './images/resolver.ts'
export { withServicesImage } from './images/services.ts'
export type { Endpoints } from './network/endpoints.ts'
export type { Copies } from './pool/index.ts'

export type RuntimeOptions = {
  cluster: Cluster
  directory: string
  images: ImageResolver
  /** The file for the names of Services (network/names.ts). If omitted, no file is written. */
  namesFile?: string | undefined
  /** The user for workloads, if this process is root. */
  runAs?: Owner | undefined
  /** Whether to create a pool if the directory's file system cannot share blocks (pool/). */
  pool?: boolean | undefined
  logger: Logger
  /** ms since the epoch */
  now?: (() => number) | undefined
  random?: (() => number) | undefined
  /** Delays between restarts, Job retries and probes; for tests. */
  backoff?: BackoffLimits | undefined
  jobLimits?: JobLimits | undefined
  probeTiming?: ProbeTiming | undefined
  /** How volumes grow; for tests of slow or failing growth. */
  growth?: GrowthOptions | undefined
}

export type Runtime = {
  /** Whether copies of volumes share blocks or are complete copies. */
  copies: Copies
  /** The directories with data that must not be lost. */
  directories: readonly string[]
  /** Whether a disk with volumes is completely full. */
  isDiskFull(): boolean
  /** The directory of a claim's volume; undefined if the claim is not bound. */
  volumeDirectory(claim: ObjectKey): string | undefined
  /** The target of a new connection to a Service: a ready pod. Undefined if no pod is ready. */
  resolve(target: Target): Address | undefined
  /** Reports the endpoints of all Services soon, and each change after that. */
  followEndpoints(report: (changes: Endpoints[]) => void): void
  /** The lines of a container, oldest first, each `<RFC 3339 time> <line>`. Default: the pod's first container. */
  logs(pod: ObjectKey, options?: LogOptions): Promise<string[]>
  /** Stops all pods with their grace period. Their objects remain for the next start. */
  stop(): Promise<void>
}

/**
 * @throws RuntimeError `UnsupportedPlatform`, `DirectoryNotWritable`, `DirectoryInUse`, `PoolNotMounted`, `ProcessWouldNotEnd`
 */
export async function startRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { directory, runAs, logger } = options
  const base = openLayout(directory, runAs)
  const unlock = lock(base)
  let addresses: AddressPool | undefined
  let pool: Pool | undefined
  try {
    pool = await openPool({ root: base.root, make: options.pool === true, logger })
    const layout = pool.directory === undefined ? base : withPool(base, pool.directory)
    const identity = openIdentity(layout.root)
    addresses = await claimAddresses(identity.preferredNetwork)
    identity.rememberNetwork(addresses.network)
    await endLeftovers(layout, `${runtimeMarker}=${identity.runtimeId}`, logger)
    for (const { staging } of layout.locations) {
      for (const name of readdirSync(staging)) await rm(join(staging, name), { recursive: true, force: true })
    }
    return await run(options, { layout, identity, addresses, pool, unlock })
  } catch (error) {
    await addresses?.close()
    await pool?.stop()
    unlock()
    throw error
  }
}

function lock(layout: Layout): () => void {
  try {
    return lockDirectory(layout.running)
  } catch (error) {
    throw new RuntimeError('DirectoryInUse', messageOf(error), { cause: error })
  }
}

/** Everything that `startRuntime` prepares before the parts start. */
type Prepared = { layout: Layout; identity: Identity; addresses: AddressPool; pool: Pool; unlock: () => void }

async function run(options: RuntimeOptions, prepared: Prepared): Promise<Runtime> {
  const { layout } = prepared
  const { cluster, logger, now = Date.now, random = Math.random } = options
  const nodeName = hostname().toLowerCase()
  const caches = createCaches(cluster, logger)
  const { pods, statefulSets, deployments, jobs } = caches
  const events = createEventRecorder({ cluster, component: 'espalier-runtime', instance: nodeName, logger })
  const use = createVolumeUse()
  let kubelet: Kubelet | undefined
  let endpoints: EndpointsFeed | undefined
  const storage = createStorage({
    ...{ cluster, layout, use, record: events.record, growth: options.growth ?? directoryGrowth, logger, now },
    onChange: namespace => kubelet?.wake(namespace),
  })

  await caches.start()
  await storage.start()
  const stopKeepingLogs = keepLogs({ layout, pods, statefulSets, logger })
  const sharedProbes = createSharedProbes({ now, directories: layout.locations.map(({ staging }) => staging) })
  const disk = watchDisk(
    layout.locations.map(({ volumes }) => volumes),
    sharedProbes.alarm,
  )
  const started = startKubelet({
    ...{ cluster, pods, nodeName, logger },
    onAddress: pod => endpoints?.touch(pod),
    host: podHost(options, prepared, { caches, events, storage, use, sharedProbes }),
  })
  kubelet = started
  const workloads = startWorkloads({
    ...{ cluster, pods, statefulSets, deployments, jobs, nodeName, logger, now, random },
    jobLimits: options.jobLimits ?? defaultJobLimits,
  })
  retryWaiting({ caches, kubelet: started, storage, use })

  const network: ServicesOptions = {
    ...{ services: caches.services, pods },
    readyAddress: pod => started.readyAddress(pod),
    address: pod => started.address(pod),
  }
  const feed = createEndpointsFeed(network)
  endpoints = feed
  if (options.namesFile !== undefined) keepNames(options.namesFile, { feed, pods, logger })
  await started.started
  return {
    copies: prepared.pool.copies,
    directories: [layout.root, ...layout.locations.map(({ volumes }) => volumes)],
    resolve: createServiceResolver(network),
    followEndpoints: feed.follow,
    logs: (pod, logOptions) => readLogs(layout, pods, pod, logOptions),
    isDiskFull: disk.isFull,
    volumeDirectory({ namespace = '', name }) {
      const found = storage.find(namespace, name)
      return found.bound ? found.directory : undefined
    },
    async stop() {
      disk.stop()
      await workloads.stop()
      await storage.stop()
      await started.stop()
      await events.stop()
      stopKeepingLogs()
      await caches.stop()
      await prepared.addresses.close()
      await prepared.pool.stop()
      prepared.unlock()
    },
  }
}

type Parts = {
  caches: Caches
  events: EventRecorder
  storage: Storage
  use: VolumeUse
  sharedProbes: SharedProbes
}

function podHost(
  options: RuntimeOptions,
  { layout, addresses, identity }: Prepared,
  { caches: { secrets, configMaps }, events, storage, use, sharedProbes }: Parts,
): PodHost {
  const { images, logger, now = Date.now } = options
  return {
    ...{ layout, addresses, images, use, sharedProbes, logger, now },
    referencesIn: namespace => ({
      secret: name => secrets.get({ namespace, name }),
      configMap: name => configMaps.get({ namespace, name }),
    }),
    findClaim: storage.findForPod,
    runtimeId: identity.runtimeId,
    warn: (pod, reason, message) => events.record(pod, 'Warning', reason, message),
    backoff: options.backoff ?? defaultBackoff,
    probeTiming: options.probeTiming ?? defaultProbeTiming,
  }
}

/** Retries objects of one part after another part changed an object that they wait for. */
function retryWaiting({
  caches,
  kubelet,
  storage,
  use,
}: Pick<Parts, 'caches' | 'storage' | 'use'> & { kubelet: Kubelet }): void {
  const { secrets, configMaps, pods } = caches
  secrets.onChange(({ object: { metadata } }) =>
    kubelet.refresh(metadata.namespace ?? '', referenceName('secret', metadata.name)),
  )
  configMaps.onChange(({ object: { metadata } }) =>
    kubelet.refresh(metadata.namespace ?? '', referenceName('configMap', metadata.name)),
  )
  pods.onChange(({ object }) => storage.retryWaiting(object.metadata.namespace))
  use.onRelease(() => {
    kubelet.wake()
    storage.retryWaiting(undefined)
  })
}

async function readLogs(
  layout: Layout,
  pods: Caches['pods'],
  pod: ObjectKey,
  { container, tailLines, sinceTime, previous }: LogOptions = {},
): Promise<string[]> {
  // A restarted container continues its log, so a log of a previous container does not exist.
  if (previous) return []
  const name = container ?? pods.get(pod)?.spec?.containers[0]?.name
  if (name === undefined) return []
  return readContainerLog(layout.log(pod.namespace ?? '', pod.name), name, { tailLines, sinceTime })
}
