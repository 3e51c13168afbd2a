/**
 * The ownership of children, corrected before all other actions and in every state: owner references of earlier
 * versions are removed, even without the installation's keys, before a garbage collector can delete the objects in a
 * foreground deletion; and objects of a database that was put back with another uid get that uid. Objects that only
 * have its label, and are none of its children, are labelled at the same time as other work: if that is refused,
 * nothing waits for it.
 */
import type { AnyObject, KindName } from '../../../cluster/index.ts'
import { childKinds } from '../../children/owned.ts'
import { ownerUidOf, refersToDatabase, withOwner } from '../../objects/ownership.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

type OwnershipActions = {
  /** Of objects that a garbage collector assigns to a database, and may delete. */
  referring: Action[]
  /** Of the other children, with which the operator works. */
  ofChildren: Action[]
  others: Action[]
}

/** `isGoing`: the database is being deleted, and so are volumes that were never recorded. */
export function ownershipActions(
  { instance, owned, children, serviceChildren }: Observed,
  { isGoing }: { isGoing: boolean },
): OwnershipActions {
  const { kind } = instance
  const { namespace = '', name, uid = '' } = instance.metadata
  const owner = { kind, namespace, name, uid }
  /** A claim has the data: another owner's claim becomes this database's only once it is recorded in the status. */
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
      into.push({ do: 'mark', kind, object: { ...object, metadata } as AnyObject })
    }
  return found
}
