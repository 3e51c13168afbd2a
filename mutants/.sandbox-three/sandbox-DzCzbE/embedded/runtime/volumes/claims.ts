/**
 * PersistentVolumeClaims: bound to the volume that they name or that names them, or to a new directory, filled from a
 * snapshot or another claim where they say so. A claim that was bound and finds its volume or its directory gone is
 * `Lost`; it is never given an empty one again.
 */
// @ts-nocheck

import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import {
  type AnyObject,
  type Cluster,
  isClusterError,
  type ObjectKey,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import type { ReconcileResult } from '../../../controller/index.ts'
import { timestamp } from '../../../values/time.ts'
import type { Layout } from '../directories.ts'
import { errorCode, messageOf } from '../errors.ts'
import type { ClaimVolume } from '../pods/mounts.ts'
import { decideBinding } from './binding.ts'
import { createGrowth, type GrowthOptions, growingStatus, isMore, settledStatus } from './growth.ts'
import { bindCompleted, claimReference, driver, handleOf, newHandle, volumeDraft } from './persistent-volume.ts'
import { SourceNotReady } from './provision.ts'

const claimFinalizer = 'kubernetes.io/pvc-protection'
const boundByController = 'pv.kubernetes.io/bound-by-controller'
const retryMs = 10_000

type ClaimsOptions = {
  cluster: Cluster
  claims: Informer<'PersistentVolumeClaim'>
  volumes: Informer<'PersistentVolume'>
  provision(claim: PersistentVolumeClaim): Promise<void>
  growth: GrowthOptions
  /** Called when a claim has its directory, before its status says so. */
  onProvisioned(key: ObjectKey): void
  /** Asks for another pass. */
  again(key: ObjectKey): void
  layout: Layout
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  logger: Logger
  now: () => number
}

type Claims = {
  find(namespace: string, name: string): ClaimVolume
  reconcile(key: ObjectKey): Promise<ReconcileResult>
  /** Makes a volume for every claim that was bound before there were any. */
  adopt(): Promise<void>
}

export function createClaims(options: ClaimsOptions): Claims {
  const { cluster, claims, volumes, layout, record, now } = options
  const known = { get: (name: string) => volumes.get({ name }), list: () => volumes.list() }
  const growth = createGrowth(options.growth, now, options.again)

  async function write(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    const written = await cluster.replace('PersistentVolumeClaim', claim)
    claims.writeThrough(written)
    return written
  }

  async function protect(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    const { finalizers = [] } = claim.metadata
    if (finalizers.includes(claimFinalizer)) return claim
    return write({ ...claim, metadata: { ...claim.metadata, finalizers: [...finalizers, claimFinalizer] } })
  }

  async function writeStatus(claim: PersistentVolumeClaim, status: PersistentVolumeClaim['status']): Promise<void> {
    if (isDeepStrictEqual(claim.status, status)) return
    claims.writeThrough(await cluster.replaceStatus('PersistentVolumeClaim', { ...claim, ...(status && { status }) }))
  }

  async function writeVolume(volume: PersistentVolume): Promise<PersistentVolume> {
    const written = await cluster.replace('PersistentVolume', volume)
    volumes.writeThrough(written)
    return written
  }

  async function wait(claim: PersistentVolumeClaim, reason: string, message: string): Promise<ReconcileResult> {
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

  async function lose(claim: PersistentVolumeClaim, message: string): Promise<ReconcileResult> {
    if (claim.status?.phase !== 'Lost') record(claim, 'Warning', 'ClaimLost', message)
    await writeStatus(claim, { ...claim.status, phase: 'Lost' })
    return undefined
  }

  async function provision(claim: PersistentVolumeClaim, key: ObjectKey): Promise<ReconcileResult> {
    try {
      await options.provision(claim)
    } catch (error) {
      const message = errorCode(error) === 'ENOSPC' ? 'the disk is full' : messageOf(error)
      return wait(claim, error instanceof SourceNotReady ? 'WaitForSource' : 'ProvisioningFailed', message)
    }
    return bind(claim, await makeVolume(claim), key)
  }

  /** The volume that stands for the directory of a claim; one that was made before a crash is found again. */
  async function makeVolume(claim: PersistentVolumeClaim): Promise<PersistentVolume> {
    const draft = volumeDraft(claim)
    try {
      const created = await cluster.create('PersistentVolume', draft)
      volumes.writeThrough(created)
      return created
    } catch (error) {
      const existing = isClusterError(error, 'AlreadyExists') && (await cluster.get('PersistentVolume', draft.metadata))
      if (!existing) throw error
      volumes.writeThrough(existing)
      return existing
    }
  }

  /** Ties the two together, the volume first: each step is found done by whoever goes on after a crash. */
  async function bind(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    key: ObjectKey,
  ): Promise<ReconcileResult> {
    const reference = claimReference(claim)
    const taken =
      volume.spec?.claimRef?.uid === reference.uid
        ? volume
        : await writeVolume({ ...volume, spec: { ...volume.spec, claimRef: reference } })
    const complete = await completeClaim(claim, taken.metadata.name)
    if (complete !== claim) options.onProvisioned(key)
    return settle(complete, taken, key)
  }

  async function completeClaim(claim: PersistentVolumeClaim, volumeName: string): Promise<PersistentVolumeClaim> {
    const { annotations } = claim.metadata
    if (annotations?.[bindCompleted] !== undefined && claim.spec?.volumeName === volumeName) return claim
    const found = claim.spec?.volumeName === undefined ? [[boundByController, 'yes']] : []
    const completed = { ...annotations, ...Object.fromEntries(found), [bindCompleted]: 'yes' }
    const metadata = { ...claim.metadata, annotations: completed }
    return write({ ...claim, metadata, spec: { ...claim.spec, volumeName } })
  }

  /** What a bound claim's status says, and growing where it asks for more than it has. */
  async function settle(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    key: ObjectKey,
  ): Promise<ReconcileResult> {
    const handle = handleOf(volume)
    if (handle !== undefined && !existsSync(layout.volume(handle))) {
      return lose(claim, `the directory ${dirname(layout.volume(handle))} no longer holds its volume`)
    }
    // Of another driver's volume the claim says what that driver says: it may have grown for the cluster, not for its pods.
    if (handle === undefined && claim.status?.phase === 'Bound') return undefined
    const from = volume.spec?.capacity?.storage ?? '0'
    const to = claim.spec?.resources?.requests?.storage ?? '0'
    const { accessModes } = volume.spec ?? {}
    const bound = { ...claim.status, phase: 'Bound', capacity: { storage: from }, ...(accessModes && { accessModes }) }
    if (handle === undefined || !isMore(to, from)) {
      await writeStatus(claim, settledStatus(bound))
      return undefined
    }
    const uid = claim.metadata.uid ?? ''
    const attempt = growth.attempt(uid, { claim: key, handle, from, to })
    if (attempt.kind === 'grown') return grown(claim, volume, attempt.to, key)
    if (attempt.kind === 'failed') record(claim, 'Warning', 'VolumeResizeFailed', attempt.message)
    await writeStatus(claim, growingStatus(bound, to, attempt, now()))
    return attempt.kind === 'failed' ? { requeueAfterMs: options.growth.retryMs } : undefined
  }

  async function grown(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    storage: string,
    key: ObjectKey,
  ): Promise<ReconcileResult> {
    const spec = { ...volume.spec, capacity: { ...volume.spec?.capacity, storage } }
    return settle(claim, await writeVolume({ ...volume, spec }), key)
  }

  function find(namespace: string, name: string): ClaimVolume {
    const claim = claims.get({ namespace, name })
    const refuse = (why: string) => ({ bound: false as const, message: `persistentvolumeclaim "${name}" ${why}` })
    if (claim === undefined) return refuse('not found')
    if (claim.metadata.deletionTimestamp !== undefined) return { ...refuse('is being deleted'), isTerminating: true }
    if (claim.status?.phase === 'Lost') return refuse('has lost its volume')
    const lost = claim.status?.phase === 'Bound' ? 'has lost its volume' : 'is not bound'
    const volume = known.get(claim.spec?.volumeName ?? '')
    if (volume === undefined || volume.spec?.claimRef?.uid !== claim.metadata.uid) return refuse(lost)
    const handle = handleOf(volume)
    if (handle === undefined) return refuse(`is bound to a volume that is not of the driver ${driver}`)
    const directory = layout.volume(handle)
    // One that stands is whole, so a pod need not wait until the claim's status says so.
    if (!existsSync(directory)) return refuse(lost)
    const alone = claim.spec?.accessModes?.includes('ReadWriteOncePod') === true
    return { bound: true, volume: handle, directory, alone }
  }

  async function reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const found = claims.get(key)
    // One that is being deleted stays as it is until no pod uses it; then its volume is free, or goes.
    if (found === undefined || found.metadata.deletionTimestamp !== undefined) return undefined
    const claim = await protect(found)
    const binding = decideBinding(claim, known)
    switch (binding.kind) {
      case 'bound':
      case 'bind':
        return bind(claim, binding.volume, key)
      case 'provision':
        return provision(claim, key)
      case 'adopt':
        return adopt(claim, key)
      case 'wait':
        return wait(claim, binding.reason, binding.message)
      case 'lost':
        return lose(claim, binding.message)
    }
  }

  /** Nothing moves and nothing is copied: the directory is the one that the claim has had. */
  async function adopt(claim: PersistentVolumeClaim, key: ObjectKey): Promise<ReconcileResult> {
    const directory = layout.volume(newHandle(claim))
    if (!existsSync(directory)) return lose(claim, `the directory ${dirname(directory)} no longer holds its volume`)
    return bind(claim, await makeVolume(claim), key)
  }

  async function takeOver(claim: PersistentVolumeClaim): Promise<void> {
    if (claim.metadata.deletionTimestamp === undefined) await reconcile(claim.metadata)
    // Its directory is to go with it, once no pod uses it.
    else if (existsSync(layout.volume(newHandle(claim)))) await makeVolume(claim)
  }

  return {
    find,
    reconcile,
    async adopt() {
      const old = claims.list().filter(claim => decideBinding(claim, known).kind === 'adopt')
      await Promise.all(
        old.map(claim =>
          takeOver(claim).catch(error => {
            options.logger.warn({ err: error, claim: claim.metadata.name }, 'a claim got no volume yet; will try again')
          }),
        ),
      )
    },
  }
}
