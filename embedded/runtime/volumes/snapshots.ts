/** VolumeSnapshots: the crash-consistent image of a claim's volume in a directory of its own, kept until it is deleted. */
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
  /** Writes which claim's volume the image is about to become. */
  markBecome(snapshot: VolumeSnapshot, claim: string): Promise<void>
}

export function createSnapshots(options: SnapshotsOptions): Snapshots {
  const { cluster, snapshots, layout, use, deferred, record, logger, now } = options
  const directoryOf = ({ metadata: { namespace = '', uid = '' } }: VolumeSnapshot): string =>
    layout.snapshot(namespace, uid)

  async function protect(snapshot: VolumeSnapshot): Promise<VolumeSnapshot> {
    const { finalizers = [] } = snapshot.metadata
    if (finalizers.includes(snapshotFinalizer)) return snapshot
    const metadata = { ...snapshot.metadata, finalizers: [...finalizers, snapshotFinalizer] }
    const written = await cluster.replace('VolumeSnapshot', { ...snapshot, metadata })
    snapshots.writeThrough(written)
    return written
  }

  async function writeStatus(snapshot: VolumeSnapshot, status: NonNullable<VolumeSnapshot['status']>): Promise<void> {
    snapshots.writeThrough(await cluster.replaceStatus('VolumeSnapshot', { ...snapshot, status }))
  }

  async function fail(snapshot: VolumeSnapshot, message: string): Promise<ReconcileResult> {
    record(snapshot, 'Warning', 'SnapshotFailed', message)
    if (snapshot.status?.error?.message !== message) {
      await writeStatus(snapshot, { readyToUse: false, error: { time: timestamp(now()), message } })
    }
    return { requeueAfterMs: retryMs }
  }

  /** Its image is the volume of a claim now: it is none any more, and no other is made in its place. */
  async function saysItBecame(snapshot: VolumeSnapshot, claim: string): Promise<void> {
    if (snapshot.status?.readyToUse !== true) return
    const message = `the image has become the volume of the claim ${claim}`
    record(snapshot, 'Normal', 'BecameVolume', message)
    await writeStatus(snapshot, { ...snapshot.status, readyToUse: false, error: { time: timestamp(now()), message } })
  }

  /** Takes the image and makes it last. */
  async function take(snapshot: VolumeSnapshot, volume: string, source: string): Promise<ImageResult> {
    const { namespace = '', uid = '' } = snapshot.metadata
    await removeImage(snapshot)
    const target = directoryOf(snapshot)
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

  async function removeImage({ metadata: { namespace = '', uid = '' } }: VolumeSnapshot): Promise<void> {
    for (const path of layout.snapshotPaths(namespace, uid)) await rm(path, { recursive: true, force: true })
  }

  async function remove(snapshot: VolumeSnapshot): Promise<ReconcileResult> {
    const { finalizers = [], uid = '' } = snapshot.metadata
    if (!finalizers.includes(snapshotFinalizer) || use.isHeld(uid)) return undefined
    await removeImage(snapshot)
    const metadata = { ...snapshot.metadata, finalizers: finalizers.filter(name => name !== snapshotFinalizer) }
    await cluster.replace('VolumeSnapshot', { ...snapshot, metadata })
    return undefined
  }

  return {
    async markBecome({ metadata }, claim) {
      const found = await cluster.get('VolumeSnapshot', metadata)
      if (found === undefined || found.metadata.uid !== metadata.uid) throw new Error('the snapshot is gone')
      const marks = { ...found.metadata.annotations, [annotations.becameVolume]: claim }
      const written = await cluster.replace('VolumeSnapshot', {
        ...found,
        metadata: { ...found.metadata, annotations: marks },
      })
      snapshots.writeThrough(written)
    },
    async reconcile(key) {
      const found = snapshots.get(key)
      if (found === undefined) return undefined
      if (found.metadata.deletionTimestamp !== undefined) return remove(found)
      const snapshot = await protect(found)
      const claimName = snapshot.metadata.annotations?.[annotations.becameVolume]
      if (claimName !== undefined && !existsSync(directoryOf(snapshot))) {
        await saysItBecame(snapshot, claimName)
        return undefined
      }
      if (snapshot.status?.readyToUse === true) {
        return existsSync(directoryOf(snapshot)) ? undefined : fail(snapshot, 'the image of this snapshot is gone')
      }
      const claim = options.findClaim(key.namespace ?? '', snapshot.spec.source.persistentVolumeClaimName)
      if (!claim.bound) return fail(snapshot, claim.message)
      let image: ImageResult
      try {
        image = await take(snapshot, claim.volume, claim.directory)
      } catch (error) {
        return fail(snapshot, errorCode(error) === 'ENOSPC' ? 'the disk is full' : messageOf(error))
      }
      logger.info({ snapshot: key, ...image }, 'took a snapshot')
      await writeStatus(snapshot, {
        boundVolumeSnapshotContentName: `snapcontent-${snapshot.metadata.uid}`,
        creationTime: timestamp(image.takenAt),
        readyToUse: true,
        restoreSize: String(image.bytes),
      })
      return undefined
    },
  }
}
