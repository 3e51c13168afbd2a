/** Makes what a copy of a backup is checked with, and takes it away again. */
import { type AnyObject, type Cluster, ClusterError, type Draft, isRefused } from '../../../cluster/index.ts'
import { type Backup, childNames, type PgVersion, type Region } from '../../../crds/index.ts'
import { bytesTold } from '../../../values/quantity.ts'
import { createIfAbsent } from '../../objects/create.ts'
import { ownerUidOf } from '../../objects/ownership.ts'
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
    const make = makerOf(cluster, backup, snapshot.name)
    return (
      (await make('NetworkPolicy', fenceDraft(owner))) ??
      (await make('PersistentVolumeClaim', copyDraft({ owner, snapshot, bytes, storageClass }))) ??
      (await make('Pod', verifierDraft(owner, image, pods)))
    )
  } catch (error) {
    if (isRefused(error)) return refused(error.message)
    throw error
  }
}

const refused = (message: string): Refusal => ({ reason: 'NotVerified', message })

/** Makes one after the other; what is there already is used only where another pass made it for this very check. */
const makerOf =
  (cluster: Cluster, backup: Backup, snapshot: string) =>
  async <K extends (typeof verificationKinds)[number]>(kind: K, draft: Draft<K>): Promise<Refusal | undefined> => {
    if (await createIfAbsent(cluster, kind, draft)) return undefined
    const { namespace, name } = draft.metadata
    const found = await cluster.get(kind, { namespace, name })
    if (found === undefined) throw new ClusterError('Conflict', `the ${kind} ${name} was there, and is gone`)
    if (isOfVerification(backup, found) && isOfSnapshot(backup, snapshot, found)) return undefined
    return refused(`the ${kind} ${name} is in the way: it is there already, and was not made for this`)
  }

/** For the same backup, not one that had its name, and of the same snapshot. */
function isOfSnapshot({ metadata }: Backup, snapshot: string, found: AnyObject): boolean {
  if (ownerUidOf(found) !== metadata.uid) return false
  return found.kind !== 'PersistentVolumeClaim' || found.spec?.dataSource?.name === snapshot
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
