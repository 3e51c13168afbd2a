/**
 * Which id a database has. The label says so, but anybody can edit a label or copy an object with it; the children that
 * are marked with the database's uid cannot be mistaken. So children win over the label, and of two databases with one
 * id the one that has lived under it keeps it.
 */
import { labels, type ManagedDatabase, uuid } from '../../crds/index.ts'
import { ownerOf } from '../objects/ownership.ts'
import type { Identity } from './observed.ts'

const validId = (id: string | undefined): string | undefined =>
  id !== undefined && uuid.safeParse(id).success ? id : undefined

/** Whether `left` comes before `right` where both say they have one id: with data first, then the older. */
export function precedes(left: ManagedDatabase, right: ManagedDatabase): boolean {
  const rank = ({ metadata, status }: ManagedDatabase): string =>
    `${status?.volume ? 0 : 1} ${metadata.creationTimestamp ?? ''} ${metadata.uid ?? ''}`
  return rank(left) < rank(right)
}

/**
 * `childrenSay`: the ids on the children that carry the database's uid; `others`: further databases with the same
 * label.
 */
export function identityOf(
  database: ManagedDatabase,
  childrenSay: readonly (string | undefined)[],
  others: readonly ManagedDatabase[],
): Identity {
  const label = validId(database.metadata.labels?.[labels.id])
  const known = childrenSay.map(validId).find(id => id !== undefined)
  if (known !== undefined && known !== label)
    return { state: 'unsettled', id: known, why: 'the id label was changed: the id of its children is put back' }
  if (label === undefined) return { state: 'unsettled', id: undefined, why: 'it has no id yet' }
  const elder = known === undefined ? others.find(other => precedes(other, database)) : undefined
  if (elder !== undefined)
    return {
      state: 'unsettled',
      id: undefined,
      why: `the id belongs to ${elder.metadata.namespace}/${elder.metadata.name}`,
    }
  return { state: 'settled', owner: ownerOf(database, label) }
}
