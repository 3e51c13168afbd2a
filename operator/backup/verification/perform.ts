/** Makes what a copy of a backup is checked with, and takes it away again. */
import { type Cluster, ClusterError, isClusterError } from '../../../cluster/index.ts'
import { childNames, type PgVersion, type Region } from '../../../crds/index.ts'
import { bytesTold } from '../../../values/quantity.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { Observed } from '../observed.ts'
import type { Refusal } from '../plan/refusal.ts'
import { copyDraft, fenceDraft, verificationOwner, verifierDraft } from './drafts.ts'
import { isOfVerification, verificationKinds } from './observe.ts'

export type Verifier = {
  cluster: Cluster
  images: Partial<Record<PgVersion, string>>
  pods: PodSettings
}

/** @returns why nothing can be checked */
export async function beginVerification(
  { cluster, images, pods }: Verifier,
  observed: Observed,
): Promise<Refusal | undefined> {
  const { backup, id, snapshot, verification } = observed
  const { place } = verification
  if (id === undefined || place === undefined || typeof snapshot !== 'object')
    throw new ClusterError('Conflict', 'the snapshot of the backup is not there')
  const { pgVersion, region } = place
  const image = images[pgVersion]
  if (image === undefined) return refused(`there is no image of Postgres ${pgVersion}`)
  const owner = verificationOwner(backup, id)
  const { bytes, storageClass } = await volumeOf(cluster, observed, region)
  // The fence stands before there is anything inside, and the volume before its user.
  try {
    await make(() => cluster.create('NetworkPolicy', fenceDraft(owner)))
    await make(() => cluster.create('PersistentVolumeClaim', copyDraft({ owner, snapshot, bytes, storageClass })))
    await make(() => cluster.create('Pod', verifierDraft(owner, image, pods)))
    return undefined
  } catch (error) {
    if (isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')) return refused(error.message)
    throw error
  }
}

const refused = (message: string): Refusal => ({ reason: 'NotVerified', message })

async function make(create: () => Promise<unknown>): Promise<void> {
  try {
    await create()
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
  }
}

/** As large as what was backed up, and of the same class. */
async function volumeOf(cluster: Cluster, { backup, snapshot }: Observed, region: Region) {
  const { namespace } = backup.metadata
  const facts = typeof snapshot === 'object' ? snapshot : undefined
  const name = facts?.cutOf?.claim
  const claim = name === undefined ? undefined : await cluster.get('PersistentVolumeClaim', { namespace, name })
  const capacity = bytesTold(claim?.status?.capacity?.storage) ?? 0
  return {
    bytes: Math.max(facts?.bytes ?? 0, capacity, 1),
    storageClass: claim?.spec?.storageClassName ?? region.spec.storageClass,
  }
}

export async function endVerification({ cluster }: Pick<Verifier, 'cluster'>, { backup, id }: Observed): Promise<void> {
  if (id === undefined) return
  const key = { namespace: backup.metadata.namespace, name: childNames.verification(id) }
  for (const kind of verificationKinds) {
    const found = await cluster.get(kind, key)
    if (found === undefined || found.metadata.deletionTimestamp !== undefined || !isOfVerification(backup, found))
      continue
    await cluster.delete(kind, key, { uid: found.metadata.uid })
  }
}
