/**
 * From what was observed of a backup to what is to be done and what is to be said: a pure function, the same after a crash
 * at any point. The order: a checkpoint; the snapshot, which carries what the checkpoint said; its cut; ready. What has
 * ended stays as it ended, but for a completed one whose snapshot is taken away. What failed leaves no snapshot; but one that was
 * completed is deleted by nobody here before the backup is, whatever was said of it in between.
 */
import { annotations, teardownFinalizer } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf, yes } from '../../objects/conditions.ts'
import { withFindings } from '../../objects/run-status.ts'
import type { RestorePoint } from '../../postgres/administrator.ts'
import { isPutBack } from '../id.ts'
import type { AnchorFacts, Observed, SnapshotFacts, Source } from '../observed.ts'
import type { Action, BackupDeadlines } from './actions.ts'
import { awaiting, checkpointing, lapseOf, waitsUntil } from './patience.ts'
import { type Refusal, refusalOf } from './refusal.ts'
import { failed, finished, running, type Status, usedUp, waiting } from './status.ts'
import { isVerifiedByItself, planVerification, verificationPending } from './verification.ts'

export type Plan = {
  actions: Action[]
  status: Status
  /** When to look again even if nothing happens, in ms since the epoch. */
  wakeAt: number | undefined
}

/** How soon it is looked whether a checkpoint has begun: one that found no room to wait is asked for again. */
const roomMs = 5_000
/** How soon it is looked again whether Postgres has stopped. */
const stopMs = 250

export function plan(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, id } = observed
  const { metadata, status = {} } = backup
  const isHeld = metadata.finalizers?.includes(teardownFinalizer) === true
  if (metadata.deletionTimestamp !== undefined) return isHeld ? teardown(observed, now) : still(status)
  if (status.finishedAt !== undefined) return ended(observed, now, deadlines)
  // What an earlier version refused has a phase and no end.
  if (status.phase === 'failed') return still(status)
  const isBackAgain = isPutBack(backup, id)
  if (isBackAgain && observed.snapshot === 'absent') return still(failed(backup, putBack, now))
  const isNew = status.phase === undefined && !isBackAgain && metadata.annotations?.[annotations.firstUid] === undefined
  if (id === undefined || !isHeld || isNew) return { ...still(status), actions: [{ do: 'identify', id }] }
  const next = underWay(observed, now, deadlines)
  return { ...next, status: { ...next.status, taskId: observed.taskId } }
}

const putBack: Refusal = {
  reason: 'PutBack',
  message: 'it was put back without its snapshot: there is nothing to restore from. Delete it, and ask for a new one',
}

/** Of one that was completed. */
const snapshotLost = 'SnapshotLost'

const still = (status: Status): Plan => ({ actions: [], status, wakeAt: undefined })

const removal = ({ name, uid, isGoing }: SnapshotFacts): Action[] =>
  isGoing ? [] : [{ do: 'delete-snapshot', name, uid }]

const ours = ({ snapshot }: Observed): SnapshotFacts | undefined =>
  typeof snapshot === 'object' && snapshot.isOurs ? snapshot : undefined

const unrecorded = yes('AwaitingRecord', 'it is deleted once the status of the database records when it was due')

/** Nothing is let go of before the cluster itself says that the snapshot is gone. */
function teardown(observed: Observed, now: number): Plan {
  const { backup, snapshot, usedBy, awaitsRecord } = observed
  const plan = still(backup.status ?? {})
  if (usedBy !== undefined && snapshot !== 'absent')
    return still(
      withFindings(
        backup,
        backup.status ?? {},
        { Progressing: yes('InUse', `${usedBy} needs it: it is deleted when that has its data`) },
        now,
      ),
    )
  if (snapshot === 'unknown') return plan
  const left = ours(observed)
  if (observed.verification.isThere) return { ...plan, actions: [{ do: 'end-verification' }] }
  if (left !== undefined) return { ...plan, actions: removal(left) }
  if (awaitsRecord) return still(withFindings(backup, backup.status ?? {}, { Progressing: unrecorded }, now))
  return { ...plan, actions: [{ do: 'release' }] }
}

/** Why a snapshot that was ready is of no use any more: it was deleted, or the VolumeSnapshotContent behind it. */
function lostMessage(left: SnapshotFacts | undefined): string | undefined {
  if (left === undefined || left.isGoing) return 'its snapshot was deleted: there is nothing to restore from'
  const isUnusable = !left.isReady && left.error !== undefined && left.becameVolume === undefined
  return isUnusable ? `its snapshot is of no use any more (${left.error}): there is nothing to restore from` : undefined
}

function ended(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, snapshot, isTaskOver } = observed
  const { status = {} } = backup
  const left = ours(observed)
  if (status.phase === 'completed') {
    const lost = snapshot === 'unknown' ? undefined : lostMessage(left)
    if (lost !== undefined) return still(failed(backup, { reason: snapshotLost, message: lost }, now))
  }
  if (status.phase === 'completed' && left?.becameVolume !== undefined)
    return still(usedUp(backup, left.becameVolume, now))
  const { taskId: _, ...rest } = status
  const isWaste = status.phase === 'failed' && conditionOf(status, 'Ready')?.reason !== snapshotLost
  const checked = planVerification(observed, now, deadlines)
  return {
    actions: [...(isWaste && left !== undefined ? removal(left) : []), ...checked.actions],
    status: { ...(isTaskOver ? rest : status), ...checked.status },
    wakeAt: checked.wakeAt,
  }
}

function underWay(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, snapshot } = observed
  if (typeof snapshot === 'object') return withSnapshot(observed, snapshot, now, deadlines)
  const refusal = refusalOf(observed)
  if (refusal !== undefined) return still(failed(backup, refusal, now))
  if (snapshot === 'unknown' || observed.source === undefined) return untilKnown(observed, now, deadlines)
  if (backup.status?.snapshotName !== undefined) return still(failed(backup, deletedByHand, now))
  if (observed.anchorOf !== undefined) return anchor(observed, observed.anchorOf, observed.source, now)
  return withoutSnapshot(observed, observed.source, now, deadlines)
}

/** The cluster has not said yet whether there are snapshots: until it does, nothing is begun and nothing given up. */
function untilKnown({ backup, snapshotsAskedAt }: Observed, now: number, { cutMs }: BackupDeadlines): Plan {
  const until = snapshotsAskedAt + cutMs
  if (now >= until) return still(failed(backup, snapshotsUnknown, now))
  return { ...still(waiting(backup, 'Preparing', 'looking for its snapshot', now)), wakeAt: until }
}

const snapshotsUnknown: Refusal = {
  reason: 'SnapshotsUnknown',
  message: 'the cluster does not say what snapshots of volumes there are: see the log of the operator',
}

const deletedByHand: Refusal = {
  reason: 'SnapshotDeleted',
  message: 'its snapshot was deleted by somebody before it was ready',
}

/** Everything up to the snapshot: its turn, a database that answers, the checkpoint. */
function withoutSnapshot(observed: Observed, source: Source, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, ahead, checkpoint } = observed
  if (checkpoint.state === 'failed')
    return still(
      failed(
        backup,
        { reason: 'CheckpointFailed', message: `the checkpoint before the snapshot failed: ${checkpoint.message}` },
        now,
      ),
    )
  if (checkpoint.state === 'succeeded') return cut(observed, source, checkpoint.point, now)
  if (backup.status?.phase !== 'running' && ahead !== undefined)
    return still(waiting(backup, 'Queued', `waiting for ${ahead}: one backup of a database is taken at a time`, now))
  if (checkpoint.state === 'running')
    return { ...still(checkpointing(backup, checkpoint.since, now)), wakeAt: now + roomMs }
  const lapse = lapseOf(source, checkpoint)
  if (lapse === undefined)
    return { actions: [{ do: 'checkpoint' }], status: checkpointing(backup, now, now), wakeAt: now + roomMs }
  const until = waitsUntil(backup, source, lapse, now, deadlines)
  if (now >= until) return still(failed(backup, { reason: 'DatabaseNotServing', message: lapse.message }, now))
  const status = awaiting(backup, lapse.message, now)
  const { askAt = Number.POSITIVE_INFINITY } = lapse
  if (now < askAt) return { ...still(status), wakeAt: Math.min(until, askAt) }
  return { actions: [{ do: 'checkpoint' }], status, wakeAt: Math.min(until, now + roomMs) }
}
/** The volume of a Postgres that a restore has stopped: whatever was written is in it, and nothing is written any more. */
function anchor({ backup }: Observed, facts: AnchorFacts, { database }: Source, now: number): Plan {
  if (facts.state === 'over')
    return still(failed(backup, { reason: 'RestoreEnded', message: 'its restore ended before it came to this' }, now))
  if (facts.state !== 'stopped')
    return {
      ...still(waiting(backup, 'AwaitingStop', 'waiting until the restore has stopped Postgres', now)),
      wakeAt: facts.state === 'stopping' ? now + stopMs : undefined,
    }
  const { claim, claimUid, systemIdentifier, isThere } = facts
  if (!isThere)
    return still(
      failed(backup, { reason: 'VolumeLost', message: `the volume claim ${claim} is not there any more` }, now),
    )
  const { pgVersion, region } = database.spec
  return {
    actions: [{ do: 'create-snapshot', of: { systemIdentifier, claim, claimUid, pgVersion, region } }],
    status: running(backup, 'Snapshotting', 'asking the storage for a snapshot of the stopped volume', now),
    wakeAt: undefined,
  }
}

function cut({ backup }: Observed, { database }: Source, point: RestorePoint, now: number): Plan {
  const volume = database.status?.volume
  const { pgVersion, region } = database.spec
  if (volume === undefined || volume.systemIdentifier !== point.systemIdentifier)
    return still(
      failed(
        backup,
        { reason: 'OtherData', message: 'the Postgres that answered is not of the volume on record' },
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
    status: running(backup, 'Snapshotting', 'asking the storage for a snapshot', now),
    wakeAt: undefined,
  }
}

function withSnapshot(observed: Observed, snapshot: SnapshotFacts, now: number, deadlines: BackupDeadlines): Plan {
  const { backup } = observed
  const fault = faultOf(observed, snapshot, now, deadlines)
  if (fault !== undefined)
    return still({ ...failed(backup, fault, now), ...(snapshot.isOurs ? { snapshotName: snapshot.name } : {}) })
  const { cutOf, cutAt, isReady, bytes } = snapshot
  const known = {
    snapshotName: snapshot.name,
    ...(cutAt === undefined ? {} : { cutAt: timestamp(cutAt) }),
    startLsn: cutOf?.startLsn,
    endLsn: cutOf?.endLsn,
    timeline: cutOf?.timeline,
    systemIdentifier: cutOf?.systemIdentifier,
    pgVersion: cutOf?.pgVersion,
    region: cutOf?.region,
    ...(bytes === undefined ? {} : { sizeBytes: bytes }),
  }
  if (cutAt === undefined)
    return {
      actions: [],
      status: { ...running(backup, 'Snapshotting', 'the storage makes the snapshot', now), ...known },
      wakeAt: progressedAt(snapshot) + (snapshot.error === undefined ? deadlines.cutMs : deadlines.errorMs),
    }
  if (!isReady)
    return {
      actions: [],
      status: { ...running(backup, 'Finishing', 'the snapshot is cut, and is being made ready', now), ...known },
      wakeAt: progressedAt(snapshot) + (snapshot.error === undefined ? deadlines.readyMs : deadlines.errorMs),
    }
  return still({ ...finished(backup, now), ...known, ...(isVerifiedByItself(observed) ? verificationPending : {}) })
}

/** When a snapshot came further last. The clock of the storage may be another one than the cluster's. */
const progressedAt = ({ askedAt, cutAt = 0 }: Pick<SnapshotFacts, 'askedAt' | 'cutAt'>): number =>
  Math.max(askedAt, cutAt)

/** Why nothing comes of a snapshot any more. */
function faultOf(
  { source, claimUid }: Observed,
  { isOurs, isGoing, isReady, cutOf, cutAt, askedAt, error, name }: SnapshotFacts,
  now: number,
  { errorMs, cutMs, readyMs }: BackupDeadlines,
): Refusal | undefined {
  if (!isOurs)
    return {
      reason: 'NameTaken',
      message: `VolumeSnapshot ${name} belongs to someone else: look at what it is before you delete it`,
    }
  if (isGoing) return deletedByHand
  if (cutOf === undefined)
    return { reason: 'SnapshotUnknown', message: 'the snapshot does not say any more what it was made of' }
  if (claimUid !== undefined && claimUid !== cutOf.claimUid)
    return { reason: 'OtherData', message: `another volume claim has taken the name ${cutOf.claim} meanwhile` }
  if (isReady) return undefined
  if (cutAt === undefined && source === undefined)
    return { reason: 'DatabaseMissing', message: 'the database was deleted before the snapshot was cut' }
  const since = progressedAt({ askedAt, cutAt })
  if (error !== undefined && now >= since + errorMs)
    return { reason: 'SnapshotFailed', message: `the storage makes no snapshot: ${error}` }
  if (now < since + (cutAt === undefined ? cutMs : readyMs)) return undefined
  const what = cutAt === undefined ? 'not cut' : 'cut, and not ready'
  return { reason: 'SnapshotStalled', message: `the snapshot is ${what} after ${Math.round((now - since) / 1000)} s` }
}
