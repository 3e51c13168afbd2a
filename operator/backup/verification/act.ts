/** Creates and deletes the objects that verify a copy of a backup. */
import { type AnyObject, type Cluster, ClusterError, type Draft, isRefused } from '../../../cluster/index.ts'
import { type Backup, childNames, type PgVersion, type Region } from '../../../crds/index.ts'
import { sizeInBytes } from '../../../values/quantity.ts'
import type { InstallationKeys } from '../../keys.ts'
import { createIfAbsent } from '../../objects/create.ts'
import { ownerUidOf } from '../../objects/ownership.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { Observed } from '../observed.ts'
import type { Refusal } from '../plan/refusal.ts'
import { copyDraft, networkPolicyDraft, readerDraft, verificationOwner, verifierDraft } from './drafts.ts'
import { isOfVerification, kindsOf, type VerificationKind } from './observe.ts'
import { copyRecovery } from './recovery.ts'

export type Verifier = {
  cluster: Cluster
  images: Partial<Record<PgVersion, string>>
  pods: PodSettings
  keys: () => InstallationKeys
  now: () => number
}

/** @returns why the backup cannot be verified; undefined if the verification has begun */
export async function beginVerification(
  { cluster, images, pods, keys, now }: Verifier,
  observed: Observed,
): Promise<Refusal | undefined> {
  const { backup, id, verification } = observed
  const { target } = verification
  const snapshot = typeof observed.snapshot === 'object' ? observed.snapshot : undefined
  const isDurable = backup.spec.kind === 'durable'
  if (id === undefined || target === undefined || (snapshot === undefined && !isDurable))
    throw new ClusterError('Conflict', 'the snapshot of the backup does not exist')
  const recovery = isDurable ? copyRecovery(observed, pods) : undefined
  if (isDurable && recovery === undefined) return refused('the installation has no archive')
  const { authority } = keys()
  if (isDurable && authority === undefined) throw new ClusterError('Conflict', "the installation's CA is missing")
  const { pgVersion, region } = target
  const image = images[pgVersion]
  if (image === undefined) return refused(`there is no image of Postgres ${pgVersion}`)
  const owner = verificationOwner(backup, id)
  const { bytes, storageClass } = await volumeOf(cluster, observed, region)
  // The network policy is created before anything it protects, and the volume before the pod.
  try {
    const make = makerOf(cluster, backup, snapshot?.name)
    const reader = recovery && authority && readerDraft(owner, recovery, authority, now)
    return (
      (await make('NetworkPolicy', networkPolicyDraft(owner, isDurable))) ??
      (reader && (await make('Secret', reader))) ??
      (await make('PersistentVolumeClaim', copyDraft({ owner, snapshot, bytes, storageClass }))) ??
      (await make('Pod', verifierDraft(owner, image, pods, recovery)))
    )
  } catch (error) {
    if (isRefused(error)) return refused(error.message)
    throw error
  }
}

const refused = (message: string): Refusal => ({ reason: 'NotVerified', message })

/** Creates one object. An existing object is used only if an earlier pass created it for this verification. */
const makerOf =
  (cluster: Cluster, backup: Backup, snapshot: string | undefined) =>
  async <K extends VerificationKind>(kind: K, draft: Draft<K>): Promise<Refusal | undefined> => {
    if (await createIfAbsent(cluster, kind, draft)) return undefined
    const { namespace, name } = draft.metadata
    const found = await cluster.get(kind, { namespace, name })
    if (found === undefined) throw new ClusterError('Conflict', `the ${kind} ${name} was deleted in the meantime`)
    if (isOfVerification(backup, found) && isOfSnapshot(backup, snapshot, found)) return undefined
    return refused(`the ${kind} ${name} already exists and was not created for this verification`)
  }

/** Whether the object was created for the Backup with this uid, and a volume from this snapshot. */
function isOfSnapshot({ metadata }: Backup, snapshot: string | undefined, found: AnyObject): boolean {
  if (ownerUidOf(found) !== metadata.uid) return false
  return found.kind !== 'PersistentVolumeClaim' || found.spec?.dataSource?.name === snapshot
}

/** The space for WAL on a volume, in addition to the base backup. */
const walBytes = 2 ** 30

/** The size and storage class of the copy's volume: those of the source's volume, if it still exists. */
async function volumeOf(cluster: Cluster, { backup, snapshot, source }: Observed, region: Region) {
  const { namespace } = backup.metadata
  const facts = typeof snapshot === 'object' ? snapshot : undefined
  const isDurable = backup.spec.kind === 'durable'
  const name = isDurable ? source?.database.status?.volume?.claim : facts?.takenFrom?.claim
  const claim = name === undefined ? undefined : await cluster.get('PersistentVolumeClaim', { namespace, name })
  const capacity = sizeInBytes(claim?.status?.capacity?.storage) ?? 0
  const least = isDurable ? (backup.status?.sizeBytes ?? 0) + walBytes : (facts?.bytes ?? 0)
  return {
    bytes: Math.max(least, capacity, 1),
    storageClass: claim?.spec?.storageClassName ?? region.spec.storageClass,
  }
}

export async function endVerification({ cluster }: Pick<Verifier, 'cluster'>, { backup, id }: Observed): Promise<void> {
  if (id === undefined) return
  const key = { namespace: backup.metadata.namespace, name: childNames.verification(id) }
  for (const kind of kindsOf(backup)) {
    const found = await cluster.get(kind, key)
    if (found === undefined || found.metadata.deletionTimestamp !== undefined || !isOfVerification(backup, found))
      continue
    await cluster.delete(kind, key, { uid: found.metadata.uid })
  }
}
