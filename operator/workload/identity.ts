/**
 * Determines the id of an owner. The id is in a label, but any user can edit the label or copy an object with it.
 * Children with the owner's uid are reliable. So children override the label. If two owners have the same id, the owner
 * that has used it keeps it.
 *
 * An owner that was restored from a backup of the cluster no longer has such children. It owns data with its id in two
 * cases, even if an object in another namespace has the id: the data are in its own namespace and belong to no existing
 * owner, or its own status records them. If another object in the namespace may also own the data, a user must decide.
 * Until then the operator does nothing. In particular, it initialises no empty volume beside the data.
 */

import { labels, uuid } from '../../crds/index.ts'
import type { OrphanClaim } from '../children/orphans.ts'
import type { Instance } from '../objects/instance.ts'
import { type Owner, ownerOf } from '../objects/ownership.ts'

/** An object that has an id, and may have data. */
type Identified = Pick<Instance, 'kind' | 'metadata' | 'status'>

/**
 * The id in the names of the children. `unsettled`: the operator must first write the label, with this id (from the
 * existing children), or with a new id if absent. `contested`: a user must decide who owns the data.
 */
export type Identity =
  | { state: 'settled'; owner: Owner }
  | { state: 'unsettled'; id: string | undefined; why: string }
  | { state: 'contested'; why: string }

const validId = (id: string | undefined): string | undefined =>
  id !== undefined && uuid.safeParse(id).success ? id : undefined

/** Whether `left` has priority if both have the same id. An object with data has priority; otherwise the older one. */
export function precedes(left: Identified, right: Identified): boolean {
  const rank = ({ metadata, status }: Identified): string =>
    `${status?.volume ? 0 : 1} ${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`
  return rank(left) < rank(right)
}

type Relations = {
  /** The ids of the children that have the owner's uid. */
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
  if (rival !== undefined) return { state: 'contested', why: contestedMessage(owner, rival, label, orphanClaims) }
  const earlier = others.filter(other => precedes(other, owner))
  const isElsewhere = earlier.every(({ metadata }) => metadata.namespace !== owner.metadata.namespace)
  const hasData = orphanClaims.length > 0 || owner.status?.volume !== undefined
  const [first] = earlier
  if (first === undefined || (isElsewhere && hasData)) return identified
  return { state: 'unsettled', id: undefined, why: `the id belongs to ${keyOf(first)}` }
}

/** Another object in the namespace that may own the data: it has priority, or the data's annotations name it. */
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

const contestedMessage = (
  owner: Identified,
  rival: Identified,
  id: string,
  orphanClaims: readonly OrphanClaim[],
): string =>
  `the volume claim ${orphanClaims.map(({ name }) => name).join(', ')} contains data with the id ${id}, which ` +
  `${rival.metadata.name} beside ${owner.metadata.name} also has, and the owner of the data is unknown: delete the object that is ` +
  `the copy (its deletion deletes no data), or remove its label ${labels.id}; before that, the operator starts and initialises nothing`
