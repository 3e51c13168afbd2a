/**
 * Reconciles PersistentVolumeClaims. It binds each claim to the volume that it names or that names it. Otherwise it
 * creates a directory, and fills it if the claim has a snapshot or another claim as its source. A bound claim whose
 * volume or directory is missing becomes `Lost`; it never gets an empty volume.
 */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { AnyObject, Cluster, ObjectKey, PersistentVolume, PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import type { ReconcileResult } from '../../../controller/index.ts'
import { timestamp } from '../../../values/time.ts'
import type { Layout } from '../directories.ts'
import { errorCode, messageOf } from '../errors.ts'
import type { ClaimVolume } from '../pods/mounts.ts'
import { decideBinding, type Volumes } from './binding.ts'
import { ClaimWriter } from './claim-writer.ts'
import { createGrowth, type GrowthOptions, growingStatus, isMore, ungrowingStatus } from './growth.ts'
import { claimReference, driver, handleOf, newHandle } from './persistent-volume.ts'
import { SourceNotReady } from './provision.ts'

const retryMs = 10_000

type ClaimsOptions = {
  cluster: Cluster
  claims: Informer<'PersistentVolumeClaim'>
  volumes: Informer<'PersistentVolume'>
  provision(claim: PersistentVolumeClaim): Promise<void>
  growth: GrowthOptions
  /** Called when a claim has its directory, before the claim's status reports it. */
  onProvisioned(key: ObjectKey): void
  /** Enqueues the claim for another pass. */
  again(key: ObjectKey): void
  layout: Layout
  record(subject: AnyObject, type: 'Normal' | 'Warning', reason: string, message: string): void
  logger: Logger
  now: () => number
}

type Claims = {
  find(namespace: string, name: string): ClaimVolume
  reconcile(key: ObjectKey): Promise<ReconcileResult>
  /** Creates a volume for every claim that was bound before PersistentVolumes existed. */
  adopt(): Promise<void>
}

export function createClaims(options: ClaimsOptions): Claims {
  const controller = new ClaimController(options)
  return {
    find: (namespace, name) => controller.find(namespace, name),
    reconcile: key => controller.reconcile(key),
    adopt: () => controller.adopt(),
  }
}

class ClaimController {
  readonly #options: ClaimsOptions
  readonly #writer: ClaimWriter
  readonly #known: Volumes
  readonly #growth: ReturnType<typeof createGrowth>

  constructor(options: ClaimsOptions) {
    const { volumes } = options
    this.#options = options
    this.#writer = new ClaimWriter(options)
    this.#known = { get: name => volumes.get({ name }), list: () => volumes.list() }
    this.#growth = createGrowth(options.growth, options.now, options.again)
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const found = this.#options.claims.get(key)
    // A claim that is being deleted keeps its state until no pod uses it. Then its volume becomes free or is deleted.
    if (found === undefined || found.metadata.deletionTimestamp !== undefined) return undefined
    const claim = await this.#writer.protect(found)
    const binding = decideBinding(claim, this.#known)
    switch (binding.kind) {
      case 'bound':
      case 'bind':
        return this.#bind(claim, binding.volume, key)
      case 'provision':
        return this.#provision(claim, key)
      case 'adopt':
        return this.#adoptOne(claim, key)
      case 'wait':
        return this.#wait(claim, binding.reason, binding.message)
      case 'lost':
        return this.#lose(claim, binding.message)
    }
  }

  find(namespace: string, name: string): ClaimVolume {
    const { claims, layout } = this.#options
    const claim = claims.get({ namespace, name })
    const refuse = (why: string) => ({ bound: false as const, message: `persistentvolumeclaim "${name}" ${why}` })
    if (claim === undefined) return refuse('not found')
    if (claim.metadata.deletionTimestamp !== undefined) return { ...refuse('is being deleted'), isTerminating: true }
    if (claim.status?.phase === 'Lost') return refuse('has lost its volume')
    const lost = claim.status?.phase === 'Bound' ? 'has lost its volume' : 'is not bound'
    const volume = this.#known.get(claim.spec?.volumeName ?? '')
    if (volume === undefined || volume.spec?.claimRef?.uid !== claim.metadata.uid) return refuse(lost)
    const handle = handleOf(volume)
    if (handle === undefined) return refuse(`is bound to a volume that is not of the driver ${driver}`)
    const directory = layout.volume(handle)
    // A directory is complete when it exists, so a pod does not wait for the claim's status.
    if (!existsSync(directory)) return refuse(lost)
    const alone = claim.spec?.accessModes?.includes('ReadWriteOncePod') === true
    return { bound: true, volume: handle, directory, alone }
  }

  async adopt(): Promise<void> {
    const { claims, logger } = this.#options
    const old = claims.list().filter(claim => decideBinding(claim, this.#known).kind === 'adopt')
    await Promise.all(
      old.map(claim =>
        this.#takeOver(claim).catch(error => {
          logger.warn(
            { err: error, claim: claim.metadata.name },
            'could not create the volume of a claim; will try again',
          )
        }),
      ),
    )
  }

  async #takeOver(claim: PersistentVolumeClaim): Promise<void> {
    if (claim.metadata.deletionTimestamp === undefined) await this.reconcile(claim.metadata)
    // If a claim is being deleted, its directory needs a volume: then it is deleted once no pod uses it.
    else if (existsSync(this.#options.layout.volume(newHandle(claim)))) await this.#writer.createVolume(claim)
  }

  /** Keeps the directory that the claim already has; nothing is moved or copied. */
  async #adoptOne(claim: PersistentVolumeClaim, key: ObjectKey): Promise<ReconcileResult> {
    const directory = this.#options.layout.volume(newHandle(claim))
    if (!existsSync(directory)) return this.#lose(claim, missing(directory))
    return this.#bind(claim, await this.#writer.createVolume(claim), key)
  }

  async #provision(claim: PersistentVolumeClaim, key: ObjectKey): Promise<ReconcileResult> {
    try {
      await this.#options.provision(claim)
    } catch (error) {
      const message = errorCode(error) === 'ENOSPC' ? 'the disk is full' : messageOf(error)
      return this.#wait(claim, error instanceof SourceNotReady ? 'WaitForSource' : 'ProvisioningFailed', message)
    }
    return this.#bind(claim, await this.#writer.createVolume(claim), key)
  }

  /** Binds the volume, then the claim. After a crash, the next pass repeats only the missing step. */
  async #bind(claim: PersistentVolumeClaim, volume: PersistentVolume, key: ObjectKey): Promise<ReconcileResult> {
    const reference = claimReference(claim)
    const taken =
      volume.spec?.claimRef?.uid === reference.uid
        ? volume
        : await this.#writer.writeVolume({ ...volume, spec: { ...volume.spec, claimRef: reference } })
    const complete = await this.#writer.completeBinding(claim, taken.metadata.name)
    if (complete !== claim) this.#options.onProvisioned(key)
    return this.#complete(complete, taken, key)
  }

  /** Writes the status of a bound claim, and grows the volume if the claim requests more than the volume has. */
  async #complete(claim: PersistentVolumeClaim, volume: PersistentVolume, key: ObjectKey): Promise<ReconcileResult> {
    const directory = this.#directoryOf(volume)
    if (directory !== undefined && !existsSync(directory)) return this.#lose(claim, missing(directory))
    const handle = handleOf(volume)
    // Another driver reports its own volume in the claim's status. It may have grown the volume but not yet the file
    // system.
    if (handle === undefined && claim.status?.phase === 'Bound') return undefined
    const from = volume.spec?.capacity?.storage ?? '0'
    const to = claim.spec?.resources?.requests?.storage ?? '0'
    const { accessModes } = volume.spec ?? {}
    const bound = { ...claim.status, phase: 'Bound', capacity: { storage: from }, ...(accessModes && { accessModes }) }
    if (handle === undefined || !isMore(to, from)) {
      await this.#writer.writeStatus(claim, ungrowingStatus(bound))
      return undefined
    }
    const uid = claim.metadata.uid ?? ''
    const attempt = this.#growth.attempt(uid, { claim: key, handle, from, to })
    if (attempt.kind === 'grown') return this.#recordGrowth(claim, volume, attempt.to, key)
    if (attempt.kind === 'failed') this.#options.record(claim, 'Warning', 'VolumeResizeFailed', attempt.message)
    await this.#writer.writeStatus(claim, growingStatus(bound, to, attempt, this.#options.now()))
    return attempt.kind === 'failed' ? { requeueAfterMs: this.#options.growth.retryMs } : undefined
  }

  #directoryOf(volume: PersistentVolume): string | undefined {
    const handle = handleOf(volume)
    return handle === undefined ? undefined : this.#options.layout.volume(handle)
  }

  async #recordGrowth(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    storage: string,
    key: ObjectKey,
  ): Promise<ReconcileResult> {
    const spec = { ...volume.spec, capacity: { ...volume.spec?.capacity, storage } }
    return this.#complete(claim, await this.#writer.writeVolume({ ...volume, spec }), key)
  }

  async #wait(claim: PersistentVolumeClaim, reason: string, message: string): Promise<ReconcileResult> {
    const { record, now } = this.#options
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
    await this.#writer.writeStatus(claim, { phase: 'Pending', conditions: [condition] })
    return { requeueAfterMs: retryMs }
  }

  async #lose(claim: PersistentVolumeClaim, message: string): Promise<ReconcileResult> {
    if (claim.status?.phase !== 'Lost') this.#options.record(claim, 'Warning', 'ClaimLost', message)
    await this.#writer.writeStatus(claim, { ...claim.status, phase: 'Lost' })
    return undefined
  }
}

const missing = (directory: string): string => `the directory ${dirname(directory)} no longer contains its volume`
