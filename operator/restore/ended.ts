/**
 * The actions after a restore has ended: its unneeded objects are deleted, its lock is released, and later the Restore
 * is deleted. Pure.
 */
import type { Restore } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { type Action, type Plan, recheckMs } from './actions.ts'
import type { Leftover, Observed } from './observed.ts'
import { isOfOperator } from './record.ts'

/** How often an ended restore is checked. */
const checkMs = 24 * 3600_000
/** How long the record of a restore requested through the API is kept. */
const recordMs = 30 * 24 * 3600_000

/** According to the database's status: a crash may have happened before the restore recorded it. */
export const isSwitched = ({ restore, database }: Observed): boolean =>
  restore.status?.switchedAt !== undefined ||
  (restore.status?.incarnation !== undefined && database?.status?.incarnation === restore.status.incarnation)

/** Whether the database's own controller is to switch to the restored volume, and may already have done so. */
export const isHandedOver = ({ status }: Restore): boolean => status?.volume !== undefined

/** The objects that run nothing any more: first the pod, then its other objects. */
export function removal({ leftovers }: Observed): Action[] {
  const { hasPod, objects } = leftovers
  return objects.filter(({ kind }) => kind === 'StatefulSet' || !hasPod).map(leftover => ({ do: 'delete', leftover }))
}

/**
 * If a restore failed before its data served, everything it created is deleted. The volume that it replaced is kept: it
 * belongs to the database.
 */
export function ended(observed: Observed, now: number): Plan {
  const { restore, database, leftovers, lock } = observed
  const { metadata, status = {} } = restore
  const { claim, hasPod, objects } = leftovers
  const still = (actions: Action[], requeueAt?: number): Plan => ({ actions, status, requeueAt })
  // The serving member waits for its lock to be released; a replaced one stays locked as long as it could start.
  const isToStart = !isSwitched(observed)
  const isDeleted = objects.length === 0 && !hasPod
  const actions = [
    ...(lock && (isToStart || isDeleted) ? [{ do: 'delete' as const, leftover: lock }] : []),
    ...removal(observed),
  ]
  if (!isDeleted || lock !== undefined) return still(actions, now + recheckMs)
  if (claim !== undefined && !isSwitched(observed)) {
    const { name, uid = '', deletionTimestamp } = claim.metadata
    const leftover: Leftover = { kind: 'PersistentVolumeClaim', name, uid }
    return still(deletionTimestamp === undefined ? [{ do: 'delete', leftover }] : [], now + recheckMs)
  }
  if (metadata.deletionTimestamp !== undefined)
    return isOnRecord(observed) ? still([{ do: 'release' }]) : still([], now + recheckMs)
  // A Restore without a database is kept to report that.
  const isOrphan = database === undefined && conditionOf(status, 'Ready')?.reason !== 'DatabaseMissing'
  const isOld = now - Date.parse(status.finishedAt ?? '') >= recordMs && observed.clockDistrust === undefined
  const isToGo = isOrphan || (isOld && isOfOperator(restore))
  return still(isToGo ? [{ do: 'forget' }] : [], isOld || isOrphan ? undefined : now + checkMs)
}

/** Whether the database has recorded the result for the volume it replaced: after that nothing needs the Restore. */
function isOnRecord(observed: Observed): boolean {
  const { restore, database, leftovers, isRequested } = observed
  // The database still requests the restore. Without this Restore it would create it again, and restore after all.
  if (isRequested && database?.metadata.deletionTimestamp === undefined) return false
  if (!isSwitched(observed) || database === undefined || database.metadata.deletionTimestamp !== undefined) return true
  const { phase, previous } = restore.status ?? {}
  const entry = database.status?.previous?.find(
    ({ uid, restoreUid }) => restoreUid === restore.metadata.uid || uid === previous?.uid,
  )
  if (entry === undefined) return leftovers.claim === undefined
  return phase !== 'completed' || entry.restoredAt !== undefined
}
