/**
 * Plans the actions and the status of a backup. The plan is a pure function of the observed state, so it continues
 * after a crash at any point. Steps:
 *
 * 1. a checkpoint;
 * 2. the VolumeSnapshot, annotated with the checkpoint's result;
 * 3. the storage takes the snapshot;
 * 4. the snapshot is ready.
 *
 * After its end, a backup changes only by a verification, after the end of its Task, or if its snapshot is lost or
 * converted into a volume. The operator deletes the snapshot of a failed backup. A backup that completed before it
 * failed keeps its snapshot until the backup is deleted.
 */
import { annotations, teardownFinalizer } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { withFindings } from '../../objects/run-status.ts'
import type { RestorePoint } from '../../postgres/administrator.ts'
import { isRecreated } from '../id.ts'
import type { Observed, PrerestoreFacts, SnapshotFacts, Source } from '../observed.ts'
import { sourceAnnotation } from '../snapshot.ts'
import type { Action, BackupDeadlines, Plan } from './actions.ts'
import { durableEnded, durableTeardown, durableUnderWay } from './durable.ts'
import { type Refusal, refusalOf } from './refusal.ts'
import { failed, finished, inUse, running, type Status, unrecorded, usedUp, waiting } from './status.ts'
import { awaiting, checkpointing, unavailabilityOf, waitsUntil } from './timeouts.ts'
import { isVerifiedAutomatically, planVerification, verificationPending } from './verification.ts'

/** How soon a checkpoint is checked again. It is requested again if the queue was full. */
const checkMs = 5_000
/** How soon to check again whether a restore has stopped Postgres. */
const stopMs = 250

export function plan(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, id } = observed
  const { metadata, status = {} } = backup
  const hasTeardownFinalizer = metadata.finalizers?.includes(teardownFinalizer) === true
  const isDurable = backup.spec.kind === 'durable'
  if (metadata.deletionTimestamp !== undefined && !hasTeardownFinalizer) return statusOnly(status)
  if (metadata.deletionTimestamp !== undefined)
    return isDurable ? durableTeardown(observed, now) : teardown(observed, now)
  if (status.finishedAt !== undefined)
    return isDurable ? durableEnded(observed, now, deadlines) : ended(observed, now, deadlines)
  // A backup that an earlier version refused has a phase, but no end time.
  if (status.phase === 'failed') return statusOnly(status)
  const wasRecreated = isRecreated(backup, id)
  if (wasRecreated && observed.snapshot === 'absent') return statusOnly(failed(backup, recreated, now))
  const isNew =
    status.phase === undefined && !wasRecreated && metadata.annotations?.[annotations.firstUid] === undefined
  if (id === undefined || !hasTeardownFinalizer || isNew)
    return { ...statusOnly(status), actions: [{ do: 'identify', id }] }
  const next = (isDurable ? durableUnderWay : underWay)(observed, now, deadlines)
  return { ...next, status: { ...next.status, taskId: observed.taskId } }
}

const recreated: Refusal = {
  reason: 'PutBack',
  message: 'the Backup was recreated, but no snapshot of it exists: delete it, and create a new one',
}

/** The reason of a backup whose snapshot was lost after the backup had completed. */
const snapshotLost = 'SnapshotLost'

const statusOnly = (status: Status): Plan => ({ actions: [], status, requeueAt: undefined })

const removal = ({ name, uid, isDeleting }: SnapshotFacts): Action[] =>
  isDeleting ? [] : [{ do: 'delete-snapshot', name, uid }]

const ownSnapshot = ({ snapshot }: Observed): SnapshotFacts | undefined =>
  typeof snapshot === 'object' && snapshot.isOwn ? snapshot : undefined

/** The finalizer stays until the cluster itself confirms that the snapshot is deleted. */
function teardown(observed: Observed, now: number): Plan {
  const { backup, snapshot, usedBy, awaitsRecord } = observed
  const plan = statusOnly(backup.status ?? {})
  if (usedBy !== undefined && snapshot !== 'absent')
    return statusOnly(withFindings(backup, backup.status ?? {}, { Progressing: inUse(usedBy) }, now))
  if (snapshot === 'unknown') return plan
  const remaining = ownSnapshot(observed)
  if (observed.verification.hasObjects) return { ...plan, actions: [{ do: 'end-verification' }] }
  if (remaining !== undefined) return { ...plan, actions: removal(remaining) }
  if (awaitsRecord) return statusOnly(withFindings(backup, backup.status ?? {}, { Progressing: unrecorded }, now))
  return { ...plan, actions: [{ do: 'remove-finalizer' }] }
}

/** Why a completed backup is lost: its snapshot, or the VolumeSnapshotContent, was deleted. Undefined if it is not. */
function lostMessage(remaining: SnapshotFacts | undefined): string | undefined {
  if (remaining === undefined || remaining.isDeleting)
    return 'its snapshot was deleted: the backup can no longer be restored'
  const isUnusable = !remaining.isReady && remaining.error !== undefined && remaining.becameVolume === undefined
  return isUnusable
    ? `its snapshot is no longer usable (${remaining.error}): the backup can no longer be restored`
    : undefined
}

function ended(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, snapshot, hasTaskEnded } = observed
  const { status = {} } = backup
  const remaining = ownSnapshot(observed)
  if (status.phase === 'completed') {
    const lost = snapshot === 'unknown' ? undefined : lostMessage(remaining)
    if (lost !== undefined) return statusOnly(failed(backup, { reason: snapshotLost, message: lost }, now))
  }
  if (status.phase === 'completed' && remaining?.becameVolume !== undefined)
    return statusOnly(usedUp(backup, remaining.becameVolume, now))
  const { taskId: _, ...rest } = status
  const mustDelete = status.phase === 'failed' && conditionOf(status, 'Ready')?.reason !== snapshotLost
  const checked = planVerification(observed, now, deadlines)
  return {
    actions: [...(mustDelete && remaining !== undefined ? removal(remaining) : []), ...checked.actions],
    status: { ...(hasTaskEnded ? rest : status), ...checked.status },
    requeueAt: checked.requeueAt,
  }
}

function underWay(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, snapshot } = observed
  if (typeof snapshot === 'object') return withSnapshot(observed, snapshot, now, deadlines)
  const refusal = refusalOf(observed)
  if (refusal !== undefined) return statusOnly(failed(backup, refusal, now))
  if (snapshot === 'unknown' || observed.source === undefined) return untilKnown(observed, now, deadlines)
  if (backup.status?.snapshotName !== undefined) return statusOnly(failed(backup, deletedByHand, now))
  if (observed.prerestoreOf !== undefined) return planPrerestore(observed, observed.prerestoreOf, observed.source, now)
  return withoutSnapshot(observed, observed.source, now, deadlines)
}

/** Waits until the operator knows which snapshots exist. Fails after a timeout. */
function untilKnown({ backup, snapshotsQueriedAt }: Observed, now: number, { cutMs }: BackupDeadlines): Plan {
  const until = snapshotsQueriedAt + cutMs
  if (now >= until) return statusOnly(failed(backup, snapshotsUnknown, now))
  return {
    ...statusOnly(waiting(backup, 'Preparing', 'waiting for the list of volume snapshots', now)),
    requeueAt: until,
  }
}

const snapshotsUnknown: Refusal = {
  reason: 'SnapshotsUnknown',
  message: 'the cluster does not report which volume snapshots exist: see the log of the operator',
}

const deletedByHand: Refusal = {
  reason: 'SnapshotDeleted',
  message: 'its snapshot was deleted before it was ready',
}

/** The steps before the snapshot: wait in the queue, wait for the database, run a checkpoint. */
function withoutSnapshot(observed: Observed, source: Source, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, blockedBy, checkpoint } = observed
  if (checkpoint.state === 'failed')
    return statusOnly(
      failed(
        backup,
        { reason: 'CheckpointFailed', message: `the checkpoint before the snapshot failed: ${checkpoint.message}` },
        now,
      ),
    )
  if (checkpoint.state === 'succeeded') return takeSnapshot(observed, source, checkpoint.point, now)
  if (backup.status?.phase !== 'running' && blockedBy !== undefined)
    return statusOnly(
      waiting(backup, 'Queued', `waiting for ${blockedBy}: one backup of a database is taken at a time`, now),
    )
  if (checkpoint.state === 'running')
    return { ...statusOnly(checkpointing(backup, checkpoint.since, now)), requeueAt: now + checkMs }
  const unavailability = unavailabilityOf(source, checkpoint)
  if (unavailability === undefined)
    return { actions: [{ do: 'checkpoint' }], status: checkpointing(backup, now, now), requeueAt: now + checkMs }
  const until = waitsUntil(backup, source, unavailability, now, deadlines)
  if (now >= until)
    return statusOnly(failed(backup, { reason: 'DatabaseNotServing', message: unavailability.message }, now))
  const status = awaiting(backup, unavailability.message, now)
  const { retryAt = Number.POSITIVE_INFINITY } = unavailability
  if (now < retryAt) return { ...statusOnly(status), requeueAt: Math.min(until, retryAt) }
  return { actions: [{ do: 'checkpoint' }], status, requeueAt: Math.min(until, now + checkMs) }
}

/** Plans the snapshot of a volume whose Postgres a restore has stopped. It needs no checkpoint. */
function planPrerestore({ backup }: Observed, facts: PrerestoreFacts, { database }: Source, now: number): Plan {
  if (facts.state === 'over')
    return statusOnly(
      failed(backup, { reason: 'RestoreEnded', message: 'the restore ended before this backup was taken' }, now),
    )
  if (facts.state !== 'stopped')
    return {
      ...statusOnly(waiting(backup, 'AwaitingStop', 'waiting until the restore has stopped Postgres', now)),
      requeueAt: facts.state === 'stopping' ? now + stopMs : undefined,
    }
  const { claim, claimUid, systemIdentifier, claimExists } = facts
  if (!claimExists)
    return statusOnly(
      failed(backup, { reason: 'VolumeLost', message: `the volume claim ${claim} no longer exists` }, now),
    )
  const { pgVersion, region } = database.spec
  return {
    actions: [{ do: 'create-snapshot', of: { systemIdentifier, claim, claimUid, pgVersion, region } }],
    status: running(backup, 'Snapshotting', 'requesting a snapshot of the stopped volume from the storage', now),
    requeueAt: undefined,
  }
}

function takeSnapshot({ backup }: Observed, { database }: Source, point: RestorePoint, now: number): Plan {
  const volume = database.status?.volume
  const { pgVersion, region } = database.spec
  if (volume === undefined || volume.systemIdentifier !== point.systemIdentifier)
    return statusOnly(
      failed(
        backup,
        { reason: 'OtherData', message: 'the Postgres that answered does not use the recorded volume' },
        now,
      ),
    )
  return {
    actions: [
      {
        do: 'create-snapshot',
        of: { ...point, claim: volume.claim, claimUid: volume.uid, pgVersion, region },
      },
    ],
    status: running(backup, 'Snapshotting', 'requesting a snapshot from the storage', now),
    requeueAt: undefined,
  }
}

function withSnapshot(observed: Observed, snapshot: SnapshotFacts, now: number, deadlines: BackupDeadlines): Plan {
  const { backup } = observed
  const fault = faultOf(observed, snapshot, now, deadlines)
  if (fault !== undefined)
    return statusOnly({ ...failed(backup, fault, now), ...(snapshot.isOwn ? { snapshotName: snapshot.name } : {}) })
  const { takenFrom, cutAt, isReady, bytes } = snapshot
  const known = {
    snapshotName: snapshot.name,
    ...(cutAt === undefined ? {} : { cutAt: timestamp(cutAt) }),
    startLsn: takenFrom?.startLsn,
    endLsn: takenFrom?.endLsn,
    timeline: takenFrom?.timeline,
    systemIdentifier: takenFrom?.systemIdentifier,
    pgVersion: takenFrom?.pgVersion,
    region: takenFrom?.region,
    ...(bytes === undefined ? {} : { sizeBytes: bytes }),
  }
  if (cutAt === undefined)
    return {
      actions: [],
      status: { ...running(backup, 'Snapshotting', 'the storage takes the snapshot', now), ...known },
      requeueAt: progressedAt(snapshot) + (snapshot.error === undefined ? deadlines.cutMs : deadlines.errorMs),
    }
  if (!isReady)
    return {
      actions: [],
      status: { ...running(backup, 'Finishing', 'the snapshot is taken, but not ready yet', now), ...known },
      requeueAt: progressedAt(snapshot) + (snapshot.error === undefined ? deadlines.readyMs : deadlines.errorMs),
    }
  return statusOnly({
    ...finished(backup, now),
    ...known,
    ...(isVerifiedAutomatically(observed) ? verificationPending : {}),
  })
}

/** When a snapshot last made progress. The later time counts, because the clock of the storage may differ. */
const progressedAt = ({ requestedAt, cutAt = 0 }: Pick<SnapshotFacts, 'requestedAt' | 'cutAt'>): number =>
  Math.max(requestedAt, cutAt)

/** Why a snapshot can no longer succeed. */
function faultOf(
  { source, claimUid }: Observed,
  { isOwn, isDeleting, isReady, takenFrom, cutAt, requestedAt, error, name }: SnapshotFacts,
  now: number,
  { errorMs, cutMs, readyMs }: BackupDeadlines,
): Refusal | undefined {
  if (!isOwn)
    return {
      reason: 'NameTaken',
      message: `VolumeSnapshot ${name} exists and was not created for this backup: check it before you delete it`,
    }
  if (isDeleting) return deletedByHand
  if (takenFrom === undefined)
    return {
      reason: 'SnapshotUnknown',
      message: `the annotation ${sourceAnnotation} of the snapshot is missing or invalid`,
    }
  if (claimUid !== undefined && claimUid !== takenFrom.claimUid)
    return {
      reason: 'OtherData',
      message: `the volume claim ${takenFrom.claim} was replaced by another one with the same name`,
    }
  if (isReady) return undefined
  if (cutAt === undefined && source === undefined)
    return { reason: 'DatabaseMissing', message: 'the database was deleted before the snapshot was taken' }
  const since = progressedAt({ requestedAt, cutAt })
  if (error !== undefined && now >= since + errorMs)
    return { reason: 'SnapshotFailed', message: `the storage cannot take the snapshot: ${error}` }
  if (now < since + (cutAt === undefined ? cutMs : readyMs)) return undefined
  const what = cutAt === undefined ? 'not taken' : 'taken, but not ready'
  return { reason: 'SnapshotStalled', message: `the snapshot is ${what} after ${Math.round((now - since) / 1000)} s` }
}
