/**
 * Switches the database to a restored volume, in one status update. The Restore requests the switch with its
 * `status.volume`, after the old Postgres has stopped. By then the old data are backed up, or a user agreed to lose
 * them. The Restore then never withdraws the request, so a stale cache does no harm. Pure.
 */
import {
  childNames,
  isOpenRestore,
  type ManagedDatabaseStatus,
  memberOfClaim,
  mostPreviousListed,
  type PreviousVolume,
  type Restore,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { no } from '../../objects/conditions.ts'
import { isTakenFor, takenFor } from '../../objects/operator-backups.ts'
import type { Owner } from '../../objects/ownership.ts'
import { nextConditions } from '../conditions.ts'
import type { Observed } from '../observed.ts'

type Facts = Pick<Observed, 'database' | 'backups' | 'previous'>

type Ready = { restore: Restore; incarnation: number; volume: NonNullable<NonNullable<Restore['status']>['volume']> }

/** The restored volume that waits to replace the current one. */
function readyOf({ database, previous: { restores } }: Facts, { id }: Owner): Ready | undefined {
  const serving = database.status?.incarnation ?? 1
  for (const restore of restores) {
    const { incarnation, volume, previous } = restore.status ?? {}
    if (incarnation === undefined || volume === undefined || !isOpenRestore(restore)) continue
    if (
      previous?.incarnation === serving &&
      volume.claim === childNames.claim(id, incarnation, memberOfClaim(volume.claim))
    )
      return { restore, incarnation, volume }
  }
  return undefined
}

/**
 * Incarnation, volume and previous volumes change in one write: after a crash the database has either the old or the
 * new volume.
 */
export function switchedStatus(observed: Facts, owner: Owner, now: number): ManagedDatabaseStatus | undefined {
  const { status = {}, metadata } = observed.database
  const ready = metadata.deletionTimestamp === undefined ? readyOf(observed, owner) : undefined
  if (ready === undefined) return undefined
  const { restore, incarnation, volume } = ready
  // The growth record belongs to the old volume.
  const { storage: _, ...rest } = status
  const findings = { Ready: no('Restoring', 'the restored data are being prepared') }
  const conditions = nextConditions(status.conditions ?? [], findings, status.observedGeneration, now)
  const previous = [...(status.previous ?? []), ...replacedVolume(observed, restore, now)].slice(-mostPreviousListed)
  return { ...rest, conditions, incarnation, volume, ...(previous.length === 0 ? {} : { previous }) }
}

/** The record of the old volume in `status.previous`. */
function replacedVolume({ database, backups }: Facts, restore: Restore, now: number): PreviousVolume[] {
  const { incarnation = 1, volume, storageUsedBytes } = database.status ?? {}
  if (volume === undefined) return []
  const prerestore = backups.find(({ metadata }) => metadata.name === restore.status?.anchor)
  const hasPrerestore =
    prerestore?.status?.phase === 'completed' && isTakenFor(prerestore, takenFor(database, 'prerestore'))
  return [
    {
      ...{ incarnation, claim: volume.claim, uid: volume.uid, replacedAt: timestamp(now) },
      ...{ restore: restore.metadata.name, restoreUid: restore.metadata.uid },
      ...(hasPrerestore ? { backup: prerestore.metadata.name, backupUid: prerestore.metadata.uid } : {}),
      ...(restore.spec.discardPrevious ? { discard: true } : {}),
      ...(storageUsedBytes === undefined ? {} : { bytes: storageUsedBytes }),
    },
  ]
}
