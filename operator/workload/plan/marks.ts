/**
 * Whose the children are, set right before anything else is done and in every state: references of earlier versions
 * come off, also without the installation's keys, before a garbage collector that is asked for a foreground deletion takes
 * what they stand on; and what a database finds that was put back under another uid carries that uid from then on. What merely bears its label, and is
 * none of its children, is marked beside the rest: where that is refused, nothing waits for it.
 */
import type { AnyObject, KindName } from '../../../cluster/index.ts'
import { childKinds } from '../../children/owned.ts'
import { markedFor, ownerUidOf, refersToDatabase } from '../../objects/ownership.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

type Marks = {
  /** Of what a garbage collector takes for a database's, and may take away. */
  referring: Action[]
  /** Of the other children, on which work is done. */
  ofChildren: Action[]
  others: Action[]
}

/** `isGoing`: the database is being taken away, and what was never recorded goes with it. */
export function marks(
  { instance, owned, children, serviceChildren }: Observed,
  { isGoing }: { isGoing: boolean },
): Marks {
  const { kind } = instance
  const { namespace = '', name, uid = '' } = instance.metadata
  const owner = { kind, namespace, name, uid }
  /** A claim is the data: a strange one is this database's only once it stands in its record. */
  const mayMark = (kind: KindName, object: AnyObject): boolean =>
    kind !== 'PersistentVolumeClaim' ||
    isGoing ||
    ownerUidOf(object) === uid ||
    instance.status?.volume?.uid === object.metadata.uid
  const childUids = new Set([...Object.values(children), ...serviceChildren].map(child => child?.metadata.uid))
  const found: Marks = { referring: [], ofChildren: [], others: [] }
  for (const { kind, field } of childKinds)
    for (const object of owned[field] as AnyObject[]) {
      const metadata = mayMark(kind, object) ? markedFor(owner, object.metadata) : undefined
      if (metadata === undefined) continue
      const isChild = childUids.has(object.metadata.uid)
      const into = refersToDatabase(object.metadata) ? found.referring : isChild ? found.ofChildren : found.others
      into.push({ do: 'mark', kind, object: { ...object, metadata } as AnyObject })
    }
  return found
}
