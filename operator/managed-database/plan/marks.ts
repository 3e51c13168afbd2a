/**
 * Whose the children are, set right before anything else is done and in every state: references of earlier versions
 * come off, before a garbage collector that is asked for a foreground deletion takes what they stand on; and what a
 * database finds that was put back under another uid carries that uid from then on.
 */
import type { AnyObject, KindName } from '../../../cluster/index.ts'
import type { Action } from '../actions.ts'
import { kindsOfRemains, type Observed } from '../observed.ts'
import { markedFor, ownerUidOf } from '../ownership.ts'

/** `isGoing`: the database is being taken away, and what was never recorded goes with it. */
export function marks({ database, remains }: Observed, { isGoing }: { isGoing: boolean }): Action[] {
  const { namespace = '', name, uid = '' } = database.metadata
  const owner = { namespace, name, uid }
  /** A claim is the data: a strange one is this database's only once it stands in its record. */
  const mayMark = (kind: KindName, object: AnyObject): boolean =>
    kind !== 'PersistentVolumeClaim' ||
    isGoing ||
    ownerUidOf(object) === uid ||
    database.status?.volume?.uid === object.metadata.uid
  return kindsOfRemains.flatMap(({ kind, field }) =>
    (remains[field] as AnyObject[]).flatMap((object): Action[] => {
      const metadata = mayMark(kind, object) ? markedFor(owner, object.metadata) : undefined
      return metadata === undefined ? [] : [{ do: 'mark', kind, object: { ...object, metadata } as AnyObject }]
    }),
  )
}
