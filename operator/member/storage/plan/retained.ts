/**
 * Handles volumes that were retained under the database's id, while it has neither a claim nor a recorded volume: a
 * single one is taken over, and started as it is; if a user has to decide which one it is, no claim is created. An
 * empty volume is never created beside them.
 */

import { childNames, labels } from '../../../../crds/index.ts'
import type { Owner } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'
import type { StorageAction } from '../actions.ts'
import { adoptedClaimDraft } from '../claim.ts'
import { volumeToAdopt } from '../retained.ts'

/** The next step of taking a volume over: its old claimRef is removed, then a new claim names it. */
export function adoption({ instance, incarnation, number, retained }: ObservedMember, owner: Owner): StorageAction[] {
  const volume = instance.adoptsVolumes ? volumeToAdopt(retained, { owner, number }) : undefined
  // The serving incarnation is recorded before any object is created for it.
  if (volume === undefined || instance.status?.incarnation !== incarnation) return []
  const { name, uid } = volume
  if (volume.claimUid !== undefined) return [{ do: 'change-volume', name, uid, change: { to: 'unclaim' } }]
  return [{ do: 'create-claim', draft: adoptedClaimDraft({ owner, incarnation, number }, volume) }]
}

/** Why no claim is created, and what a user can do; undefined if nothing blocks it. */
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
  const claim = childNames.claim(owner.id, incarnation, number)
  const unlabel = `kubectl label pv NAME ${labels.database}-`
  const reserve = `reserved for the claim ${owner.namespace}/${claim} (spec.claimRef)`
  const takeOver = instance.adoptsVolumes
    ? `a single volume that is ${reserve} is taken over`
    : `to use one, create the claim ${claim} with spec.volumeName and the label ${labels.database}: ${owner.id}`
  return (
    `PersistentVolume ${names} was retained with the id of this database and may contain its data: no empty volume is created ` +
    `beside it. ${takeOver}; remove the label from those that are not needed: ${unlabel}`
  )
}
