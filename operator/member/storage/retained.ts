/**
 * Volumes that were retained when their claim and database were deleted. They have the label with the id of a database
 * that was recreated without its claim. Reads the cluster instead of a cache: if the operator missed such a volume, the
 * database could start on an empty volume.
 */
import type { Cluster } from '../../../cluster/index.ts'
import { isMemberOf, labels, parseMemberName } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Member } from '../member.ts'
import { type VolumeFacts, volumeFacts } from './persistent-volume.ts'

export async function retainedVolumes(cluster: Cluster, { id }: Owner): Promise<VolumeFacts[]> {
  const { items } = await cluster.list('PersistentVolume', { labels: { [labels.database]: id } })
  const retained = items.map(volume => volumeFacts(volume, undefined)).filter(({ isRetained }) => isRetained)
  const used = await Promise.all(retained.map(volume => isInUse(cluster, volume)))
  return retained.filter((_, index) => used[index] === false)
}

/** Whether the claim that the volume's claimRef names exists. */
async function isInUse(cluster: Cluster, { claim = '', claimUid }: VolumeFacts): Promise<boolean> {
  const [namespace, name] = claim.split('/')
  if (name === undefined || claimUid === undefined) return false
  const found = await cluster.get('PersistentVolumeClaim', { namespace, name })
  return found?.metadata.uid === claimUid
}

/** Returns a volume's incarnation if the volume is reserved for a claim of this owner's member with that number. */
export function incarnationOn(
  { claim = '', isTerminating }: VolumeFacts,
  { owner: { namespace, id }, number }: Pick<Member, 'owner' | 'number'>,
): number | undefined {
  const [space, name = ''] = claim.split('/')
  const named = parseMemberName('claim', name)
  const isOwn = space === namespace && isMemberOf(named, id) && named.number === number
  return isOwn && !isTerminating ? named.incarnation : undefined
}

/** Returns the volume for the new claim: the only retained volume, if it is reserved for a claim of this member. */
export function volumeToAdopt(
  retained: readonly VolumeFacts[],
  member: Pick<Member, 'owner' | 'number'>,
): VolumeFacts | undefined {
  const [volume, ...others] = retained
  if (volume === undefined || others.length > 0) return undefined
  return incarnationOn(volume, member) === undefined ? undefined : volume
}
