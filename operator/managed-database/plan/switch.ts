/**
 * The write by which a restored volume replaces the serving one. Its Restore requests it in `status.volume`, once the
 * old Postgres is stopped and the data on the old volume are backed up, or a user agreed to lose them. From then on the
 * Restore waits for this write and withdraws nothing, so a cache that lags behind it does no harm. Pure.
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
 * Incarnation, volume and previous volumes change together: after a crash the database has either the old or the new
 * volume.
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

/** The old volume, as the database records it from now on. */
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
