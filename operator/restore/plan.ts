/**
 * From what was observed of a restore to what is to be done and what is to be said: a pure function, the same after a crash at
 * any point. The order: the anchor is asked for, so that it is in the list; a new volume is made of the snapshot and a Postgres
 * starts on it, closed, beside the old one; when it has answered, the old one is stopped, and a lock keeps it from starting;
 * the anchor is a snapshot of the stopped volume; then the restore says in its status which volume is to serve. The database's own
 * controller records that volume by one write of its status, and serves from it. What fails before that leaves the old volume serving, and so does an anchor that cannot be taken, unless somebody
 * has agreed to that. From the switch on the old volume is the database's to keep (managed-database/plan/previous.ts).
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
import { completed, conditionOf, no, yes } from '../objects/conditions.ts'
import { isTakenFor, takenBy } from '../objects/operator-backups.ts'
import { withFindings } from '../objects/run-status.ts'
import { isTrouble } from '../run/trouble.ts'
import { type Action, lookMs, type Plan, type Status } from './actions.ts'
import { isAnchorOf, nameTaken, takenNameOf } from './anchor.ts'
import { ended, isHandedOver, isSwitched, removal } from './ended.ts'
import type { Candidate, Observed } from './observed.ts'
import { failed, pending, running } from './status.ts'

/** How long a restore may take until the new volume serves, and then until that answers clients. */
export type RestoreDeadlines = { restoringMs: number; modifyingMs: number }

/** With as many previous volumes kept, another restore is refused. */
const mostPrevious = 32

export function plan(observed: Observed, now: number, deadlines: RestoreDeadlines): Plan {
  const { restore } = observed
  const { metadata, status = {} } = restore
  const isHeld = metadata.finalizers?.includes(teardownFinalizer) === true
  if (metadata.deletionTimestamp !== undefined && !isHeld) return { actions: [], status }
  if (!isOpenRestore(restore)) return ended(observed, now)
  const isAwaited = isHandedOver(restore) && !isSwitched(observed)
  if (metadata.deletionTimestamp !== undefined && !isAwaited && !isSwitched(observed))
    return { actions: [], status: failed(restore, 'Deleted', 'the restore was deleted before its data served', now) }
  if (status.phase === undefined) {
    // An object out of a backup of the cluster asks for nothing: what it asked for was long ago.
    if (isHeld) return { actions: [], status: failed(restore, 'PutBack', 'it was put back: ask for a new one', now) }
    return { actions: [], status: pending(restore, 'Queued', 'it is being looked at', now) }
  }
  if (!isHeld) return { actions: [{ do: 'identify' }], status }
  if (isAwaited) return handedOver(observed, now)
  if (status.phase === 'pending') return begin(observed, now, deadlines)
  return isSwitched(observed) ? switched(observed, now, deadlines) : underWay(observed, now)
}

/** Why nothing can come of it, whatever is waited for. */
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

/** Its turn: nothing else is under way for the database, or the database asks for this. */
function begin(observed: Observed, now: number, { restoringMs }: RestoreDeadlines): Plan {
  const { restore, database, ahead, isAsked, freeIncarnation } = observed
  const refusal = refusalOf(observed)
  if (refusal !== undefined || database === undefined)
    return { actions: [], status: failed(restore, refusal?.reason ?? '', refusal?.message ?? '', now) }
  const wait = (message: string): Plan => ({ actions: [], status: pending(restore, 'Queued', message, now) })
  if (ahead !== undefined) return wait(`waiting for ${ahead}: one restore of a database is done at a time`)
  const isFree = database.status?.operation === undefined && isInForce(database)
  if (!isAsked && !isFree) return wait(`the database is ${visiblePhase(database)}: waiting until it is at rest`)
  const unsafe = unsafeReason(observed)
  if (unsafe !== undefined) return { actions: [], status: failed(restore, unsafe.reason, unsafe.message, now) }
  const { incarnation = 1, volume } = database.status ?? {}
  return {
    actions: isAsked ? [] : [{ do: 'ask', backupName: restore.spec.target.backupName ?? '' }],
    status: running(
      {
        ...restore,
        status: {
          ...restore.status,
          startedAt: timestamp(now),
          deadlineAt: timestamp(now + restoringMs),
          anchor: takenNameOf(restore, 'prerestore'),
          incarnation: Math.max(freeIncarnation, incarnation + 1),
          previous: { incarnation, ...(volume === undefined ? {} : { claim: volume.claim, uid: volume.uid }) },
        },
      },
      'Preparing',
      'the restore begins',
      now,
    ),
  }
}

/** Whether somebody agrees to lose the present data. */
const isDiscarding = ({ spec }: Restore): boolean => spec.discardPrevious === true

const howToDiscard =
  'To restore without a backup of the present data, ask with discard_previous: true (spec.discardPrevious of a Restore)'

/** Why the present data would be at risk; known before anything is made. */
function unsafeReason({ restore, database, unanchorable }: Observed): { reason: string; message: string } | undefined {
  if (unanchorable !== undefined && !isDiscarding(restore))
    return {
      reason: 'NoBackupPossible',
      message: `the present data cannot be backed up first: ${unanchorable}. ${howToDiscard}`,
    }
  const kept = database?.status?.previous?.length ?? 0
  if (kept < mostPrevious) return undefined
  return {
    reason: 'TooManyPrevious',
    message: `the database has ${kept} volumes of before earlier restores, the most are ${mostPrevious}: delete some of them first (status.previous)`,
  }
}

/** Until the new volume serves. */
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
    const message = (isTrouble(before) ? before : conditionOf(next.status, 'Progressing'))?.message ?? ''
    return {
      actions: [],
      status: failed(restore, 'DeadlineExceeded', `not done by ${status.deadlineAt}: ${message}`, now),
    }
  }
  return { ...next, wakeAt: Math.min(Date.parse(status.deadlineAt ?? ''), next.wakeAt ?? Number.POSITIVE_INFINITY) }
}

function step(observed: Observed, candidate: Candidate | undefined, now: number): Plan {
  const { restore, anchor, suspensionBlock, old } = observed
  const { status = {} } = restore
  const { anchorRefused, previous } = status
  const told = (reason: string, message: string, more: Partial<Status> = {}, actions: Action[] = []): Plan => ({
    actions: [...actions, ...ofCandidate(candidate)],
    status: running({ ...restore, status: { ...status, ...more } }, reason, message, now),
    wakeAt: now + lookMs,
  })
  // What is somebody else's is not taken for the data as they were.
  if (anchor !== undefined && !isAnchorOf(restore, anchor))
    return {
      actions: [],
      status: { ...failed(restore, 'NameTaken', nameTaken(anchor.metadata.name), now), anchor: undefined },
    }
  const lost = anchorRefused ?? (anchor?.status?.phase === 'failed' ? anchor.status.error : undefined)
  if (lost !== undefined && !isDiscarding(restore)) return unanchored(restore, lost, now)
  // In the list before anything is moved.
  if (anchor === undefined && anchorRefused === undefined) {
    const why =
      previous?.claim === undefined
        ? 'no volume was on record'
        : status.fencedAt !== undefined
          ? 'the prerestore backup was deleted'
          : undefined
    if (why !== undefined && !isDiscarding(restore)) return unanchored(restore, why, now)
    if (why !== undefined)
      return told(status.fencedAt === undefined ? 'Preparing' : 'Anchoring', 'no anchor', { anchorRefused: why })
    const name = status.anchor ?? takenNameOf(restore, 'prerestore')
    const take: Action = { do: 'take-backup', name, purpose: 'prerestore' }
    return told('Preparing', 'asking for the anchor', {}, [take])
  }
  if (candidate?.state !== 'ready') return told('Starting', candidate?.message ?? 'a volume is made of the backup', {})
  const verified = { verifiedAt: status.verifiedAt ?? timestamp(now) }
  if (status.fencedAt === undefined) {
    if (suspensionBlock !== undefined) return told(suspensionBlock.reason, suspensionBlock.message, verified)
    return told('Stopping', 'the restored data are there: the old Postgres is stopped', {
      ...verified,
      fencedAt: timestamp(now),
    })
  }
  if (old === 'running') return told('Stopping', 'waiting until the old Postgres has stopped')
  if (old === 'stopped')
    return { ...told('Stopping', 'the old Postgres is kept from starting', {}, [{ do: 'lock' }]), wakeAt: now }
  const isAnchored = anchor?.status?.finishedAt !== undefined
  if (!isAnchored && anchorRefused === undefined) return told('Anchoring', 'the stopped volume is being backed up')
  return {
    actions: [],
    status: switching({ ...restore, status: { ...status, anchorRefused: lost, volume: candidate.volume } }, now),
  }
}

const switching = (restore: Restore, now: number): Status =>
  running(restore, 'Switching', 'the restored data take the place of the old', now)

/**
 * The database's own controller makes the restored volume serve. Nothing ends the restore before that, neither its deletion nor its
 * deadline, unless the database cannot do it any more: a pass that began earlier may still write it. After the deadline the conditions
 * report that the database is late, and why.
 */
function handedOver({ restore, database }: Observed, now: number): Plan {
  const { previous, deadlineAt = '' } = restore.status ?? {}
  const end = (reason: string, message: string): Plan => ({
    actions: [],
    status: failed(restore, reason, message, now),
  })
  if (database?.metadata.deletionTimestamp !== undefined)
    return end('DatabaseDeleting', 'the database is being deleted')
  const isLate = now >= Date.parse(deadlineAt)
  const { databaseName, databaseId } = restore.spec
  // One whose label somebody changed is there again with the next pass of its controller.
  if (database === undefined && isLate)
    return end('DatabaseMissing', `there is no database ${databaseName} with the id ${databaseId}`)
  const { incarnation = 1 } = database?.status ?? {}
  if (database !== undefined && incarnation !== previous?.incarnation && isLate)
    return end('OtherVolume', `the database serves from another volume meanwhile: number ${incarnation}`)
  const status = isLate && database !== undefined ? overdue(restore, database, now) : switching(restore, now)
  return { actions: [], status, wakeAt: now + lookMs }
}

/** Clients are not served meanwhile: the previous Postgres is stopped. */
function overdue(restore: Restore, database: ManagedDatabase, now: number): Status {
  const { message = 'its status has no condition Ready' } = conditionOf(database.status, 'Ready') ?? {}
  return running(
    restore,
    'Switching',
    `overdue since ${restore.status?.deadlineAt}: the operator has not recorded the restored volume in the status of the database, ` +
      `and Postgres is stopped until it has; Ready of the database: ${message}`,
    now,
  )
}

/** The restored data do not replace data of which there is no copy: the database goes on with those it has. */
const unanchored = (restore: Restore, why: string, now: number): Plan => ({
  actions: [],
  status: failed(
    { ...restore, status: { ...restore.status, anchorRefused: why } },
    'BackupFailed',
    `the present data could not be backed up first: ${why}. The database goes on with them. ${howToDiscard}`,
    now,
  ),
})

const ofCandidate = (candidate: Candidate | undefined): Action[] =>
  (candidate?.actions ?? []).map(action => ({ do: 'candidate', action }))

/** The new volume serves, or comes to: the database's own controller does that. */
function switched(observed: Observed, now: number, { modifyingMs }: RestoreDeadlines): Plan {
  const { restore, database, anchor, after } = observed
  const isRefused = anchor?.status?.phase === 'failed' && isAnchorOf(restore, anchor)
  const refused = restore.status?.anchorRefused ?? (isRefused ? anchor.status?.error : undefined)
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
      return { actions: [], status: failed(known, 'NotServing', `the restored data do not serve: ${message}`, now) }
    return {
      actions: removal(observed),
      status: running(known, 'Opening', `the endpoint is opened: ${message}`, now),
      wakeAt: until,
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
        'asking for a backup of what was restored',
        now,
      ),
      wakeAt: now + lookMs,
    }
  const done = 'the data are restored'
  const message = isTaken ? `${done}, and there is no backup of them: ${nameTaken(name)}` : done
  return {
    actions: removal(observed),
    status: withFindings(
      known,
      { ...status, phase: 'completed', finishedAt: timestamp(now) },
      { Ready: yes(completed, message), Progressing: no(completed, message) },
      now,
    ),
    wakeAt: now + lookMs,
  }
}
