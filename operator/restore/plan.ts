/**
 * Plans the actions and the status of a restore. The plan is a pure function of the observed state, so it continues
 * after a crash at any point. The operator
 *
 * 1. requests the prerestore backup (`anchor` in the status), so that users see it in the list of backups;
 * 2. creates a new volume from the snapshot or the archive, and starts a new Postgres on it that refuses clients;
 * 3. stops the old Postgres once the new one has answered, and locks the old one;
 * 4. takes the prerestore backup: a snapshot of the stopped volume;
 * 5. records the new volume in the status of the Restore;
 * 6. switches: the database controller records that volume in one update of the database's status, and uses it.
 *
 * If a step before the switch fails, the database keeps the old volume. This includes the prerestore backup, unless the
 * user has set discardPrevious. After the switch the old volume belongs to the database
 * (managed-database/plan/previous.ts).
 */
import {
  isInForce,
  isOpenRestore,
  type ManagedDatabase,
  type Restore,
  teardownFinalizer,
  visiblePhase,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { recoveryMs } from '../backup/recovery.ts'
import { completed, conditionOf, no, yes } from '../objects/conditions.ts'
import { isTakenFor, takenBy } from '../objects/operator-backups.ts'
import { withFindings } from '../objects/run-status.ts'
import { isProblem } from '../run/problem.ts'
import { type Action, type Plan, recheckMs, type Status } from './actions.ts'
import { ended, isSwitched, isSwitchRequested, removal } from './ended.ts'
import type { Candidate, Observed } from './observed.ts'
import { isPrerestoreOf, nameTaken, takenNameOf } from './own-backups.ts'
import { failed, pending, running } from './status.ts'

/** `restoringMs`: timeout until the switch. `modifyingMs`: timeout from the switch until the database is Ready. */
export type RestoreDeadlines = { restoringMs: number; modifyingMs: number }

/** If a database has this many previous volumes, another restore is refused. */
const mostPrevious = 32

export function plan(observed: Observed, now: number, deadlines: RestoreDeadlines): Plan {
  const { restore } = observed
  const { metadata, status = {} } = restore
  const hasTeardownFinalizer = metadata.finalizers?.includes(teardownFinalizer) === true
  if (metadata.deletionTimestamp !== undefined && !hasTeardownFinalizer) return { actions: [], status }
  if (!isOpenRestore(restore)) return ended(observed, now)
  const awaitsSwitch = isSwitchRequested(restore) && !isSwitched(observed)
  if (metadata.deletionTimestamp !== undefined && !awaitsSwitch && !isSwitched(observed))
    return {
      actions: [],
      status: failed(
        restore,
        'Deleted',
        'the Restore was deleted before the database switched to the restored data',
        now,
      ),
    }
  if (status.phase === undefined) {
    // The request of a Restore that was recreated from a backup of the cluster is outdated.
    if (hasTeardownFinalizer)
      return {
        actions: [],
        status: failed(
          restore,
          'PutBack',
          'the Restore was recreated, so its request is outdated: create a new one',
          now,
        ),
      }
    return { actions: [], status: pending(restore, 'Queued', 'the request is being checked', now) }
  }
  if (!hasTeardownFinalizer) return { actions: [{ do: 'add-finalizer' }], status }
  if (awaitsSwitch) return awaitSwitch(observed, now)
  if (status.phase === 'pending') return begin(observed, now, deadlines)
  return isSwitched(observed) ? switched(observed, now, deadlines) : underWay(observed, now)
}

/** Permanent reasons why the restore cannot succeed. */
function refusalOf({ restore, database, backup, source }: Observed): { reason: string; message: string } | undefined {
  const { databaseName, databaseId } = restore.spec
  if (database === undefined)
    return { reason: 'DatabaseMissing', message: `there is no database ${databaseName} with the id ${databaseId}` }
  if (database.metadata.deletionTimestamp !== undefined)
    return { reason: 'DatabaseDeleting', message: 'the database is being deleted' }
  if (backup !== undefined && (backup.spec.databaseId !== databaseId || backup.spec.sourceBranch !== undefined))
    return { reason: 'OtherDatabase', message: `the backup ${backup.metadata.name} is not one of this database` }
  return 'refused' in source ? source.refused : undefined
}

/** Waits until no other operation runs for the database, or the database requests this restore. */
function begin(observed: Observed, now: number, { restoringMs }: RestoreDeadlines): Plan {
  const { restore, database, blockedBy, isRequested, freeIncarnation, recovery } = observed
  const refusal = refusalOf(observed)
  if (refusal !== undefined || database === undefined)
    return { actions: [], status: failed(restore, refusal?.reason ?? '', refusal?.message ?? '', now) }
  const wait = (message: string): Plan => ({ actions: [], status: pending(restore, 'Queued', message, now) })
  if (blockedBy !== undefined) return wait(`waiting for ${blockedBy}: one restore of a database is done at a time`)
  const isFree = database.status?.operation === undefined && isInForce(database)
  if (!isRequested && !isFree) return wait(`the database is ${visiblePhase(database)}: waiting until no operation runs`)
  const unsafe = unsafeReason(observed)
  if (unsafe !== undefined) return { actions: [], status: failed(restore, unsafe.reason, unsafe.message, now) }
  const { incarnation = 1, volume } = database.status ?? {}
  return {
    actions: isRequested ? [] : [{ do: 'request-on-database' }],
    status: running(
      {
        ...restore,
        status: {
          ...restore.status,
          startedAt: timestamp(now),
          deadlineAt: timestamp(now + restoringMs + recoveryMs(recovery)),
          anchor: takenNameOf(restore, 'prerestore'),
          incarnation: Math.max(freeIncarnation, incarnation + 1),
          ...(recovery === undefined ? {} : { recovery }),
          previous: { incarnation, ...(volume === undefined ? {} : { claim: volume.claim, uid: volume.uid }) },
        },
      },
      'Preparing',
      'the restore starts',
      now,
    ),
  }
}

/** Whether the user has agreed to lose the current data. */
const isDiscarding = ({ spec }: Restore): boolean => spec.discardPrevious === true

const howToDiscard =
  'To restore without a backup of the current data, set discard_previous: true (spec.discardPrevious of a Restore)'

/** Why the restore would put the current data at risk; determined before anything is created. */
function unsafeReason({
  restore,
  database,
  prerestoreRefusal,
}: Observed): { reason: string; message: string } | undefined {
  if (prerestoreRefusal !== undefined && !isDiscarding(restore))
    return {
      reason: 'NoBackupPossible',
      message: `the current data cannot be backed up first: ${prerestoreRefusal}. ${howToDiscard}`,
    }
  const previousCount = database?.status?.previous?.length ?? 0
  if (previousCount < mostPrevious) return undefined
  return {
    reason: 'TooManyPrevious',
    message: `the database has ${previousCount} previous volumes; the maximum is ${mostPrevious}: delete some of them first (see status.previous)`,
  }
}

/** Plans a running restore before the switch. */
function underWay(observed: Observed, now: number): Plan {
  const { restore, candidate } = observed
  const { status = {} } = restore
  const refusal = refusalOf(observed)
  const isOver =
    refusal !== undefined && (observed.database?.metadata.deletionTimestamp !== undefined || !candidate?.isBound)
  if (isOver) return { actions: [], status: failed(restore, refusal.reason, refusal.message, now) }
  if (candidate?.state === 'failed')
    return { actions: [], status: failed(restore, candidate.reason, candidate.message, now) }
  const next = step(observed, candidate, now)
  if (now >= Date.parse(status.deadlineAt ?? '')) {
    const before = conditionOf(status, 'Progressing')
    const message = (isProblem(before) ? before : conditionOf(next.status, 'Progressing'))?.message ?? ''
    return {
      actions: [],
      status: failed(restore, 'DeadlineExceeded', `not done by ${status.deadlineAt}: ${message}`, now),
    }
  }
  return {
    ...next,
    requeueAt: Math.min(Date.parse(status.deadlineAt ?? ''), next.requeueAt ?? Number.POSITIVE_INFINITY),
  }
}

function step(observed: Observed, candidate: Candidate | undefined, now: number): Plan {
  const { restore, prerestore, suspensionBlock, oldPostgres } = observed
  const { status = {} } = restore
  const { anchorRefused, previous } = status
  const progressing = (reason: string, message: string, more: Partial<Status> = {}, actions: Action[] = []): Plan => ({
    actions: [...actions, ...ofCandidate(candidate)],
    status: running({ ...restore, status: { ...status, ...more } }, reason, message, now),
    requeueAt: now + recheckMs,
  })
  // A backup of another owner does not count as the prerestore backup.
  if (prerestore !== undefined && !isPrerestoreOf(restore, prerestore))
    return {
      actions: [],
      status: { ...failed(restore, 'NameTaken', nameTaken(prerestore.metadata.name), now), anchor: undefined },
    }
  const lost = anchorRefused ?? (prerestore?.status?.phase === 'failed' ? prerestore.status.error : undefined)
  if (lost !== undefined && !isDiscarding(restore)) return failedWithoutBackup(restore, lost, now)
  // The prerestore backup is requested before anything else is changed.
  if (prerestore === undefined && anchorRefused === undefined) {
    const why =
      previous?.claim === undefined
        ? 'no volume was recorded'
        : status.fencedAt !== undefined
          ? 'the prerestore backup was deleted'
          : undefined
    if (why !== undefined && !isDiscarding(restore)) return failedWithoutBackup(restore, why, now)
    if (why !== undefined)
      return progressing(
        status.fencedAt === undefined ? 'Preparing' : 'Anchoring',
        'continuing without a prerestore backup',
        { anchorRefused: why },
      )
    const name = status.anchor ?? takenNameOf(restore, 'prerestore')
    const take: Action = { do: 'take-backup', name, purpose: 'prerestore' }
    return progressing('Preparing', 'requesting the prerestore backup', {}, [take])
  }
  if (candidate?.state !== 'ready')
    return progressing(
      'Starting',
      candidate?.message ??
        `a volume is being created from the ${status.recovery === undefined ? 'backup' : 'archive'}`,
      {},
    )
  const verified = { verifiedAt: status.verifiedAt ?? timestamp(now) }
  if (status.fencedAt === undefined) {
    if (suspensionBlock !== undefined) return progressing(suspensionBlock.reason, suspensionBlock.message, verified)
    return progressing('Stopping', 'the restored data are ready: stopping the old Postgres', {
      ...verified,
      fencedAt: timestamp(now),
    })
  }
  if (oldPostgres === 'running') return progressing('Stopping', 'waiting until the old Postgres has stopped')
  if (oldPostgres === 'stopped')
    return {
      ...progressing('Stopping', 'locking the old Postgres, so that it cannot start', {}, [{ do: 'lock' }]),
      requeueAt: now,
    }
  const isAnchored = prerestore?.status?.finishedAt !== undefined
  if (!isAnchored && anchorRefused === undefined)
    return progressing('Anchoring', 'the stopped volume is being backed up')
  return {
    actions: [],
    status: switching({ ...restore, status: { ...status, anchorRefused: lost, volume: candidate.volume } }, now),
  }
}

const switching = (restore: Restore, now: number): Status =>
  running(restore, 'Switching', 'replacing the old data with the restored data', now)

/**
 * Waits until the database controller has switched to the restored volume. Until then, neither a deletion nor the
 * deadline ends the restore, because that controller may be writing the switch. The restore ends only if the database
 * can no longer switch. After the deadline the conditions report the delay and its reason.
 */
function awaitSwitch({ restore, database }: Observed, now: number): Plan {
  const { previous, deadlineAt = '' } = restore.status ?? {}
  const end = (reason: string, message: string): Plan => ({
    actions: [],
    status: failed(restore, reason, message, now),
  })
  if (database?.metadata.deletionTimestamp !== undefined)
    return end('DatabaseDeleting', 'the database is being deleted')
  const isLate = now >= Date.parse(deadlineAt)
  const { databaseName, databaseId } = restore.spec
  // A database whose label was changed is found again after the next pass of its controller.
  if (database === undefined && isLate)
    return end('DatabaseMissing', `there is no database ${databaseName} with the id ${databaseId}`)
  const { incarnation = 1 } = database?.status ?? {}
  if (database !== undefined && incarnation !== previous?.incarnation && isLate)
    return end('OtherVolume', `the database now serves from another volume: number ${incarnation}`)
  const status = isLate && database !== undefined ? overdue(restore, database, now) : switching(restore, now)
  return { actions: [], status, requeueAt: now + recheckMs }
}

/** The status after the deadline. The old Postgres is stopped, so clients cannot connect until the switch. */
function overdue(restore: Restore, database: ManagedDatabase, now: number): Status {
  const { message = 'its status has no condition Ready' } = conditionOf(database.status, 'Ready') ?? {}
  return running(
    restore,
    'Switching',
    `overdue since ${restore.status?.deadlineAt}: the database has not switched to the restored volume. ` +
      `Postgres is stopped until then. Ready condition of the database: ${message}`,
    now,
  )
}

/** Fails the restore, because the current data have no backup. The database keeps the current data. */
const failedWithoutBackup = (restore: Restore, why: string, now: number): Plan => ({
  actions: [],
  status: failed(
    { ...restore, status: { ...restore.status, anchorRefused: why } },
    'BackupFailed',
    `the current data could not be backed up first: ${why}. The database keeps them. ${howToDiscard}`,
    now,
  ),
})

const ofCandidate = (candidate: Candidate | undefined): Action[] =>
  (candidate?.actions ?? []).map(action => ({ do: 'candidate', action }))

/** Plans a restore after the switch. The database controller starts Postgres on the new volume. */
function switched(observed: Observed, now: number, { modifyingMs }: RestoreDeadlines): Plan {
  const { restore, database, prerestore, after } = observed
  const isRefused = prerestore?.status?.phase === 'failed' && isPrerestoreOf(restore, prerestore)
  const refused = restore.status?.anchorRefused ?? (isRefused ? prerestore.status?.error : undefined)
  const status: Status = {
    ...restore.status,
    anchorRefused: refused,
    switchedAt: restore.status?.switchedAt ?? timestamp(now),
  }
  const known = { ...restore, status }
  if (database === undefined || database.metadata.deletionTimestamp !== undefined)
    return { actions: [], status: failed(known, 'DatabaseDeleting', 'the database is being deleted', now) }
  const until = Date.parse(status.switchedAt ?? '') + modifyingMs
  const serves = conditionOf(database.status, 'Ready')?.status === 'True'
  if (!serves && !(database.spec.suspended && conditionOf(database.status, 'Ready')?.reason === 'Suspended')) {
    const message = conditionOf(database.status, 'Ready')?.message ?? ''
    if (now >= until)
      return {
        actions: [],
        status: failed(known, 'NotServing', `Postgres is not Ready on the restored volume: ${message}`, now),
      }
    return {
      actions: removal(observed),
      status: running(known, 'Opening', `opening the endpoint: ${message}`, now),
      requeueAt: until,
    }
  }
  const name = takenNameOf(restore, 'postrestore')
  const isTaken = after !== undefined && !isTakenFor(after, takenBy(restore, 'postrestore'))
  if (serves && status.after === undefined && !isTaken)
    return {
      actions: [{ do: 'take-backup', name, purpose: 'postrestore' }, ...removal(observed)],
      status: running(
        { ...known, status: { ...status, after: name } },
        'Opening',
        'requesting a backup of the restored data',
        now,
      ),
      requeueAt: now + recheckMs,
    }
  const done = 'the data are restored'
  const message = isTaken ? `${done}, but were not backed up: ${nameTaken(name)}` : done
  return {
    actions: removal(observed),
    status: withFindings(
      known,
      { ...status, phase: 'completed', finishedAt: timestamp(now) },
      { Ready: yes(completed, message), Progressing: no(completed, message) },
      now,
    ),
    requeueAt: now + recheckMs,
  }
}
