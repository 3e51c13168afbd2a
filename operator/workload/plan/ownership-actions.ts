/**
 * Corrects the ownership of children, before all other actions and in every state.
 *
 * - Removes owner references of earlier versions, even without the installation's keys. Otherwise a foreground deletion
 *   would delete these objects.
 * - Sets the new uid on objects of a database that was recreated with another uid.
 * - Labels objects that have only the database's label and are not its children, concurrently with other work: if the
 *   cluster refuses that, nothing else waits.
 */
import type { AnyObject, KindName } from '../../../cluster/index.ts'
import { childKinds } from '../../children/owned.ts'
import { ownerUidOf, refersToDatabase, withOwner } from '../../objects/ownership.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

type OwnershipActions = {
  /** For objects that a garbage collector assigns to a database, and may delete. */
  referring: Action[]
  /** For the other children. */
  ofChildren: Action[]
  others: Action[]
}

/** `isGoing`: the database is being deleted, including volumes that were never recorded. */
export function ownershipActions(
  { instance, owned, children, serviceChildren }: Observed,
  { isGoing }: { isGoing: boolean },
): OwnershipActions {
  const { kind } = instance
  const { namespace = '', name, uid = '' } = instance.metadata
  const owner = { kind, namespace, name, uid }
  /** A claim has the data. So another owner's claim becomes this database's only after the status records it. */
  const mayLabel = (kind: KindName, object: AnyObject): boolean =>
    kind !== 'PersistentVolumeClaim' ||
    isGoing ||
    ownerUidOf(object) === uid ||
    instance.status?.volume?.uid === object.metadata.uid
  const childUids = new Set([...Object.values(children), ...serviceChildren].map(child => child?.metadata.uid))
  const found: OwnershipActions = { referring: [], ofChildren: [], others: [] }
  for (const { kind, field } of childKinds)
    for (const object of owned[field] as AnyObject[]) {
      const metadata = mayLabel(kind, object) ? withOwner(owner, object.metadata) : undefined
      if (metadata === undefined) continue
      const isChild = childUids.has(object.metadata.uid)
      const into = refersToDatabase(object.metadata) ? found.referring : isChild ? found.ofChildren : found.others
      into.push({ do: 'label', kind, object: { ...object, metadata } as AnyObject })
    }
  return found
}
