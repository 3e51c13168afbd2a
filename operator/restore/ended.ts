/**
 * Plans the actions after a restore has ended: deletes the objects that are no longer needed and the lock, and later
 * the Restore. Pure.
 */
import type { Restore } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { type Action, type Plan, recheckMs } from './actions.ts'
import type { Leftover, Observed } from './observed.ts'
import { isOfOperator } from './record.ts'

/** How often an ended restore is checked. */
const checkMs = 24 * 3600_000
/** How long an ended Restore that was requested through the API is kept. */
const recordMs = 30 * 24 * 3600_000

/**
 * Whether the database uses the restored volume. Also reads the database's status, because the operator may have
 * crashed before it updated the Restore.
 */
export const isSwitched = ({ restore, database }: Observed): boolean =>
  restore.status?.switchedAt !== undefined ||
  (restore.status?.incarnation !== undefined && database?.status?.incarnation === restore.status.incarnation)

/** Whether the Restore has requested the switch from the database controller. The switch may already be done. */
export const isSwitchRequested = ({ status }: Restore): boolean => status?.volume !== undefined

/** Deletes the unneeded objects: first the StatefulSet, and the others after the pod has stopped. */
export function removal({ leftovers }: Observed): Action[] {
  const { hasPod, objects } = leftovers
  return objects.filter(({ kind }) => kind === 'StatefulSet' || !hasPod).map(leftover => ({ do: 'delete', leftover }))
}

/**
 * If a restore failed before the switch, deletes all objects that it created. After a switch it keeps the replaced
 * volume, which belongs to the database.
 */
export function ended(observed: Observed, now: number): Plan {
  const { restore, database, leftovers, lock } = observed
  const { metadata, status = {} } = restore
  const { claim, hasPod, objects } = leftovers
  const planOf = (actions: Action[], requeueAt?: number): Plan => ({ actions, status, requeueAt })
  // Without a switch, the old Postgres starts again once its lock is deleted. A replaced Postgres stays locked until
  // its StatefulSet and pod are deleted.
  const isToStart = !isSwitched(observed)
  const isDeleted = objects.length === 0 && !hasPod
  const actions = [
    ...(lock && (isToStart || isDeleted) ? [{ do: 'delete' as const, leftover: lock }] : []),
    ...removal(observed),
  ]
  if (!isDeleted || lock !== undefined) return planOf(actions, now + recheckMs)
  if (claim !== undefined && !isSwitched(observed)) {
    const { name, uid = '', deletionTimestamp } = claim.metadata
    const leftover: Leftover = { kind: 'PersistentVolumeClaim', name, uid }
    return planOf(deletionTimestamp === undefined ? [{ do: 'delete', leftover }] : [], now + recheckMs)
  }
  if (metadata.deletionTimestamp !== undefined)
    return isRecordedByDatabase(observed) ? planOf([{ do: 'remove-finalizer' }]) : planOf([], now + recheckMs)
  // A Restore whose database was deleted is deleted too. One that failed with DatabaseMissing is kept, so that users
  // can read the reason.
  const isOrphan = database === undefined && conditionOf(status, 'Ready')?.reason !== 'DatabaseMissing'
  const isOld = now - Date.parse(status.finishedAt ?? '') >= recordMs && observed.clockDistrust === undefined
  const isToDelete = isOrphan || (isOld && isOfOperator(restore))
  return planOf(isToDelete ? [{ do: 'delete-restore' }] : [], isOld || isOrphan ? undefined : now + checkMs)
}

/** Whether the database's status has recorded the result, so that the Restore is no longer needed. */
function isRecordedByDatabase(observed: Observed): boolean {
  const { restore, database, leftovers, isRequested } = observed
  // As long as the database requests the restore, its controller would create the Restore again and restore the data.
  if (isRequested && database?.metadata.deletionTimestamp === undefined) return false
  if (!isSwitched(observed) || database === undefined || database.metadata.deletionTimestamp !== undefined) return true
  const { phase, previous } = restore.status ?? {}
  const entry = database.status?.previous?.find(
    ({ uid, restoreUid }) => restoreUid === restore.metadata.uid || uid === previous?.uid,
  )
  if (entry === undefined) return leftovers.claim === undefined
  return phase !== 'completed' || entry.restoredAt !== undefined
}
