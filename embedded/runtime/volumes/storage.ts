/** Runs claims, volumes and snapshots together. A change of one object wakes the objects that wait for it. */
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
  /** Called when a volume has changed that pods of this namespace may wait for. Undefined: pods of any namespace. */
  onChange(namespace: string | undefined): void
  logger: Logger
  now: () => number
}

export type Storage = {
  find(namespace: string, name: string): ClaimVolume
  /** Like find, for a pod that mounts the volume. A volume that is the image of a snapshot is not available. */
  findForPod(namespace: string, name: string): ClaimVolume
  /** Reads existing objects. Before other code reads claims of an earlier release, these claims get their volumes. */
  start(): Promise<void>
  /** Retries waiting objects, in one namespace or in all. */
  retryWaiting(namespace: string | undefined): void
  stop(): Promise<void>
}

const snapshotWorkers = 4
const claimWorkers = 8
/** The index of volumes by the claim that they name, and of claims by their volume. */
const claimIndex = 'claim'
const volumeIndex = 'volume'

const claimsOfVolume = ({ spec }: PersistentVolume): string[] =>
  spec?.claimRef?.name === undefined ? [] : [keyText({ namespace: spec.claimRef.namespace, name: spec.claimRef.name })]

/**
 * The cache shares its objects with the embedded store. Copies without managedFields would cost more than they save.
 */
const identity = <T>(object: T): T => object

export function createStorage(options: StorageOptions): Storage {
  const { cluster, layout, use, now, logger, onChange } = options
  const claimObjects = createInformer(cluster, 'PersistentVolumeClaim', {
    logger,
    transform: identity,
    indexes: { [volumeIndex]: ({ spec }) => (spec?.volumeName === undefined ? [] : [spec.volumeName]) },
  })
  const volumeObjects = createInformer(cluster, 'PersistentVolume', {
    logger,
    transform: identity,
    indexes: { [claimIndex]: claimsOfVolume },
  })
  const snapshotObjects = createInformer(cluster, 'VolumeSnapshot', { logger, transform: identity })
  const informers = [claimObjects, volumeObjects, snapshotObjects]
  /** The controllers; undefined until they are started. */
  let running: ReturnType<typeof run> | undefined

  const deferred = createDeferred({ layout, use, onChange: () => onChange(undefined), logger })
  const shared = { cluster, layout, use, record: options.record, logger, now }
  const claims = createClaims({
    ...{ ...shared, claims: claimObjects, volumes: volumeObjects, growth: options.growth },
    provision: createProvisioner({
      ...{ snapshots: snapshotObjects, layout, use, logger, now },
      findClaim: (namespace, name) => claims.find(namespace, name),
      recordBecameVolume: (snapshot, claim) => snapshots.recordBecameVolume(snapshot, claim),
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
      claims: control('claims', claimWorkers, claimObjects, isClaimReconciled, claims.reconcile),
      volumes: control('volumes', claimWorkers, volumeObjects, isVolumeReconciled, reclaim.reconcile),
      snapshots: control('snapshots', snapshotWorkers, snapshotObjects, isSnapshotReconciled, snapshots.reconcile),
    }
  }

  function retryWaiting(namespace: string | undefined): void {
    running?.claims.enqueueUnsettled(namespace)
    running?.snapshots.enqueueUnsettled(namespace)
    if (namespace === undefined) running?.volumes.enqueueUnsettled(undefined)
  }

  function noticeClaim({ metadata }: PersistentVolumeClaim): void {
    onChange(metadata.namespace)
    retryWaiting(metadata.namespace)
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
    return {
      bound: false,
      message: `persistentvolumeclaim "${name}" is not available until its snapshot has been copied`,
    }
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
      snapshotObjects.onChange(({ object }) => retryWaiting(object.metadata.namespace))
    },
    retryWaiting,
    async stop() {
      await running?.snapshots.stop()
      await running?.claims.stop()
      await running?.volumes.stop()
      await Promise.all(informers.map(informer => informer.stop()))
    },
  }
}

const isClaimReconciled = ({ metadata, spec, status }: PersistentVolumeClaim): boolean =>
  metadata.deletionTimestamp === undefined &&
  status?.phase === 'Bound' &&
  !isMore(spec?.resources?.requests?.storage, status.capacity?.storage)
const isVolumeReconciled = ({ metadata, status }: PersistentVolume): boolean =>
  metadata.deletionTimestamp === undefined && (status?.phase === 'Bound' || status?.phase === 'Available')
const isSnapshotReconciled = ({ metadata, status }: VolumeSnapshot): boolean =>
  metadata.deletionTimestamp === undefined && status?.readyToUse === true

/** A controller of one kind whose waiting objects can be retried. */
const controlWith =
  (logger: Logger) =>
  <K extends 'PersistentVolumeClaim' | 'PersistentVolume' | 'VolumeSnapshot'>(
    name: string,
    workers: number,
    informer: Informer<K>,
    isReconciled: (object: Kinds[K]) => boolean,
    reconcile: (key: ObjectKey) => Promise<ReconcileResult>,
  ) => {
    const keys = () => informer.list().map(object => keyText(object.metadata))
    const controller = startController({ name, workers, reconcile: text => reconcile(parseKey(text)), keys, logger })
    informer.onChange(({ object }) => controller.enqueue(keyText(object.metadata)))
    return {
      enqueue: (key: ObjectKey) => controller.enqueue(keyText(key)),
      enqueueUnsettled(namespace: string | undefined) {
        for (const object of informer.list({ namespace })) {
          if (!isReconciled(object)) controller.enqueue(keyText(object.metadata))
        }
      },
      stop: () => controller.stop(),
    }
  }
