/**
 * Decides whether a volume is available, bound or released, and reclaims released volumes. It removes a volume's
 * directory only if the volume's policy is `Delete`, its claim is certainly deleted, nothing uses the volume, and no
 * other volume names the directory. It never touches a directory without a volume.
 */
import { existsSync, renameSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type AnyObject,
  type Cluster,
  isClusterError,
  type ObjectKey,
  type PersistentVolume,
} from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import type { ReconcileResult } from '../../../controller/index.ts'
import type { Layout } from '../directories.ts'
import type { Deferred } from './deferred.ts'
import { handleOf, reclaimFinalizer, recordFile, unfinishedRecord } from './persistent-volume.ts'
import type { VolumeUse } from './use.ts'

type ReclaimOptions = {
  cluster: Cluster
  volumes: Informer<'PersistentVolume'>
  layout: Layout
  use: VolumeUse
  deferred: Deferred
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
}

type Reclaim = { reconcile(key: ObjectKey): Promise<ReconcileResult> }

type Phase = 'Available' | 'Bound' | 'Released'

export function createReclaim({ cluster, volumes, layout, use, deferred, record }: ReclaimOptions): Reclaim {
  /** The new phase, derived from the claim as in Kubernetes; undefined if unchanged. */
  async function phaseOf({ metadata, spec, status }: PersistentVolume): Promise<Phase | undefined> {
    const { claimRef } = spec ?? {}
    if (!claimRef?.uid) return 'Available'
    const claim = await cluster.get('PersistentVolumeClaim', {
      namespace: claimRef.namespace,
      name: claimRef.name ?? '',
    })
    if (claim === undefined || claim.metadata.uid !== claimRef.uid) return 'Released'
    // The claim does not name this volume yet, or is bound to another volume. The phase of this volume stays.
    return claim.spec?.volumeName === metadata.name ? 'Bound' : (status?.phase as Phase | undefined)
  }

  async function writePhase(volume: PersistentVolume, phase: Phase): Promise<PersistentVolume> {
    if (volume.status?.phase === phase) return volume
    const { message: _message, reason: _reason, ...status } = volume.status ?? {}
    const written = await cluster.replaceStatus('PersistentVolume', { ...volume, status: { ...status, phase } })
    volumes.writeThrough(written)
    return written
  }

  /** Removes the finalizer of a volume that is being deleted. */
  async function removeFinalizer({ metadata, ...volume }: PersistentVolume): Promise<void> {
    const { finalizers = [] } = metadata
    if (!finalizers.includes(reclaimFinalizer)) return
    const remaining = finalizers.filter(each => each !== reclaimFinalizer)
    try {
      await cluster.replace('PersistentVolume', { ...volume, metadata: { ...metadata, finalizers: remaining } })
    } catch (error) {
      if (!isClusterError(error, 'NotFound')) throw error
    }
  }

  async function reclaim(volume: PersistentVolume): Promise<void> {
    const { uid, resourceVersion, name, deletionTimestamp } = volume.metadata
    const handle = handleOf(volume)
    if (handle === undefined || volume.spec?.persistentVolumeReclaimPolicy !== 'Delete') {
      return deletionTimestamp === undefined ? undefined : removeFinalizer(volume)
    }
    const { finalizers = [] } = volume.metadata
    if (deletionTimestamp === undefined && !finalizers.includes(reclaimFinalizer)) {
      // Without the finalizer, the object could be deleted before the directory. This change enqueues the volume again.
      const metadata = { ...volume.metadata, finalizers: [...finalizers, reclaimFinalizer] }
      return volumes.writeThrough(await cluster.replace('PersistentVolume', { ...volume, metadata }))
    }
    // Deletes exactly the version that was checked, so that a concurrent change to Retain is not missed.
    if (deletionTimestamp === undefined) return cluster.delete('PersistentVolume', { name }, { uid, resourceVersion })
    if (use.isInUse(handle)) return undefined // retried when the use ends
    if (await removeDirectory(volume, handle)) await removeFinalizer(volume)
  }

  /**
   * @returns whether the directory is deleted or belongs to another volume. If a copy still reads it, the end of the
   * copy causes a retry
   */
  async function removeDirectory(volume: PersistentVolume, handle: string): Promise<boolean> {
    const { name, resourceVersion = '', uid } = volume.metadata
    const stored = await cluster.get('PersistentVolume', { name })
    // No other code runs before the rename, so the decision uses the cluster's current state.
    if (stored?.metadata.uid !== uid || stored?.metadata.resourceVersion !== resourceVersion) return false
    const another = volumes.list().find(other => other.metadata.name !== name && handleOf(other) === handle)
    if (another !== undefined) {
      record(volume, 'Warning', 'VolumeKept', `volume "${another.metadata.name}" names the same directory, which stays`)
      return true
    }
    const directory = layout.volume(handle)
    const taken = deferred.take(directory)
    if (taken === 'busy') return false
    const removed = join(layout.stagingOf(directory), `removed-${uid}-${resourceVersion}`)
    if (existsSync(directory)) renameSync(directory, removed)
    for (const file of [recordFile(directory), unfinishedRecord(directory)]) await rm(file, { force: true })
    await rm(removed, { recursive: true, force: true })
    return true
  }

  return {
    async reconcile(key) {
      const found = volumes.get(key)
      if (found === undefined) return undefined
      const phase = await phaseOf(found)
      const volume = phase === undefined ? found : await writePhase(found, phase)
      if (phase === 'Released') await reclaim(volume)
      else if (phase === 'Available' && volume.metadata.deletionTimestamp !== undefined) await removeFinalizer(volume)
      return undefined
    },
  }
}
