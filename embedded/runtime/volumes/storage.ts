/** Claims, volumes and snapshots together: what each waits for and another one does. */
import type { Logger } from 'pino'
import type {
  AnyObject,
  Cluster,
  Kinds,
  ObjectKey,
  PersistentVolume,
  PersistentVolumeClaim,
  VolumeSnapshot,
} from '../../../cluster/index.ts'
import { createInformer, type Informer, keyText, parseKey } from '../../../cluster/informer/index.ts'
import { type ReconcileResult, startController } from '../../../controller/index.ts'
import type { Layout } from '../directories.ts'
import type { ClaimVolume } from '../pods/mounts.ts'
import { createClaims } from './claims.ts'
import { createDeferred } from './deferred.ts'
import { type GrowthOptions, isMore } from './growth.ts'
import { createProvisioner } from './provision.ts'
import { createReclaim } from './reclaim.ts'
import { createSnapshots } from './snapshots.ts'
import type { VolumeUse } from './use.ts'

type StorageOptions = {
  cluster: Cluster
  layout: Layout
  use: VolumeUse
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  growth: GrowthOptions
  /** A volume that pods of this namespace may wait for has changed; undefined: of any. */
  onChange(namespace: string | undefined): void
  logger: Logger
  now: () => number
}

export type Storage = {
  find(namespace: string, name: string): ClaimVolume
  /** As find, for a pod that is to mount it: a volume that is the image of a snapshot is given to no pod. */
  findForPod(namespace: string, name: string): ClaimVolume
  /** Reads what there is; claims of an earlier release get their volumes before anything else looks at them. */
  start(): Promise<void>
  /** Looks again at what waits for something, in a namespace or everywhere. */
  lookAgain(namespace: string | undefined): void
  stop(): Promise<void>
}

const snapshotWorkers = 4
const claimWorkers = 8
/** Volumes by the claim that they name, and claims by the volume. */
const claimIndex = 'claim'
const volumeIndex = 'volume'

const claimsOfVolume = ({ spec }: PersistentVolume): string[] =>
  spec?.claimRef?.name === undefined ? [] : [keyText({ namespace: spec.claimRef.namespace, name: spec.claimRef.name })]

/** Objects of the one-machine store are shared with it: a copy without managedFields would cost more than it saves. */
const whole = <T>(object: T): T => object

export function createStorage(options: StorageOptions): Storage {
  const { cluster, layout, use, now, logger, onChange } = options
  const claimObjects = createInformer(cluster, 'PersistentVolumeClaim', {
    logger,
    transform: whole,
    indexes: { [volumeIndex]: ({ spec }) => (spec?.volumeName === undefined ? [] : [spec.volumeName]) },
  })
  const volumeObjects = createInformer(cluster, 'PersistentVolume', {
    logger,
    transform: whole,
    indexes: { [claimIndex]: claimsOfVolume },
  })
  const snapshotObjects = createInformer(cluster, 'VolumeSnapshot', { logger, transform: whole })
  const informers = [claimObjects, volumeObjects, snapshotObjects]
  /** The controllers, once they run. */
  let running: ReturnType<typeof run> | undefined

  const deferred = createDeferred({ layout, use, onChange: () => onChange(undefined), logger })
  const shared = { cluster, layout, use, record: options.record, logger, now }
  const claims = createClaims({
    ...{ ...shared, claims: claimObjects, volumes: volumeObjects, growth: options.growth },
    provision: createProvisioner({
      ...{ snapshots: snapshotObjects, layout, use, logger, now },
      findClaim: (namespace, name) => claims.find(namespace, name),
      markBecome: (snapshot, claim) => snapshots.markBecome(snapshot, claim),
      onBecome: key => running?.snapshots.enqueue(key),
    }),
    onProvisioned: ({ namespace }) => onChange(namespace),
    again: key => running?.claims.enqueue(key),
  })
  const reclaim = createReclaim({ ...shared, deferred, volumes: volumeObjects })
  const snapshots = createSnapshots({ ...shared, deferred, snapshots: snapshotObjects, findClaim: claims.find })

  function run() {
    const control = controlWith(logger)
    return {
      claims: control('claims', claimWorkers, claimObjects, isClaimSettled, claims.reconcile),
      volumes: control('volumes', claimWorkers, volumeObjects, isVolumeSettled, reclaim.reconcile),
      snapshots: control('snapshots', snapshotWorkers, snapshotObjects, isSnapshotSettled, snapshots.reconcile),
    }
  }

  function lookAgain(namespace: string | undefined): void {
    running?.claims.enqueueUnsettled(namespace)
    running?.snapshots.enqueueUnsettled(namespace)
    if (namespace === undefined) running?.volumes.enqueueUnsettled(undefined)
  }

  function noticeClaim({ metadata }: PersistentVolumeClaim): void {
    onChange(metadata.namespace)
    lookAgain(metadata.namespace)
    for (const volume of volumeObjects.byIndex(claimIndex, keyText(metadata))) running?.volumes.enqueue(volume.metadata)
  }

  function noticeVolume(volume: PersistentVolume): void {
    for (const { metadata } of claimObjects.byIndex(volumeIndex, volume.metadata.name))
      running?.claims.enqueue(metadata)
    for (const claim of claimsOfVolume(volume)) running?.claims.enqueue(parseKey(claim))
    running?.claims.enqueueUnsettled(undefined)
    onChange(volume.spec?.claimRef?.namespace)
  }

  function findForPod(namespace: string, name: string): ClaimVolume {
    const found = claims.find(namespace, name)
    if (!found.bound || !deferred.isImage(found)) return found
    return { bound: false, message: `persistentvolumeclaim "${name}" waits until a snapshot of it has been copied` }
  }

  return {
    find: claims.find,
    findForPod,
    async start() {
      await Promise.all(informers.map(informer => informer.start()))
      await claims.adopt()
      running = run()
      claimObjects.onChange(({ object }) => noticeClaim(object))
      volumeObjects.onChange(({ object }) => noticeVolume(object))
      snapshotObjects.onChange(({ object }) => lookAgain(object.metadata.namespace))
    },
    lookAgain,
    async stop() {
      await running?.snapshots.stop()
      await running?.claims.stop()
      await running?.volumes.stop()
      await Promise.all(informers.map(informer => informer.stop()))
    },
  }
}

const isClaimSettled = ({ metadata, spec, status }: PersistentVolumeClaim): boolean =>
  metadata.deletionTimestamp === undefined &&
  status?.phase === 'Bound' &&
  !isMore(spec?.resources?.requests?.storage, status.capacity?.storage)
const isVolumeSettled = ({ metadata, status }: PersistentVolume): boolean =>
  metadata.deletionTimestamp === undefined && (status?.phase === 'Bound' || status?.phase === 'Available')
const isSnapshotSettled = ({ metadata, status }: VolumeSnapshot): boolean =>
  metadata.deletionTimestamp === undefined && status?.readyToUse === true

/** A controller of one kind; those of its objects that wait for something can be looked at again. */
const controlWith =
  (logger: Logger) =>
  <K extends 'PersistentVolumeClaim' | 'PersistentVolume' | 'VolumeSnapshot'>(
    name: string,
    workers: number,
    informer: Informer<K>,
    isSettled: (object: Kinds[K]) => boolean,
    reconcile: (key: ObjectKey) => Promise<ReconcileResult>,
  ) => {
    const keys = () => informer.list().map(object => keyText(object.metadata))
    const controller = startController({ name, workers, reconcile: text => reconcile(parseKey(text)), keys, logger })
    informer.onChange(({ object }) => controller.enqueue(keyText(object.metadata)))
    return {
      enqueue: (key: ObjectKey) => controller.enqueue(keyText(key)),
      enqueueUnsettled(namespace: string | undefined) {
        for (const object of informer.list({ namespace })) {
          if (!isSettled(object)) controller.enqueue(keyText(object.metadata))
        }
      },
      stop: () => controller.stop(),
    }
  }
