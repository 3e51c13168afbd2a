/** What is done once a restore has ended: what it made and nobody needs is deleted, its lock released, and its object in time. Pure. */
import type { Restore } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { type Action, lookMs, type Plan } from './actions.ts'
import type { Left, Observed } from './observed.ts'
import { isOfOperator } from './record.ts'

/** How often an ended restore is looked at. */
const checkMs = 24 * 3600_000
/** How long the record of a restore stays that was asked of the API. */
const recordMs = 30 * 24 * 3600_000

/** By the database's own word: a crash may have come before the restore said so. */
export const isSwitched = ({ restore, database }: Observed): boolean =>
  restore.status?.switchedAt !== undefined ||
  (restore.status?.incarnation !== undefined && database?.status?.incarnation === restore.status.incarnation)

/** Whether the database's own controller is to make the restored volume serve, and may have done so. */
export const isHandedOver = ({ status }: Restore): boolean => status?.volume !== undefined

/** What runs nothing any more: its pod first, then what it ran with. */
export function removal({ leftovers }: Observed): Action[] {
  const { hasPod, objects } = leftovers
  return objects.filter(({ kind }) => kind === 'StatefulSet' || !hasPod).map(left => ({ do: 'delete', left }))
}

/**
 * Of a restore that failed before its data served, all that it made is deleted. The volume that one replaced stays: it is
 * the database's.
 */
export function ended(observed: Observed, now: number): Plan {
  const { restore, database, leftovers, lock } = observed
  const { metadata, status = {} } = restore
  const { claim, hasPod, objects } = leftovers
  const still = (actions: Action[], wakeAt?: number): Plan => ({ actions, status, wakeAt })
  // What serves again waits for the lock to be released; what was replaced stays locked as long as it could start.
  const isToStart = !isSwitched(observed)
  const isGone = objects.length === 0 && !hasPod
  const actions = [
    ...(lock && (isToStart || isGone) ? [{ do: 'delete' as const, left: lock }] : []),
    ...removal(observed),
  ]
  if (!isGone || lock !== undefined) return still(actions, now + lookMs)
  if (claim !== undefined && !isSwitched(observed)) {
    const { name, uid = '', deletionTimestamp } = claim.metadata
    const left: Left = { kind: 'PersistentVolumeClaim', name, uid }
    return still(deletionTimestamp === undefined ? [{ do: 'delete', left }] : [], now + lookMs)
  }
  if (metadata.deletionTimestamp !== undefined)
    return isOnRecord(observed) ? still([{ do: 'release' }]) : still([], now + lookMs)
  // One that was for no database stays, to say so.
  const isOrphan = database === undefined && conditionOf(status, 'Ready')?.reason !== 'DatabaseMissing'
  const isOld = now - Date.parse(status.finishedAt ?? '') >= recordMs && observed.clockDoubt === undefined
  const isToGo = isOrphan || (isOld && isOfOperator(restore))
  return still(isToGo ? [{ do: 'forget' }] : [], isOld || isOrphan ? undefined : now + checkMs)
}

/** Whether the database has noted how this ended for the volume it replaced: after that nothing needs the Restore. */
function isOnRecord(observed: Observed): boolean {
  const { restore, database, leftovers, isAsked } = observed
  // The database still asks for the restore. It would create it again, and so restore after all.
  if (isAsked && database?.metadata.deletionTimestamp === undefined) return false
  if (!isSwitched(observed) || database === undefined || database.metadata.deletionTimestamp !== undefined) return true
  const { phase, previous } = restore.status ?? {}
  const entry = database.status?.previous?.find(
    ({ uid, restoreUid }) => restoreUid === restore.metadata.uid || uid === previous?.uid,
  )
  if (entry === undefined) return leftovers.claim === undefined
  return phase !== 'completed' || entry.restoredAt !== undefined
}
