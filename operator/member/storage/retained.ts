/**
 * Volumes that outlived the claim and the database that they were made for: retained, and labelled with the id of a database
 * that was put back without its claim. Asked of the cluster itself, since a database may start on an empty volume by it.
 */
import type { Cluster } from '../../../cluster/index.ts'
import { childNames, labels } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { type VolumeFacts, volumeFacts } from './persistent-volume.ts'

export async function retainedVolumes(cluster: Cluster, { id }: Owner): Promise<VolumeFacts[]> {
  const { items } = await cluster.list('PersistentVolume', { labels: { [labels.database]: id } })
  const kept = items.map(volume => volumeFacts(volume, undefined)).filter(({ isRetained }) => isRetained)
  const used = await Promise.all(kept.map(volume => isInUse(cluster, volume)))
  return kept.filter((_, index) => used[index] === false)
}

/** Whether the claim that the volume is bound to is there. */
async function isInUse(cluster: Cluster, { claim = '', claimUid }: VolumeFacts): Promise<boolean> {
  const [namespace, name] = claim.split('/')
  if (name === undefined || claimUid === undefined) return false
  const found = await cluster.get('PersistentVolumeClaim', { namespace, name })
  return found?.metadata.uid === claimUid
}

/** The incarnation that a volume holds, where it is reserved for a claim of this very owner's. */
export function incarnationOn({ claim, isGoing }: VolumeFacts, { namespace, id }: Owner): number | undefined {
  const incarnation = Number(/-(\d+)-data$/.exec(claim ?? '')?.[1])
  const isOwn = claim === `${namespace}/${childNames.claim(id, incarnation)}`
  return isOwn && !isGoing && Number.isSafeInteger(incarnation) ? incarnation : undefined
}

/** Returns the volume to take over: the only retained one, if it is reserved for a claim of this owner. */
export function volumeToAdopt(retained: readonly VolumeFacts[], owner: Owner): VolumeFacts | undefined {
  const [volume, ...others] = retained
  if (volume === undefined || others.length > 0) return undefined
  return incarnationOn(volume, owner) === undefined ? undefined : volume
}
