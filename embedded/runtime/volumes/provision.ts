/**
 * Creates the directory of a claim, completely or not at all. The directory is empty, or filled from a snapshot or
 * another claim. Copies are made in the staging area. A snapshot that only this claim uses becomes its directory.
 */
import { existsSync, lstatSync, mkdirSync, renameSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import type { ObjectKey, PersistentVolumeClaim, VolumeSnapshot } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { annotations } from '../../../crds/index.ts'
import { type Layout, makeOwned, makePassage } from '../directories.ts'
import type { ClaimVolume } from '../pods/mounts.ts'
import { copyTree } from './copier.ts'
import { requireFreeSpace } from './free-space.ts'
import { takeImage } from './image.ts'
import { newHandle } from './persistent-volume.ts'
import type { VolumeUse } from './use.ts'
import { flushDirectory, writeToDisk } from './write-to-disk.ts'

/** A claim cannot be filled yet. It is retried when its source changes. */
export class SourceNotReady extends Error {}

type ProvisionerOptions = {
  snapshots: Informer<'VolumeSnapshot'>
  findClaim(namespace: string, name: string): ClaimVolume
  layout: Layout
  use: VolumeUse
  logger: Logger
  now: () => number
  /** Records on a snapshot that its image is about to become the volume of this claim. */
  recordBecameVolume(snapshot: VolumeSnapshot, claim: string): Promise<void>
  /** Called when the image of a snapshot has become a volume. */
  onBecome(snapshot: ObjectKey): void
}

const isReady = ({ metadata, status }: VolumeSnapshot): boolean =>
  status?.readyToUse === true && metadata.deletionTimestamp === undefined

const sourceOf = ({ spec }: PersistentVolumeClaim) => spec?.dataSource ?? spec?.dataSourceRef

/** @returns a function that creates the directory of a claim, or finds an existing one */
export function createProvisioner(options: ProvisionerOptions): (claim: PersistentVolumeClaim) => Promise<void> {
  const { snapshots, findClaim, layout, use, logger, now } = options

  async function provision(claim: PersistentVolumeClaim): Promise<void> {
    const directory = layout.volume(newHandle(claim))
    if (existsSync(directory)) return
    if (await handOver(claim, directory)) return
    const [{ volumes, staging: area }] = layout.locations
    requireFreeSpace(volumes)
    const staging = join(area, claim.metadata.uid ?? '')
    await rm(staging, { recursive: true, force: true })
    try {
      await fill(claim, staging)
      makeOwned(layout, staging)
      makePassage(layout, dirname(directory))
      // A flush makes recovery faster, too: Postgres syncs every file, and clean files take a tenth of the time.
      if (sourceOf(claim) !== undefined) await writeToDisk(staging, logger)
      renameSync(staging, directory)
      flushDirectory(dirname(directory))
    } catch (error) {
      await rm(staging, { recursive: true, force: true })
      throw error
    }
  }

  /**
   * Makes the image of a snapshot into a volume without copying, if the snapshot is for one volume only. The snapshot
   * records this first. The rename is one step, so after a crash either the image or the volume exists.
   * @returns false if the image must be copied
   */
  async function handOver(claim: PersistentVolumeClaim, directory: string): Promise<boolean> {
    const { namespace = '', name: claimName } = claim.metadata
    const source = sourceOf(claim)
    if (source?.kind !== 'VolumeSnapshot') return false
    const snapshot = snapshots.get({ namespace, name: source.name })
    const { uid = '', annotations: recorded } = snapshot?.metadata ?? {}
    if (snapshot === undefined || recorded?.[annotations.singleUse] !== 'true' || !isReady(snapshot)) return false
    const image = layout.snapshot(namespace, uid)
    // A link points to a volume, which has another owner.
    if (use.isInUse(uid) || !existsSync(image) || !lstatSync(image).isDirectory()) return false
    if (layout.stagingOf(image) !== layout.stagingOf(directory)) return false
    if (recorded[annotations.becameVolume] !== claimName) await options.recordBecameVolume(snapshot, claimName)
    makeOwned(layout, image)
    makePassage(layout, dirname(directory))
    renameSync(image, directory)
    flushDirectory(dirname(directory))
    options.onBecome({ namespace, name: source.name })
    return true
  }

  async function fill(claim: PersistentVolumeClaim, target: string): Promise<void> {
    const { namespace = '' } = claim.metadata
    const source = sourceOf(claim)
    if (source === undefined) mkdirSync(target, { mode: 0o700 })
    else if (source.kind === 'VolumeSnapshot')
      await fillFromSnapshot(snapshots.get({ namespace, name: source.name }), target)
    else if (source.kind === 'PersistentVolumeClaim') await fillFromClaim(namespace, source.name, target)
    else throw new Error(`a data source must be a VolumeSnapshot or a PersistentVolumeClaim, not a ${source.kind}`)
  }

  async function fillFromSnapshot(snapshot: VolumeSnapshot | undefined, target: string): Promise<void> {
    const { namespace = '', uid = '' } = snapshot?.metadata ?? {}
    if (snapshot === undefined || !isReady(snapshot)) {
      throw new SourceNotReady('the snapshot in its data source is missing or not ready')
    }
    const done = use.read(uid)
    try {
      await copyTree({ source: layout.snapshot(namespace, uid), target })
    } finally {
      done()
    }
  }

  async function fillFromClaim(namespace: string, name: string, target: string): Promise<void> {
    const source = findClaim(namespace, name)
    if (!source.bound) throw new SourceNotReady(source.message)
    const done = use.read(source.volume)
    try {
      await takeImage({ volume: source.volume, source: source.directory, target, use, now })
    } finally {
      done()
    }
  }

  return provision
}
