/**
 * Does what Kubernetes and its nodes do with the operator's objects, without running a program. Claims are bound,
 * StatefulSets get their pod, pods run, and an empty volume is initialised, or refused as by `espalier instance`. Each
 * step takes one or two writes, so thousands of databases are cheap.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type {
  Cluster,
  ConfigMap,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StatefulSet,
  VolumeSnapshot,
} from '../../cluster/index.ts'
import { createInformer, keyOf } from '../../cluster/informer/index.ts'
import { labels } from '../../crds/index.ts'
import { exitCodes, type RefusalReason } from '../../instance/refusal.ts'
import { isRecord } from '../../values/record.ts'
import { postgresContainer, prepareContainer } from '../member/pod/stateful-set.ts'
import { configurationAnnotation, instanceFile } from '../member/postgres/configuration.ts'
import { createFakeBinding, handleOf, reservationOf } from './fake-binding.ts'
import { createFakePostgres, type FakeData, type FakePostgres, type Tls } from './fake-postgres.ts'
import { createFakeSnapshots, type FakeSnapshots } from './fake-snapshots.ts'
import { createFakeVolumes, type FakeVolumes } from './fake-volumes.ts'

export type FakeWorkload = {
  postgres: FakePostgres
  /** How volumes are created and grow. After a change, call `regrow` to check every claim again. */
  volumes: FakeVolumes
  regrow(): void
  /** How snapshots are taken. After a change, call `resnapshot` to check every snapshot again. */
  snapshots: FakeSnapshots
  resnapshot(): void
  /** Ends the Postgres of a pod and starts it again, like a kubelet after a crash. */
  restart(pod: { namespace: string; name: string }): Promise<void>
  /** With true, no new pod starts to run from now on. With false, the pods that did not start now do. */
  refuse(refuses: boolean): void
  /** With true, no StatefulSet status is updated from now on. With false, all are updated. */
  lag(lags: boolean): void
  /**
   * From now on each of these steps waits for its promise: the write of a StatefulSet's status, the creation of its
   * pod, the request to delete its pod, and the end of a deleted pod.
   */
  slow(pace: Pace): void
  stop(): Promise<void>
}

export type WorkloadStep = 'status' | 'create pod' | 'delete pod' | 'end pod'
type Pace = (step: WorkloadStep) => Promise<void>

/** A restore point that is not in the archive. */
export const unreachedPoint = 'unreached'

const retryMs = 20
/** Keeps a deleted pod until its slow kubelet has stopped it. */
const kubeletFinalizer = 'testing.espalier.dev/kubelet'
const labelled = { labels: { [labels.database]: true } } as const

const addressOf = (number: number): string => `10.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`

export async function startFakeWorkload({
  cluster,
  logger,
  postgres = createFakePostgres(),
}: {
  cluster: Cluster
  logger: Logger
  /** If given, the workload continues with the data of an earlier workload. */
  postgres?: FakePostgres
}): Promise<FakeWorkload> {
  const quiet = logger.child({ part: 'fake-workload' })
  const statefulSets = createInformer(cluster, 'StatefulSet', {
    ...labelled,
    indexes: { claim: set => [`${set.metadata.namespace}/${claimOf(set)}`] },
    logger: quiet,
  })
  const claims = createInformer(cluster, 'PersistentVolumeClaim', { ...labelled, logger: quiet })
  const volumes = createInformer(cluster, 'PersistentVolume', {
    indexes: { claim: volume => [reservationOf(volume)] },
    logger: quiet,
  })
  /** The mounted claim of each pod, by its uid. The claim stays mounted whatever happens to it. */
  const mounted = new Map<string, string>()
  const binding = createFakeBinding(cluster, postgres.data, handle => [...mounted.values()].includes(handle))
  const pods = createInformer(cluster, 'Pod', { ...labelled, logger: quiet })
  const configurations = createInformer(cluster, 'ConfigMap', { ...labelled, logger: quiet })
  const growing = createFakeVolumes(cluster)
  const snapshots = createInformer(cluster, 'VolumeSnapshot', { ...labelled, logger: quiet })
  /** The content of the snapshots, by uid. */
  const images = new Map<string, FakeData>()
  /** The initial content of volumes, by handle. After that, their snapshots may be deleted. */
  const filled = new Map<string, FakeData>()
  const imaging = createFakeSnapshots(cluster, async (key, snapshotUid) => {
    const claim = await cluster.get('PersistentVolumeClaim', key)
    const volume = claim && (await cluster.get('PersistentVolume', { name: claim.spec?.volumeName ?? '' }))
    const image = volume && postgres.imageOf(handleOf(volume))
    if (image !== undefined) images.set(snapshotUid, image)
    return volume && handleOf(volume)
  })
  let addresses = 0
  /** The running work. Each StatefulSet has at most one task at the same time. */
  const chains = new Map<string, Promise<void>>()
  let stopped = false
  /** Pods wait for this promise before they run. */
  let refusing: Promise<void> = Promise.resolve()
  let accept = () => {}
  let isLagging = false
  let pace: Pace | undefined

  const serially = (key: string, work: () => Promise<void>): Promise<void> => {
    const next = (chains.get(key) ?? Promise.resolve()).then(() => untilDone(key, work))
    chains.set(key, next)
    void next.finally(() => {
      if (chains.get(key) === next) chains.delete(key)
    })
    return next
  }

  /** Another client may have changed the object first. Then this checks again. */
  const untilDone = async (key: string, work: () => Promise<void>): Promise<void> => {
    while (!stopped) {
      try {
        return await work()
      } catch (error) {
        quiet.warn({ key, err: error }, 'the fake workload retries')
        await delay(retryMs)
      }
    }
  }

  const reconcile = async ({ metadata }: Pick<StatefulSet, 'metadata'>): Promise<void> => {
    const { namespace } = metadata
    const set = await cluster.get('StatefulSet', { namespace, name: metadata.name })
    const key = { namespace, name: `${metadata.name}-0` }
    const found = await cluster.get('Pod', key)
    // If another owner's pod has this name, the set gets no pod.
    const isOwn = found?.metadata.ownerReferences?.some(({ kind }) => kind === 'StatefulSet') === true
    const pod = isOwn ? found : undefined
    const isWanted = set !== undefined && set.metadata.deletionTimestamp === undefined && set.spec?.replicas === 1
    if (!isWanted || set === undefined) {
      if (pod !== undefined) await deletePod(pod)
      else if (set !== undefined && !isLagging) await observed(set, 0)
      return
    }
    // After it has reported that, it keeps reporting it. Nothing depends on a report for an earlier generation.
    if (set.status?.observedGeneration !== undefined && !isLagging) await observed(set, 1)
    if (pod?.spec?.nodeName !== undefined) return
    const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: claimOf(set) })
    if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return
    if (await growing.withholds(claim)) return waitForVolume(set, pod)
    const image = await imageFor(claim)
    const volume = await binding.bind(claim)
    if (volume === undefined) return
    if (image !== undefined) filled.set(handleOf(volume), image)
    if (pod !== undefined) await deletePod(pod)
    await pace?.('create pod')
    const created = await cluster.create('Pod', podOf(set, pace === undefined ? [] : [kubeletFinalizer]))
    mounted.set(created.metadata.uid ?? '', handleOf(volume))
    await refusing
    await run(created, handleOf(volume))
  }

  const deletePod = async ({ metadata: { namespace, name, uid, deletionTimestamp } }: Pod): Promise<void> => {
    if (deletionTimestamp !== undefined) return
    await pace?.('delete pod')
    await cluster.delete('Pod', { namespace, name }, { uid })
  }

  /** Does what a kubelet does with a deleted pod. */
  const endPod = async ({ metadata: { namespace, name, uid } }: Pod): Promise<void> => {
    await pace?.('end pod')
    const pod = await cluster.get('Pod', { namespace, name })
    if (pod?.metadata.uid !== uid || pod?.metadata.finalizers === undefined) return
    const finalizers = pod.metadata.finalizers.filter(finalizer => finalizer !== kubeletFinalizer)
    await cluster.replace('Pod', { ...pod, metadata: { ...pod.metadata, finalizers } })
  }

  /** The generation that the StatefulSet controller has observed, and its number of pods. */
  const observed = async (set: StatefulSet, replicas: number): Promise<void> => {
    const { generation: observedGeneration = 0 } = set.metadata
    if (set.status?.observedGeneration === observedGeneration && set.status.replicas === replicas) return
    await pace?.('status')
    await cluster.replaceStatus('StatefulSet', { ...set, status: { observedGeneration, replicas } })
  }

  /** A pod whose claim has no volume is not scheduled. */
  const waitForVolume = async (set: StatefulSet, pod: Pod | undefined): Promise<void> => {
    if (pod !== undefined) return
    const { spec, ...draft } = podOf(set)
    const { nodeName: _, containers = [], ...rest } = spec ?? {}
    const created = await cluster.create('Pod', { ...draft, spec: { ...rest, containers } })
    await cluster.replaceStatus('Pod', { ...created, status: unscheduled })
  }

  /** Grows the volume of a claim. Reads the claim from the cluster, because steps follow each other quickly. */
  const grow = async ({ metadata: { namespace, name } }: PersistentVolumeClaim): Promise<void> => {
    const claim = await cluster.get('PersistentVolumeClaim', { namespace, name })
    if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return
    const [set] = statefulSets.byIndex('claim', keyOf(claim))
    const pod = set && (await cluster.get('Pod', { namespace, name: `${set.metadata.name}-0` }))
    await growing.step(claim, pod?.status?.podIP !== undefined)
  }
  const onSnapshot = ({ metadata: { namespace, name } }: VolumeSnapshot) =>
    void serially(`snapshot ${namespace}/${name}`, async () => {
      const snapshot = await cluster.get('VolumeSnapshot', { namespace, name })
      if (snapshot !== undefined) await imaging.step(snapshot)
    })
  const isGrowing = ({ spec, status }: PersistentVolumeClaim): boolean =>
    status?.phase === 'Bound' && spec?.resources?.requests?.storage !== status.capacity?.storage
  const onClaim = (claim: PersistentVolumeClaim) => {
    if (isGrowing(claim)) void serially(`${keyOf(claim)} grows`, () => grow(claim))
  }

  const run = async (pod: Pod, handle: string): Promise<void> => {
    const refusal = await prepare(pod, handle)
    const podIP = addressOf(++addresses)
    if (refusal === undefined) await postgres.start(podIP, handle, await mountedDigest(pod), () => mountedIn(pod))
    await cluster.replaceStatus('Pod', { ...pod, status: refusal ? failed(refusal) : running(podIP, 0) })
  }

  /** The current content of a pod's TLS Secret, as a kubelet mounts it. */
  const mountedIn = async ({ metadata, spec }: Pod): Promise<Tls | undefined> => {
    const name = spec?.volumes?.find(volume => volume.secret !== undefined)?.secret?.secretName ?? ''
    const secret = await cluster.get('Secret', { namespace: metadata.namespace, name })
    const text = (key: string) => Buffer.from(secret?.data?.[key] ?? '', 'base64').toString('utf8')
    return secret && { certificate: text('tls.crt'), trusts: text('ca.crt') }
  }

  /** Does what `espalier instance prepare` does with the volume. */
  const prepare = async ({ metadata, spec }: Pod, handle: string): Promise<RefusalReason | undefined> => {
    const map = await cluster.get('ConfigMap', { namespace: metadata.namespace, name: configurationName({ spec }) })
    if (map === undefined) return 'configuration'
    if (postgres.data.has(handle)) return undefined
    const image = filled.get(handle)
    if (image !== undefined && isEnabled(map, 'prepareCopy')) {
      postgres.copy(image, handle)
      return undefined
    }
    if (image !== undefined) return 'other-incarnation'
    if (map.data?.[instanceFile]?.includes(JSON.stringify(unreachedPoint))) return 'target-not-reached'
    const source = await recoveredOf(map)
    if (source !== undefined) {
      postgres.copy(source, handle)
      return undefined
    }
    if (!isEnabled(map, 'initialise')) return 'volume-empty'
    postgres.initialise(handle)
    return undefined
  }

  /** The last data of each database. Used if the database has no pod. */
  const archived = new Map<string, FakeData>()

  /** The content of the archive: the current data of the database, or its last data. */
  const recoveredOf = async (map: ConfigMap): Promise<FakeData | undefined> => {
    const parsed: unknown = JSON.parse(map.data?.[instanceFile] ?? '{}')
    const recover = isRecord(parsed) && isRecord(parsed.recover) ? parsed.recover : undefined
    if (typeof recover?.id !== 'string') return undefined
    const { items } = await cluster.list('PersistentVolumeClaim', { labels: { [labels.database]: recover.id } })
    const stored = items.map(({ metadata }) => postgres.imageOf(metadata.uid ?? '')).find(data => data !== undefined)
    return stored ?? archived.get(recover.id)
  }

  /** The initial content of a claim's volume. */
  const imageFor = async ({ metadata, spec }: PersistentVolumeClaim): Promise<FakeData | undefined> => {
    if (spec?.dataSource === undefined) return undefined
    const snapshot = await cluster.get('VolumeSnapshot', { namespace: metadata.namespace, name: spec.dataSource.name })
    return images.get(snapshot?.metadata.uid ?? '')
  }

  const configurationName = ({ spec }: Pick<Pod, 'spec'>): string =>
    spec?.volumes?.find(volume => volume.configMap !== undefined)?.configMap?.name ?? ''

  const mountedDigest = async (pod: Pod): Promise<string | null> => {
    const { namespace } = pod.metadata
    return digestIn(await cluster.get('ConfigMap', { namespace, name: configurationName(pod) }))
  }

  const setOf = ({ metadata }: Pod): StatefulSet | undefined =>
    statefulSets.get({ ...metadata, name: metadata.name.replace(/-0$/, '') })
  const onSet = (set: StatefulSet) => serially(keyOf(set), () => reconcile(set))
  statefulSets.onChange(({ object }) => void onSet(object))
  const onVolume = ({ metadata: { name } }: PersistentVolume) =>
    void serially(`volume ${name}`, () => binding.reclaim(name))
  volumes.onChange(({ object }) => {
    onVolume(object)
    for (const set of statefulSets.byIndex('claim', reservationOf(object))) void onSet(set)
  })
  claims.onChange(({ object }) => {
    onClaim(object)
    for (const volume of volumes.byIndex('claim', keyOf(object))) onVolume(volume)
    for (const set of statefulSets.byIndex('claim', keyOf(object))) void onSet(set)
  })
  pods.onChange(({ type, object }) => {
    if (type === 'set') {
      const set = setOf(object)
      const claim = set && claims.get({ namespace: set.metadata.namespace, name: claimOf(set) })
      if (claim) onClaim(claim)
      const { deletionTimestamp, finalizers } = object.metadata
      if (deletionTimestamp !== undefined && finalizers?.includes(kubeletFinalizer))
        void serially(`pod ${object.metadata.uid} ends`, () => endPod(object))
      return
    }
    if (object.status?.podIP !== undefined) postgres.stop(object.status.podIP)
    const handle = mounted.get(object.metadata.uid ?? '')
    mounted.delete(object.metadata.uid ?? '')
    const last = handle === undefined ? undefined : postgres.imageOf(handle)
    if (last !== undefined) archived.set(object.metadata.labels?.[labels.database] ?? '', last)
    for (const volume of volumes.list()) if (handleOf(volume) === handle) onVolume(volume)
    const set = setOf(object)
    if (set) void onSet(set)
  })
  /** Changes the mounted files under the running server, like a kubelet. */
  configurations.onChange(({ type, object }) => {
    if (type !== 'set') return
    const { namespace, name } = object.metadata
    for (const set of statefulSets.list({ namespace: namespace ?? '' })) {
      if (configurationName({ spec: set.spec?.template.spec } as Pick<Pod, 'spec'>) !== name) continue
      const claim = claims.get({ namespace, name: claimOf(set) })
      const volume = volumes.get({ name: claim?.spec?.volumeName ?? '' })
      postgres.mount(volume ? handleOf(volume) : '', digestIn(object))
    }
  })
  snapshots.onChange(({ object }) => onSnapshot(object))
  const informers = [statefulSets, claims, volumes, pods, configurations, snapshots]
  await Promise.all(informers.map(informer => informer.start()))

  return {
    postgres,
    volumes: growing,
    regrow: () => {
      for (const claim of claims.list()) onClaim(claim)
      for (const set of statefulSets.list()) void onSet(set)
    },
    snapshots: imaging,
    resnapshot: () => {
      for (const snapshot of snapshots.list()) onSnapshot(snapshot)
    },
    restart: async ({ namespace, name }) => {
      const pod = await cluster.get('Pod', { namespace, name })
      const podIP = pod?.status?.podIP
      if (pod === undefined || podIP === undefined) return
      const restarts = (pod.status?.containerStatuses?.[0]?.restartCount ?? 0) + 1
      await cluster.replaceStatus('Pod', { ...pod, status: running(podIP, restarts) })
    },
    refuse: refuses => {
      accept()
      if (refuses)
        refusing = new Promise(resolve => {
          accept = resolve
        })
    },
    lag: lags => {
      isLagging = lags
      for (const set of statefulSets.list()) void onSet(set)
    },
    slow: given => {
      pace = given
    },
    stop: async () => {
      stopped = true
      accept()
      await Promise.all(informers.map(informer => informer.stop()))
      await Promise.all(chains.values())
    },
  }
}

const claimOf = (set: StatefulSet): string =>
  set.spec?.template.spec?.volumes?.find(volume => volume.persistentVolumeClaim)?.persistentVolumeClaim?.claimName ?? ''

const digestIn = (map: ConfigMap | undefined): string | null =>
  map?.metadata.annotations?.[configurationAnnotation] ?? null

function isEnabled(map: ConfigMap, what: 'initialise' | 'prepareCopy'): boolean {
  const parsed: unknown = JSON.parse(map.data?.[instanceFile] ?? '{}')
  return isRecord(parsed) && parsed[what] === true
}

function podOf(set: StatefulSet, finalizers: string[] = []): Omit<Pod, 'status'> {
  const { template } = set.spec ?? {}
  const { namespace, name, uid = '' } = set.metadata
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${name}-0`,
      ...(namespace === undefined ? {} : { namespace }),
      labels: template?.metadata?.labels ?? {},
      annotations: template?.metadata?.annotations ?? {},
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name, uid, controller: true }],
      ...(finalizers.length > 0 ? { finalizers } : {}),
    },
    ...(template?.spec === undefined ? {} : { spec: { ...template.spec, nodeName: 'fake' } }),
  }
}

const container = (name: string, restartCount: number, ready: boolean) => ({
  name,
  image: 'fake',
  imageID: 'fake',
  ready,
  restartCount,
  started: ready,
})

const running = (podIP: string, restarts: number): NonNullable<Pod['status']> => ({
  phase: 'Running',
  podIP,
  conditions: [{ type: 'Ready', status: 'True' }],
  containerStatuses: [
    {
      ...container(postgresContainer, restarts, true),
      state: { running: { startedAt: new Date().toISOString() } },
    },
  ],
})

const unscheduled: NonNullable<Pod['status']> = {
  phase: 'Pending',
  conditions: [
    {
      type: 'PodScheduled',
      status: 'False',
      reason: 'Unschedulable',
      message: '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims',
    },
  ],
}

const failed = (reason: RefusalReason): NonNullable<Pod['status']> => ({
  phase: 'Pending',
  initContainerStatuses: [
    {
      ...container(prepareContainer, 1, false),
      state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off' } },
      lastState: { terminated: { exitCode: exitCodes[reason], reason: 'Error', message: reason } },
    },
  ],
})
