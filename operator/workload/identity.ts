/**
 * Determines the id of an owner. The label contains it, but any user can edit a label or copy an object with it;
 * children with the owner's uid are reliable. So children override the label, and of two owners with one id the one
 * that has used it keeps it.
 *
 * An owner that was put back no longer has such children. If data with its id are in its own namespace and belong to no
 * existing owner, or are recorded in its own status, it owns them, whatever has this id elsewhere. If another object in
 * the namespace may own them as well, only a user can decide, and nothing is done: above all no empty volume is
 * initialised beside the data.
 */

import { labels, uuid } from '../../crds/index.ts'
import type { OrphanClaim } from '../children/orphans.ts'
import type { Instance } from '../objects/instance.ts'
import { type Owner, ownerOf } from '../objects/ownership.ts'

/** An object that has an id, and may have data. */
type Identified = Pick<Instance, 'kind' | 'metadata' | 'status'>

/**
 * The id in the names of the children. `unsettled`: the label must be written first, with this id (from the existing
 * children), or a new one if absent. `contested`: a user has to decide to whom the data belong.
 */
export type Identity =
  | { state: 'settled'; owner: Owner }
  | { state: 'unsettled'; id: string | undefined; why: string }
  | { state: 'contested'; why: string }

const validId = (id: string | undefined): string | undefined =>
  id !== undefined && uuid.safeParse(id).success ? id : undefined

/** Whether `left` comes before `right` if both have one id: with data first, then the older. */
export function precedes(left: Identified, right: Identified): boolean {
  const rank = ({ metadata, status }: Identified): string =>
    `${status?.volume ? 0 : 1} ${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`
  return rank(left) < rank(right)
}

type Relations = {
  /** The ids on the children that carry the owner's uid. */
  childOwnerIds: readonly (string | undefined)[]
  /** Other owners with the same label. */
  others: readonly Identified[]
  orphanClaims: readonly OrphanClaim[]
}

const keyOf = ({ metadata }: Identified): string => `${metadata.namespace}/${metadata.name}`

export function identityOf(owner: Identified, { childOwnerIds, others, orphanClaims }: Relations): Identity {
  const label = validId(owner.metadata.labels?.[labels.id])
  const known = childOwnerIds.map(validId).find(id => id !== undefined)
  if (known !== undefined && known !== label)
    return { state: 'unsettled', id: known, why: 'the id label was changed: the id of its children is restored' }
  if (label === undefined) return { state: 'unsettled', id: undefined, why: 'it has no id yet' }
  const identified = { state: 'settled', owner: ownerOf(owner, label) } as const
  if (known !== undefined) return identified
  const rival = rivalOf(owner, others, orphanClaims)
  if (rival !== undefined) return { state: 'contested', why: contestedBetween(owner, rival, label, orphanClaims) }
  const elders = others.filter(other => precedes(other, owner))
  const isElsewhere = elders.every(({ metadata }) => metadata.namespace !== owner.metadata.namespace)
  const hasLived = orphanClaims.length > 0 || owner.status?.volume !== undefined
  const [elder] = elders
  if (elder === undefined || (isElsewhere && hasLived)) return identified
  return { state: 'unsettled', id: undefined, why: `the id belongs to ${keyOf(elder)}` }
}

/**
 * Another object beside it to which the data may belong: one that comes before it, or to which their labels assign
 * them.
 */
function rivalOf(
  owner: Identified,
  others: readonly Identified[],
  orphanClaims: readonly OrphanClaim[],
): Identified | undefined {
  if (orphanClaims.length === 0) return undefined
  return others
    .filter(({ metadata }) => metadata.namespace === owner.metadata.namespace)
    .find(other => precedes(other, owner) || orphanClaims.some(({ key }) => key === keyOf(other)))
}

const contestedBetween = (
  owner: Identified,
  rival: Identified,
  id: string,
  orphanClaims: readonly OrphanClaim[],
): string =>
  `the volume claim ${orphanClaims.map(({ name }) => name).join(', ')} contains data with the id ${id}, which ` +
  `${rival.metadata.name} beside ${owner.metadata.name} also has, and the owner of the data is unknown: delete the one that is ` +
  `the copy (its deletion deletes no data), or remove its label ${labels.id}; nothing is started or initialised before that`
