/**
 * PersistentVolumeClaims as directories: bound at once, filled from a snapshot or another claim where they say so,
 * removed when they are deleted and no pod uses them any more. A claim that was bound and finds its directory gone is
 * `Lost`; it is never given an empty one again.
 */
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { rm, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { AnyObject, Cluster, ObjectKey, PersistentVolumeClaim, VolumeSnapshot } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import type { ReconcileResult } from '../../../operator/runtime/index.ts'
import { type Layout, makeOwned, makePassage } from '../directories.ts'
import { errorCode, messageOf } from '../errors.ts'
import type { ClaimVolume } from '../pods/mounts.ts'
import { timestamp } from '../pods/view.ts'
import { copyTree } from './copier.ts'
import { takeImage } from './image.ts'
import type { VolumeUse } from './use.ts'

const claimFinalizer = 'kubernetes.io/pvc-protection'
/** With less than this a disk counts as full: a database could not even start on it. */
const leastFreeBytes = 64 * 1024 * 1024
const retryMs = 10_000

export type ClaimsOptions = {
  cluster: Cluster
  claims: Informer<'PersistentVolumeClaim'>
  snapshots: Informer<'VolumeSnapshot'>
  /** Whether a pod that has not ended names the claim. */
  isReferenced(key: ObjectKey): boolean
  /** Called when a claim has its directory, before its status says so. */
  onProvisioned(key: ObjectKey): void
  layout: Layout
  use: VolumeUse
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  now: () => number
}

export type Claims = {
  find(namespace: string, name: string): ClaimVolume
  reconcile(key: ObjectKey): Promise<ReconcileResult>
}

/** Why a claim cannot be filled yet; it is looked at again when its source changes. */
class SourceNotReady extends Error {}

export function createClaims(options: ClaimsOptions): Claims {
  const { cluster, claims, snapshots, layout, use, record, now } = options
  const directoryOf = ({ metadata: { namespace = '', uid = '' } }: PersistentVolumeClaim): string =>
    layout.volume(namespace, uid)

  async function protect(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    const { finalizers = [], uid } = claim.metadata
    if (finalizers.includes(claimFinalizer) && claim.spec?.volumeName !== undefined) return claim
    const metadata = { ...claim.metadata, finalizers: [...new Set([...finalizers, claimFinalizer])] }
    const spec = { ...claim.spec, volumeName: claim.spec?.volumeName ?? `pvc-${uid}` }
    const written = await cluster.replace('PersistentVolumeClaim', { ...claim, metadata, spec })
    claims.remember(written)
    return written
  }

  async function writeStatus(claim: PersistentVolumeClaim, status: PersistentVolumeClaim['status']): Promise<void> {
    if (isDeepStrictEqual(claim.status, status)) return
    claims.remember(await cluster.replaceStatus('PersistentVolumeClaim', { ...claim, ...(status && { status }) }))
  }

  const boundStatus = ({ spec }: PersistentVolumeClaim): PersistentVolumeClaim['status'] => ({
    phase: 'Bound',
    ...(spec?.accessModes && { accessModes: spec.accessModes }),
    capacity: { storage: spec?.resources?.requests?.storage ?? '0' },
  })

  async function fail(claim: PersistentVolumeClaim, error: unknown): Promise<ReconcileResult> {
    const message = errorCode(error) === 'ENOSPC' ? 'the disk is full' : messageOf(error)
    const reason = error instanceof SourceNotReady ? 'WaitForSource' : 'ProvisioningFailed'
    record(claim, 'Warning', reason, message)
    const before = claim.status?.conditions?.find(({ type }) => type === 'Provisioned')
    const unchanged = before?.message === message && before.reason === reason
    const lastTransitionTime = unchanged ? before.lastTransitionTime : timestamp(now())
    const condition = {
      type: 'Provisioned',
      status: 'False',
      reason,
      message,
      ...(lastTransitionTime && { lastTransitionTime }),
    }
    await writeStatus(claim, { phase: 'Pending', conditions: [condition] })
    return { requeueAfterMs: retryMs }
  }

  /** Makes the directory, whole or not at all: what is copied stands in the staging area until then. */
  async function provision(claim: PersistentVolumeClaim): Promise<void> {
    const { namespace = '', uid = '' } = claim.metadata
    const directory = directoryOf(claim)
    if (existsSync(directory)) return
    const { bavail, bsize } = await statfs(layout.root)
    if (bavail * bsize < leastFreeBytes) throw Object.assign(new Error('the disk is full'), { code: 'ENOSPC' })
    const staging = join(layout.staging, uid)
    await rm(staging, { recursive: true, force: true })
    try {
      await fill(claim, staging)
      makeOwned(layout, staging)
      makePassage(layout, join(layout.volumes, namespace))
      renameSync(staging, directory)
    } catch (error) {
      await rm(staging, { recursive: true, force: true })
      throw error
    }
  }

  async function fill(claim: PersistentVolumeClaim, target: string): Promise<void> {
    const { namespace = '' } = claim.metadata
    const source = claim.spec?.dataSource ?? claim.spec?.dataSourceRef
    if (source === undefined) mkdirSync(target, { mode: 0o700 })
    else if (source.kind === 'VolumeSnapshot')
      await fillFromSnapshot(snapshots.get({ namespace, name: source.name }), target)
    else if (source.kind === 'PersistentVolumeClaim') await fillFromClaim(namespace, source.name, target)
    else throw new Error(`a data source must be a VolumeSnapshot or a PersistentVolumeClaim, not a ${source.kind}`)
  }

  async function fillFromSnapshot(snapshot: VolumeSnapshot | undefined, target: string): Promise<void> {
    const { namespace = '', uid = '' } = snapshot?.metadata ?? {}
    if (snapshot?.status?.readyToUse !== true || snapshot.metadata.deletionTimestamp !== undefined) {
      throw new SourceNotReady('the snapshot that it is to be filled from is not there or not ready')
    }
    const done = use.read(uid)
    try {
      await copyTree({ source: layout.snapshot(namespace, uid), target })
    } finally {
      done()
    }
  }

  async function fillFromClaim(namespace: string, name: string, target: string): Promise<void> {
    const source = find(namespace, name)
    if (!source.bound) throw new SourceNotReady(source.message)
    const done = use.read(source.volume)
    try {
      await takeImage({ volume: source.volume, source: source.directory, target, use, now })
    } finally {
      done()
    }
  }

  async function remove(claim: PersistentVolumeClaim, key: ObjectKey): Promise<ReconcileResult> {
    const { finalizers = [], uid = '', resourceVersion = '' } = claim.metadata
    if (!finalizers.includes(claimFinalizer)) return undefined
    if (use.isHeld(uid) || options.isReferenced(key)) return undefined // looked at again when that ends
    const removed = join(layout.staging, `removed-${uid}-${resourceVersion}`)
    if (existsSync(directoryOf(claim))) renameSync(directoryOf(claim), removed)
    await rm(removed, { recursive: true, force: true })
    const metadata = { ...claim.metadata, finalizers: finalizers.filter(name => name !== claimFinalizer) }
    await cluster.replace('PersistentVolumeClaim', { ...claim, metadata })
    return undefined
  }

  function find(namespace: string, name: string): ClaimVolume {
    const claim = claims.get({ namespace, name })
    const refuse = (why: string): ClaimVolume => ({ bound: false, message: `persistentvolumeclaim "${name}" ${why}` })
    if (claim === undefined) return refuse('not found')
    if (claim.metadata.deletionTimestamp !== undefined) return refuse('is being deleted')
    if (claim.status?.phase === 'Lost') return refuse('has lost its volume')
    const directory = directoryOf(claim)
    // One that stands is whole, so a pod need not wait until the claim's status says so.
    if (!existsSync(directory)) return refuse(claim.status?.phase === 'Bound' ? 'has lost its volume' : 'is not bound')
    const alone = claim.spec?.accessModes?.includes('ReadWriteOncePod') === true
    return { bound: true, volume: claim.metadata.uid ?? '', directory, alone }
  }

  return {
    find,
    async reconcile(key) {
      const found = claims.get(key)
      if (found === undefined) return undefined
      if (found.metadata.deletionTimestamp !== undefined) return remove(found, key)
      const claim = await protect(found)
      const phase = claim.status?.phase
      if (phase === 'Bound' || phase === 'Lost') {
        const isThere = existsSync(directoryOf(claim))
        if (!isThere)
          record(
            claim,
            'Warning',
            'ClaimLost',
            `the directory ${dirname(directoryOf(claim))} no longer holds its volume`,
          )
        await writeStatus(claim, isThere ? boundStatus(claim) : { ...claim.status, phase: 'Lost' })
        return undefined
      }
      try {
        await provision(claim)
      } catch (error) {
        return fail(claim, error)
      }
      options.onProvisioned(key)
      await writeStatus(claim, boundStatus(claim))
      return undefined
    },
  }
}
