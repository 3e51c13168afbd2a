/** Writes PersistentVolumeClaims and their volumes to the cluster, and each result through to the caches. */
import { isDeepStrictEqual } from 'node:util'
import {
  type Cluster,
  isClusterError,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { bindCompleted, volumeDraft } from './persistent-volume.ts'

const claimFinalizer = 'kubernetes.io/pvc-protection'
const boundByController = 'pv.kubernetes.io/bound-by-controller'

type ClaimWriterOptions = {
  cluster: Cluster
  claims: Informer<'PersistentVolumeClaim'>
  volumes: Informer<'PersistentVolume'>
}

export class ClaimWriter {
  readonly #cluster: Cluster
  readonly #claims: Informer<'PersistentVolumeClaim'>
  readonly #volumes: Informer<'PersistentVolume'>

  constructor({ cluster, claims, volumes }: ClaimWriterOptions) {
    this.#cluster = cluster
    this.#claims = claims
    this.#volumes = volumes
  }

  /** Adds the finalizer that keeps a claim until no pod uses it. */
  async protect(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    const { finalizers = [] } = claim.metadata
    if (finalizers.includes(claimFinalizer)) return claim
    return this.#write({ ...claim, metadata: { ...claim.metadata, finalizers: [...finalizers, claimFinalizer] } })
  }

  /**
   * Writes the volume's name and the binding annotations into the claim. Returns the same claim if it already has them.
   */
  async completeBinding(claim: PersistentVolumeClaim, volumeName: string): Promise<PersistentVolumeClaim> {
    const { annotations } = claim.metadata
    if (annotations?.[bindCompleted] !== undefined && claim.spec?.volumeName === volumeName) return claim
    const found = claim.spec?.volumeName === undefined ? [[boundByController, 'yes']] : []
    const completed = { ...annotations, ...Object.fromEntries(found), [bindCompleted]: 'yes' }
    const metadata = { ...claim.metadata, annotations: completed }
    return this.#write({ ...claim, metadata, spec: { ...claim.spec, volumeName } })
  }

  async writeStatus(claim: PersistentVolumeClaim, status: PersistentVolumeClaim['status']): Promise<void> {
    if (isDeepStrictEqual(claim.status, status)) return
    const desired = { ...claim, ...(status && { status }) }
    this.#claims.writeThrough(await this.#cluster.replaceStatus('PersistentVolumeClaim', desired))
  }

  /** Creates the volume for a claim's directory. Returns the existing volume if an earlier process created it. */
  async createVolume(claim: PersistentVolumeClaim): Promise<PersistentVolume> {
    const draft = volumeDraft(claim)
    try {
      const created = await this.#cluster.create('PersistentVolume', draft)
      this.#volumes.writeThrough(created)
      return created
    } catch (error) {
      const existing =
        isClusterError(error, 'AlreadyExists') && (await this.#cluster.get('PersistentVolume', draft.metadata))
      if (!existing) throw error
      this.#volumes.writeThrough(existing)
      return existing
    }
  }

  async writeVolume(volume: PersistentVolume): Promise<PersistentVolume> {
    const written = await this.#cluster.replace('PersistentVolume', volume)
    this.#volumes.writeThrough(written)
    return written
  }

  async #write(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    const written = await this.#cluster.replace('PersistentVolumeClaim', claim)
    this.#claims.writeThrough(written)
    return written
  }
}
