/**
 * Handles volumes retained with the id of a database that has neither a claim nor a recorded volume. If there is
 * exactly one such volume, the operator creates a claim for it, and Postgres starts on its data. If a user must decide
 * between several, the operator creates no claim. The operator never creates an empty volume beside them.
 */

import { childNames, labels } from '../../../../crds/index.ts'
import type { Owner } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'
import type { StorageAction } from '../actions.ts'
import { adoptedClaimDraft } from '../claim.ts'
import { volumeToAdopt } from '../retained.ts'

/**
 * The next step to use a retained volume. First the operator removes the uid from its claimRef, then it creates a claim
 * that names the volume.
 */
export function adoption({ instance, incarnation, number, retained }: ObservedMember, owner: Owner): StorageAction[] {
  const volume = instance.adoptsVolumes ? volumeToAdopt(retained, { owner, number }) : undefined
  // The operator records the serving incarnation before it creates objects for it.
  if (volume === undefined || instance.status?.incarnation !== incarnation) return []
  const { name, uid } = volume
  if (volume.claimUid !== undefined) return [{ do: 'change-volume', name, uid, change: { to: 'unclaim' } }]
  return [{ do: 'create-claim', draft: adoptedClaimDraft({ owner, incarnation, number }, volume) }]
}

/** Why the operator creates no claim, and what a user can do. Undefined if nothing blocks the claim. */
export function retainedMessage({
  instance,
  owner,
  incarnation,
  number,
  retained,
  children,
}: ObservedMember): string | undefined {
  const [first] = retained
  if (owner === undefined || first === undefined || children.claim !== undefined) return undefined
  if (instance.adoptsVolumes && volumeToAdopt(retained, { owner, number }) !== undefined) return undefined
  const names = retained.map(({ name }) => name).join(', ')
  const volumes =
    retained.length === 1 ? `PersistentVolume ${names} was retained` : `PersistentVolumes ${names} were retained`
  const claim = childNames.claim(owner.id, incarnation, number)
  const unlabel = `kubectl label pv NAME ${labels.database}-`
  const reserve = `reserved for the claim ${owner.namespace}/${claim} (spec.claimRef)`
  const takeOver = instance.adoptsVolumes
    ? `the operator uses the volume if it is the only one and is ${reserve}`
    : `to use one, create the claim ${claim} with spec.volumeName and the label ${labels.database}: ${owner.id}`
  return (
    `${volumes} with the id of this database and may contain its data: the operator creates no empty volume. ` +
    `${takeOver}; remove the label from volumes that are not needed: ${unlabel}`
  )
}
