/**
 * Which id a database has. The label says so, but anybody can edit a label or copy an object with it; the children that
 * are marked with the database's uid cannot be mistaken. So children win over the label, and of two databases with one
 * id the one that has lived under it keeps it.
 *
 * A database that was put back has no such children any more. Where data under its id stand in its own namespace, and are no
 * living database's, or its own status has them on record, it is that database, whatever has its id elsewhere. Where
 * another one beside it may be that as well, nobody but a person can tell, and nothing is done: least of all an empty
 * volume initialised beside the data.
 */
// @ts-nocheck

import { labels, type ManagedDatabase, uuid } from '../../crds/index.ts'
import { ownerOf } from '../objects/ownership.ts'
import type { StrayClaim } from '../workload/observe.ts'
import type { Identity } from './observed.ts'

const validId = (id: string | undefined): string | undefined =>
  id !== undefined && uuid.safeParse(id).success ? id : undefined

/** Whether `left` comes before `right` where both say they have one id: with data first, then the older. */
export function precedes(left: ManagedDatabase, right: ManagedDatabase): boolean {
  const rank = ({ metadata, status }: ManagedDatabase): string =>
    `${status?.volume ? 0 : 1} ${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`
  return rank(left) < rank(right)
}

type Relations = {
  /** The ids on the children that carry the database's uid. */
  childrenSay: readonly (string | undefined)[]
  /** Further databases with the same label. */
  others: readonly ManagedDatabase[]
  strays: readonly StrayClaim[]
}

const keyOf = ({ metadata }: ManagedDatabase): string => `${metadata.namespace}/${metadata.name}`

export function identityOf(database: ManagedDatabase, { childrenSay, others, strays }: Relations): Identity {
  const label = validId(database.metadata.labels?.[labels.id])
  const known = childrenSay.map(validId).find(id => id !== undefined)
  if (known !== undefined && known !== label)
    return { state: 'unsettled', id: known, why: 'the id label was changed: the id of its children is put back' }
  if (label === undefined) return { state: 'unsettled', id: undefined, why: 'it has no id yet' }
  const settled = { state: 'settled', owner: ownerOf(database, label) } as const
  if (known !== undefined) return settled
  const rival = rivalOf(database, others, strays)
  if (rival !== undefined) return { state: 'contested', why: contestedBetween(database, rival, label, strays) }
  const elders = others.filter(other => precedes(other, database))
  const isElsewhere = elders.every(({ metadata }) => metadata.namespace !== database.metadata.namespace)
  const hasLived = strays.length > 0 || database.status?.volume !== undefined
  const [elder] = elders
  if (elder === undefined || (isElsewhere && hasLived)) return settled
  return { state: 'unsettled', id: undefined, why: `the id belongs to ${keyOf(elder)}` }
}

/** Another one beside it that the data may belong to: one that comes before it, or that they are marked as belonging to. */
function rivalOf(
  database: ManagedDatabase,
  others: readonly ManagedDatabase[],
  strays: readonly StrayClaim[],
): ManagedDatabase | undefined {
  if (strays.length === 0) return undefined
  return others
    .filter(({ metadata }) => metadata.namespace === database.metadata.namespace)
    .find(other => precedes(other, database) || strays.some(({ key }) => key === keyOf(other)))
}

const contestedBetween = (
  database: ManagedDatabase,
  rival: ManagedDatabase,
  id: string,
  strays: readonly StrayClaim[],
): string =>
  `the volume claim ${strays.map(({ name }) => name).join(', ')} holds data under the id ${id}, which ` +
  `${rival.metadata.name} beside ${database.metadata.name} has too, and nothing says whose they are: delete the one that is ` +
  `the copy (no data go with it), or take the label ${labels.id} off it; nothing is started or initialised before that`
