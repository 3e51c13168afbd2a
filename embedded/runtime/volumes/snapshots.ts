/** Reconciles VolumeSnapshots. Each one is a crash-consistent image of a claim's volume, in a separate directory. */
import { existsSync, renameSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import type { AnyObject, Cluster, ObjectKey, VolumeSnapshot } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import type { ReconcileResult } from '../../../controller/index.ts'
import { annotations } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import type { Layout } from '../directories.ts'
import { errorCode, messageOf } from '../errors.ts'
import type { ClaimVolume } from '../pods/mounts.ts'
import { type Deferred, treeBytes } from './deferred.ts'
import { type ImageResult, takeImage } from './image.ts'
import type { VolumeUse } from './use.ts'
import { writeToDisk } from './write-to-disk.ts'

const snapshotFinalizer = 'snapshot.storage.kubernetes.io/volumesnapshot-bound-protection'
const retryMs = 5_000

type SnapshotsOptions = {
  cluster: Cluster
  snapshots: Informer<'VolumeSnapshot'>
  findClaim(namespace: string, name: string): ClaimVolume
  layout: Layout
  use: VolumeUse
  deferred: Deferred
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  logger: Logger
  now: () => number
}

type Snapshots = {
  reconcile(key: ObjectKey): Promise<ReconcileResult>
  /** Records the claim whose volume the snapshot's image is about to become. */
  recordBecameVolume(snapshot: VolumeSnapshot, claim: string): Promise<void>
}

export function createSnapshots(options: SnapshotsOptions): Snapshots {
  const controller = new SnapshotController(options)
  return {
    reconcile: key => controller.reconcile(key),
    recordBecameVolume: (snapshot, claim) => controller.recordBecameVolume(snapshot, claim),
  }
}

class SnapshotController implements Snapshots {
  readonly #options: SnapshotsOptions

  constructor(options: SnapshotsOptions) {
    this.#options = options
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const found = this.#options.snapshots.get(key)
    if (found === undefined) return undefined
    if (found.metadata.deletionTimestamp !== undefined) return this.#remove(found)
    const snapshot = await this.#protect(found)
    const claimName = snapshot.metadata.annotations?.[annotations.becameVolume]
    const hasImage = existsSync(this.#directoryOf(snapshot))
    if (claimName !== undefined && !hasImage) {
      await this.#reportBecame(snapshot, claimName)
      return undefined
    }
    if (snapshot.status?.readyToUse !== true) return this.#takeImage(snapshot, key)
    return hasImage ? undefined : this.#fail(snapshot, 'the image of this snapshot is missing')
  }

  async recordBecameVolume({ metadata }: VolumeSnapshot, claim: string): Promise<void> {
    const { cluster, snapshots } = this.#options
    const found = await cluster.get('VolumeSnapshot', metadata)
    if (found === undefined || found.metadata.uid !== metadata.uid) throw new Error('the snapshot was deleted')
    const changed = { ...found.metadata.annotations, [annotations.becameVolume]: claim }
    const annotated = { ...found, metadata: { ...found.metadata, annotations: changed } }
    snapshots.writeThrough(await cluster.replace('VolumeSnapshot', annotated))
  }

  async #takeImage(snapshot: VolumeSnapshot, key: ObjectKey): Promise<ReconcileResult> {
    const { findClaim, logger } = this.#options
    const claim = findClaim(key.namespace ?? '', snapshot.spec.source.persistentVolumeClaimName)
    if (!claim.bound) return this.#fail(snapshot, claim.message)
    let image: ImageResult
    try {
      image = await this.#writeImage(snapshot, claim.volume, claim.directory)
    } catch (error) {
      return this.#fail(snapshot, errorCode(error) === 'ENOSPC' ? 'the disk is full' : messageOf(error))
    }
    logger.info({ snapshot: key, ...image }, 'took a snapshot')
    await this.#writeStatus(snapshot, {
      boundVolumeSnapshotContentName: `snapcontent-${snapshot.metadata.uid}`,
      creationTime: timestamp(image.takenAt),
      readyToUse: true,
      restoreSize: String(image.bytes),
    })
    return undefined
  }

  /** Copies the volume to the snapshot's directory and flushes the copy. */
  async #writeImage(snapshot: VolumeSnapshot, volume: string, source: string): Promise<ImageResult> {
    const { layout, use, deferred, logger, now } = this.#options
    const { namespace = '', uid = '' } = snapshot.metadata
    await this.#removeImage(snapshot)
    const target = this.#directoryOf(snapshot)
    const staging = join(layout.stagingOf(target), uid)
    await rm(staging, { recursive: true, force: true })
    const done = use.read(volume)
    try {
      const isAtRest = snapshot.metadata.annotations?.[annotations.volumeAtRest] === 'true'
      if (isAtRest && deferred.defer({ namespace, uid }, { volume, directory: source })) {
        await writeToDisk(source, logger)
        return { takenAt: now(), bytes: treeBytes(source), frozenMs: 0, processes: 0 }
      }
      const image = await takeImage({ volume, source, target: staging, use, now })
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      renameSync(staging, target)
      await writeToDisk(target, logger)
      return image
    } finally {
      done()
    }
  }

  async #remove(snapshot: VolumeSnapshot): Promise<ReconcileResult> {
    const { finalizers = [], uid = '' } = snapshot.metadata
    if (!finalizers.includes(snapshotFinalizer) || this.#options.use.isInUse(uid)) return undefined
    await this.#removeImage(snapshot)
    const metadata = { ...snapshot.metadata, finalizers: finalizers.filter(name => name !== snapshotFinalizer) }
    await this.#options.cluster.replace('VolumeSnapshot', { ...snapshot, metadata })
    return undefined
  }

  async #removeImage({ metadata: { namespace = '', uid = '' } }: VolumeSnapshot): Promise<void> {
    const paths = this.#options.layout.snapshotPaths(namespace, uid)
    for (const path of paths) await rm(path, { recursive: true, force: true })
  }

  async #protect(snapshot: VolumeSnapshot): Promise<VolumeSnapshot> {
    const { cluster, snapshots } = this.#options
    const { finalizers = [] } = snapshot.metadata
    if (finalizers.includes(snapshotFinalizer)) return snapshot
    const metadata = { ...snapshot.metadata, finalizers: [...finalizers, snapshotFinalizer] }
    const written = await cluster.replace('VolumeSnapshot', { ...snapshot, metadata })
    snapshots.writeThrough(written)
    return written
  }

  async #fail(snapshot: VolumeSnapshot, message: string): Promise<ReconcileResult> {
    const { record, now } = this.#options
    record(snapshot, 'Warning', 'SnapshotFailed', message)
    if (snapshot.status?.error?.message !== message) {
      await this.#writeStatus(snapshot, { readyToUse: false, error: { time: timestamp(now()), message } })
    }
    return { requeueAfterMs: retryMs }
  }

  /**
   * Marks a snapshot as no longer usable, because its image has become the volume of a claim. No new image is taken.
   */
  async #reportBecame(snapshot: VolumeSnapshot, claim: string): Promise<void> {
    const { record, now } = this.#options
    if (snapshot.status?.readyToUse !== true) return
    const message = `the image has become the volume of the claim ${claim}`
    record(snapshot, 'Normal', 'BecameVolume', message)
    const error = { time: timestamp(now()), message }
    await this.#writeStatus(snapshot, { ...snapshot.status, readyToUse: false, error })
  }

  async #writeStatus(snapshot: VolumeSnapshot, status: NonNullable<VolumeSnapshot['status']>): Promise<void> {
    const { cluster, snapshots } = this.#options
    snapshots.writeThrough(await cluster.replaceStatus('VolumeSnapshot', { ...snapshot, status }))
  }

  #directoryOf({ metadata: { namespace = '', uid = '' } }: VolumeSnapshot): string {
    return this.#options.layout.snapshot(namespace, uid)
  }
}
