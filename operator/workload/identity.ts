/**
 * Which id an owner has. The label says so, but anybody can edit a label or copy an object with it; the children that
 * are marked with the owner's uid cannot be mistaken. So children win over the label, and of two owners with one
 * id the one that has lived under it keeps it.
 *
 * One that was put back has no such children any more. Where data under its id stand in its own namespace, and are no
 * living owner's, or its own status has them on record, it is that one, whatever has its id elsewhere. Where
 * another one beside it may be that as well, nobody but a person can tell, and nothing is done: least of all an empty
 * volume initialised beside the data.
 */

import { labels, uuid } from '../../crds/index.ts'
import type { OrphanClaim } from '../children/orphans.ts'
import type { Instance } from '../objects/instance.ts'
import { type Owner, ownerOf } from '../objects/ownership.ts'

/** What has an id, and may have data. */
type Identified = Pick<Instance, 'kind' | 'metadata' | 'status'>

/**
 * The id that children are named by. `unsettled`: the label must be written first, with the id given (that of the
 * children already there) or, without one, a new one. `contested`: a person has to say whose the data under it are.
 */
export type Identity =
  | { state: 'settled'; owner: Owner }
  | { state: 'unsettled'; id: string | undefined; why: string }
  | { state: 'contested'; why: string }

const validId = (id: string | undefined): string | undefined =>
  id !== undefined && uuid.safeParse(id).success ? id : undefined

/** Whether `left` comes before `right` where both say they have one id: with data first, then the older. */
export function precedes(left: Identified, right: Identified): boolean {
  const rank = ({ metadata, status }: Identified): string =>
    `${status?.volume ? 0 : 1} ${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`
  return rank(left) < rank(right)
}

type Relations = {
  /** The ids on the children that carry the owner's uid. */
  childrenSay: readonly (string | undefined)[]
  /** Others with the same label. */
  others: readonly Identified[]
  orphanClaims: readonly OrphanClaim[]
}

const keyOf = ({ metadata }: Identified): string => `${metadata.namespace}/${metadata.name}`

export function identityOf(owner: Identified, { childrenSay, others, orphanClaims }: Relations): Identity {
  const label = validId(owner.metadata.labels?.[labels.id])
  const known = childrenSay.map(validId).find(id => id !== undefined)
  if (known !== undefined && known !== label)
    return { state: 'unsettled', id: known, why: 'the id label was changed: the id of its children is put back' }
  if (label === undefined) return { state: 'unsettled', id: undefined, why: 'it has no id yet' }
  const settled = { state: 'settled', owner: ownerOf(owner, label) } as const
  if (known !== undefined) return settled
  const rival = rivalOf(owner, others, orphanClaims)
  if (rival !== undefined) return { state: 'contested', why: contestedBetween(owner, rival, label, orphanClaims) }
  const elders = others.filter(other => precedes(other, owner))
  const isElsewhere = elders.every(({ metadata }) => metadata.namespace !== owner.metadata.namespace)
  const hasLived = orphanClaims.length > 0 || owner.status?.volume !== undefined
  const [elder] = elders
  if (elder === undefined || (isElsewhere && hasLived)) return settled
  return { state: 'unsettled', id: undefined, why: `the id belongs to ${keyOf(elder)}` }
}

/** Another one beside it that the data may belong to: one that comes before it, or that they are marked as belonging to. */
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
  `the volume claim ${orphanClaims.map(({ name }) => name).join(', ')} holds data under the id ${id}, which ` +
  `${rival.metadata.name} beside ${owner.metadata.name} has too, and nothing says whose they are: delete the one that is ` +
  `the copy (no data go with it), or take the label ${labels.id} off it; nothing is started or initialised before that`
