/**
 * The write by which a restored volume takes the place of the one that serves. Its Restore asks for it in `status.volume`, once
 * the old Postgres is stopped and the data on the old volume are backed up, or somebody agreed to lose them. From then on the
 * Restore waits for this write and withdraws nothing, so that a cache that lags behind it misleads nobody. Pure.
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

/** The restored volume that waits to serve in the place of the one that the database has. */
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

/** Incarnation, volume and previous volumes change together: after a crash the database has the one volume or the other. */
export function switchedStatus(observed: Facts, owner: Owner, now: number): ManagedDatabaseStatus | undefined {
  const { status = {}, metadata } = observed.database
  const ready = metadata.deletionTimestamp === undefined ? readyOf(observed, owner) : undefined
  if (ready === undefined) return undefined
  const { restore, incarnation, volume } = ready
  // How large a volume was that grows by itself is of the old one.
  const { storage: _, ...rest } = status
  const findings = { Ready: no('Restoring', 'the restored data are made ready') }
  const conditions = nextConditions(status.conditions ?? [], findings, status.observedGeneration, now)
  const previous = [...(status.previous ?? []), ...replacedVolume(observed, restore, now)].slice(-mostPreviousListed)
  return { ...rest, conditions, incarnation, volume, ...(previous.length === 0 ? {} : { previous }) }
}

/** The volume that served, as the database keeps it from now on. */
function replacedVolume({ database, backups }: Facts, restore: Restore, now: number): PreviousVolume[] {
  const { incarnation = 1, volume, storageUsedBytes } = database.status ?? {}
  if (volume === undefined) return []
  const anchor = backups.find(({ metadata }) => metadata.name === restore.status?.anchor)
  const isAnchored = anchor?.status?.phase === 'completed' && isTakenFor(anchor, takenFor(database, 'prerestore'))
  return [
    {
      ...{ incarnation, claim: volume.claim, uid: volume.uid, replacedAt: timestamp(now) },
      ...{ restore: restore.metadata.name, restoreUid: restore.metadata.uid },
      ...(isAnchored ? { backup: anchor.metadata.name, backupUid: anchor.metadata.uid } : {}),
      ...(restore.spec.discardPrevious ? { discard: true } : {}),
      ...(storageUsedBytes === undefined ? {} : { bytes: storageUsedBytes }),
    },
  ]
}
