/**
 * The runtime of a one-machine cluster: kubelet, controllers and storage driver in one. It watches a `Cluster` and runs
 * its pods as processes, its claims as directories, its snapshots as images of them.
 *
 * Promises: at the start everything that an earlier run left is ended before anything new begins; a process stands on
 * a volume only while its pod holds it; a pod's object is gone only after its processes are.
 */
import { readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type {
  Cluster,
  ConfigMap,
  Kinds,
  LogOptions,
  ObjectKey,
  PersistentVolumeClaim,
  Secret,
  VolumeSnapshot,
} from '../../cluster/index.ts'
import { createInformer, type Informer, keyText, parseKey } from '../../cluster/informer/index.ts'
import { createEventRecorder, type ReconcileResult, startController } from '../../operator/runtime/index.ts'
import { lockDirectory } from '../store/lock.ts'
import { type Layout, type Owner, openLayout } from './directories.ts'
import { messageOf, RuntimeError } from './errors.ts'
import { type Identity, openIdentity } from './identity.ts'
import type { ImageResolver } from './images/resolver.ts'
import { readContainerLog } from './logs/read.ts'
import { keepLogs } from './logs/retention.ts'
import { type AddressPool, claimAddresses } from './network/addresses.ts'
import { type Address, createServiceResolver, namespaceIndex, type Target } from './network/services.ts'
import { type BackoffLimits, defaultBackoff } from './pods/backoff.ts'
import { startKubelet } from './pods/kubelet.ts'
import { runtimeMarker } from './pods/pod.ts'
import { defaultProbeTiming, type ProbeTiming } from './pods/probing.ts'
import { referenceName } from './pods/references.ts'
import { endLeftovers } from './processes/leftovers.ts'
import { createClaims } from './volumes/claims.ts'
import { createSnapshots } from './volumes/snapshots.ts'
import { createVolumeUse } from './volumes/use.ts'
import { ownerIndex, ownersOf, startWorkloads } from './workloads/controllers.ts'
import { defaultJobLimits, type JobLimits } from './workloads/job.ts'
import { isFinished } from './workloads/template.ts'

export { RuntimeError, type RuntimeErrorReason } from './errors.ts'
export { createPostgresImages, type PostgresImagesOptions } from './images/postgres.ts'
export type { ImageResolver, ResolvedImage } from './images/resolver.ts'
export type { Address, Target } from './network/services.ts'

export type RuntimeOptions = {
  cluster: Cluster
  directory: string
  images: ImageResolver
  /** Where this process is root: the user that workloads run as. */
  runAs?: Owner | undefined
  logger: Logger
  /** ms since the epoch */
  now?: (() => number) | undefined
  random?: (() => number) | undefined
  /** Waits between restarts, between tries of a Job and between looks of a probe; for tests. */
  backoff?: BackoffLimits | undefined
  jobLimits?: JobLimits | undefined
  probeTiming?: ProbeTiming | undefined
}

export type Runtime = {
  /** Where a connection to a Service goes now: a pod that is ready; undefined where there is none. */
  resolve(target: Target): Address | undefined
  /**
   * Lines of a container, oldest first, each `<RFC 3339 time> <line>`. Without a container in the options: of the
   * pod's first one.
   */
  logs(pod: ObjectKey, options?: LogOptions): Promise<string[]>
  /** Ends all pods with their grace and leaves their objects to the next start. */
  stop(): Promise<void>
}

const snapshotWorkers = 4
const claimWorkers = 8

/**
 * @throws RuntimeError `UnsupportedPlatform`, `DirectoryNotWritable`, `DirectoryInUse`, `ProcessWouldNotEnd`
 */
export async function startRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { directory, runAs, logger } = options
  const layout = openLayout(directory, runAs)
  const unlock = lock(layout)
  let addresses: AddressPool | undefined
  try {
    const identity = openIdentity(layout.root)
    addresses = await claimAddresses(identity.preferredNetwork)
    identity.rememberNetwork(addresses.network)
    await endLeftovers(layout, `${runtimeMarker}=${identity.runtimeId}`, logger)
    for (const name of readdirSync(layout.staging)) {
      await rm(join(layout.staging, name), { recursive: true, force: true })
    }
    return await run(options, layout, identity, addresses, unlock)
  } catch (error) {
    await addresses?.close()
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

async function run(
  options: RuntimeOptions,
  layout: Layout,
  identity: Identity,
  addresses: AddressPool,
  unlock: () => void,
): Promise<Runtime> {
  const { cluster, images, logger, now = Date.now, random = Math.random } = options
  const nodeName = hostname().toLowerCase()
  const follow = <K extends 'StatefulSet' | 'Deployment' | 'Job' | 'Service' | 'Secret' | 'ConfigMap'>(kind: K) =>
    createInformer(cluster, kind, { logger, transform: whole })
  const pods = createInformer(cluster, 'Pod', {
    logger,
    transform: whole,
    indexes: { [ownerIndex]: ownersOf, [namespaceIndex]: pod => [pod.metadata.namespace ?? ''] },
  })
  const claimObjects = createInformer(cluster, 'PersistentVolumeClaim', { logger, transform: whole })
  const snapshotObjects = createInformer(cluster, 'VolumeSnapshot', { logger, transform: whole })
  const [statefulSets, deployments, jobs] = [follow('StatefulSet'), follow('Deployment'), follow('Job')]
  const [services, secrets, configMaps] = [follow('Service'), follow('Secret'), follow('ConfigMap')]
  const informers = [
    pods,
    claimObjects,
    snapshotObjects,
    statefulSets,
    deployments,
    jobs,
    services,
    secrets,
    configMaps,
  ]

  const events = createEventRecorder({ cluster, component: 'espalier-runtime', instance: nodeName, logger })
  const use = createVolumeUse()
  const isReferenced = ({ namespace, name }: ObjectKey): boolean =>
    pods
      .byIndex(namespaceIndex, namespace ?? '')
      .some(
        pod => !isFinished(pod) && pod.spec?.volumes?.some(volume => volume.persistentVolumeClaim?.claimName === name),
      )
  const shared = { cluster, layout, use, record: events.record, now }
  const claims = createClaims({
    ...{ ...shared, claims: claimObjects, snapshots: snapshotObjects, isReferenced },
    onProvisioned: ({ namespace }) => kubelet.poke(namespace),
  })
  const snapshots = createSnapshots({ ...shared, snapshots: snapshotObjects, findClaim: claims.find, logger })

  await Promise.all(informers.map(informer => informer.start()))
  const stopKeepingLogs = keepLogs({ layout, pods, statefulSets, logger })
  const claimControl = control('claims', claimWorkers, claimObjects, isClaimSettled, claims.reconcile, logger)
  const snapshotControl = control(
    'snapshots',
    snapshotWorkers,
    snapshotObjects,
    isSnapshotSettled,
    snapshots.reconcile,
    logger,
  )
  const kubelet = startKubelet({
    cluster,
    pods,
    nodeName,
    logger,
    host: {
      layout,
      addresses,
      images,
      use,
      referencesIn: namespace => ({
        secret: name => secrets.get({ namespace, name }),
        configMap: name => configMaps.get({ namespace, name }),
      }),
      findClaim: claims.find,
      runtimeId: identity.runtimeId,
      warn: (pod, reason, message) => events.record(pod, 'Warning', reason, message),
      backoff: options.backoff ?? defaultBackoff,
      probeTiming: options.probeTiming ?? defaultProbeTiming,
      logger,
      now,
    },
  })
  const workloads = startWorkloads({
    ...{ cluster, pods, statefulSets, deployments, jobs, nodeName, logger, now, random },
    jobLimits: options.jobLimits ?? defaultJobLimits,
  })

  // What one part may wait for and another one does.
  for (const [kind, informer] of [
    ['secret', secrets],
    ['configMap', configMaps],
  ] as const) {
    informer.onChange(({ object: { metadata } }: { object: Secret | ConfigMap }) =>
      kubelet.refresh(metadata.namespace ?? '', referenceName(kind, metadata.name)),
    )
  }
  const lookAtStorage = (namespace: string | undefined) => {
    claimControl.enqueueUnsettled(namespace)
    snapshotControl.enqueueUnsettled(namespace)
  }
  claimObjects.onChange(({ object }) => {
    kubelet.poke(object.metadata.namespace)
    lookAtStorage(object.metadata.namespace)
  })
  snapshotObjects.onChange(({ object }) => lookAtStorage(object.metadata.namespace))
  pods.onChange(({ object }) => lookAtStorage(object.metadata.namespace))
  use.onRelease(() => {
    kubelet.poke()
    lookAtStorage(undefined)
  })

  await kubelet.started
  return {
    resolve: createServiceResolver({ services, pods, readyAddress: kubelet.readyAddress }),
    async logs(pod, { container, tailLines, sinceTime } = {}) {
      const name = container ?? pods.get(pod)?.spec?.containers[0]?.name
      if (name === undefined) return []
      return readContainerLog(layout.log(pod.namespace ?? '', pod.name), name, { tailLines, sinceTime })
    },
    async stop() {
      await workloads.stop()
      await snapshotControl.stop()
      await claimControl.stop()
      await kubelet.stop()
      await events.stop()
      stopKeepingLogs()
      await Promise.all(informers.map(informer => informer.stop()))
      await addresses.close()
      unlock()
    },
  }
}

/** Objects of the one-machine store are shared with it: a copy without managedFields would cost more than it saves. */
const whole = <T>(object: T): T => object

const isClaimSettled = ({ metadata, status }: PersistentVolumeClaim): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase === 'Bound'
const isSnapshotSettled = ({ metadata, status }: VolumeSnapshot): boolean =>
  metadata.deletionTimestamp === undefined && status?.readyToUse === true

/** A controller of one kind; those of its objects that wait for something can be looked at again. */
function control<K extends 'PersistentVolumeClaim' | 'VolumeSnapshot'>(
  name: string,
  workers: number,
  informer: Informer<K>,
  isSettled: (object: Kinds[K]) => boolean,
  reconcile: (key: ObjectKey) => Promise<ReconcileResult>,
  logger: Logger,
) {
  const keys = () => informer.list().map(object => keyText(object.metadata))
  const controller = startController({ name, workers, reconcile: text => reconcile(parseKey(text)), keys, logger })
  informer.onChange(({ object }) => controller.enqueue(keyText(object.metadata)))
  return {
    enqueueUnsettled(namespace: string | undefined) {
      for (const object of informer.list({ namespace })) {
        if (!isSettled(object)) controller.enqueue(keyText(object.metadata))
      }
    },
    stop: () => controller.stop(),
  }
}
