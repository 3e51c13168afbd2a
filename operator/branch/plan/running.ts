/** Plans a branch after its source is recorded: its volume, its Postgres, and its endpoint. Pure. */

import { type BranchPhase, isMoveRunning } from '../../../crds/index.ts'
import { durationText, preciseTime } from '../../../values/time.ts'
import { recoveryMs } from '../../backup/recovery.ts'
import { conditionOf, yes } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import { isMaintained, type MaintenanceTime, maintenanceAfter } from '../../objects/maintenance.ts'
import type { Owner } from '../../objects/ownership.ts'
import { hasEnded } from '../../owner/operation.ts'
import { statusOf } from '../../owner/plan/status.ts'
import { type Assessment, assess } from '../../workload/plan/assessment.ts'
import { awaitsPostgres, nextActions } from '../../workload/plan/next-actions.ts'
import { remove } from '../../workload/plan/teardown.ts'
import { nextPassAt } from '../../workload/plan/waits.ts'
import type { Action } from '../actions.ts'
import type { BranchStatus, Observed } from '../observed.ts'
import { beginning, deletion, moveAfter, moveDeadline, progressOf, replacedBy, returning } from './moving.ts'
import { endedOperation, operationOf } from './operation.ts'
import { creationFailed, type Plan, type PlanSettings, withFindings } from './plan.ts'
import { isDone, isLostBefore, ownBackup, tryAgain } from './prebranch.ts'
import { isCopiedInstead, isRecovering, recoveringMessage } from './recovering.ts'
import type { Refusal } from './refusal.ts'
import { restartsOf } from './restarts.ts'

/**
 * A connectable branch becomes `failed` after it has not served clients for this time. A restart of Postgres usually
 * takes less time. During a restart in the region's maintenance window, the limit is `maintenanceMs` instead.
 */
const toleratedMs = 60_000
/** The delay before the deletion of a replaced volume is retried. */
const retryMs = 5_000

export function running(observed: Observed, owner: Owner, now: number, settings: PlanSettings): Plan {
  const { branch } = observed
  const backup = ownBackup(observed)
  const { status = {} } = branch
  const time = { now, maintenanceMs: settings.maintenanceMs }
  const begun = beginning(observed, now, settings)
  if (begun !== undefined) return begun
  const assessment = assess(observed, owner, now, restartsOf(observed, time))
  const deadline = deadlineOf(status, settings)
  const refusal = status.connectableAt === undefined ? creationFailure(observed, assessment, deadline, now) : undefined
  if (refusal !== undefined) return creationFailed(observed, refusal, now)
  const returned = returning(observed, assessment, now, conditionOf(status, 'Progressing')?.message)
  if (returned !== undefined) return returned
  const planned = branchStatus(observed, assessment, time)
  const actions: Action[] = [...nextActions(observed, assessment), ...deletion(observed, planned, now)]
  if (backup !== undefined && isDone(observed)) actions.push(...remove('Backup', [backup]))
  return {
    actions,
    status: planned,
    awaitsPostgres: awaitsPostgres(observed, assessment),
    awaitsGateways:
      assessment.findings.EndpointReady?.reason === 'AcknowledgementPending' || assessment.services.awaitsGateways,
    configurationDigest: assessment.desired.configurationDigest,
    requeueAt: earliest(
      ...[deadline, moveDeadline(observed), failsAt(observed, assessment, time), nextPassAt(observed, assessment, now)],
      replacedBy(observed) === undefined ? undefined : now + retryMs,
    ),
  }
}

const sinceCreation = ({ metadata }: Observed['branch'], now: number): string =>
  durationText(Date.parse(metadata.creationTimestamp ?? preciseTime(now)), now)

/**
 * The creation's deadline, in ms since the epoch. Undefined before the source is recorded, and after the branch is
 * connectable.
 */
const deadlineOf = ({ source, connectableAt }: BranchStatus, { creatingMs }: PlanSettings): number | undefined =>
  source === undefined || connectableAt !== undefined
    ? undefined
    : Date.parse(source.recordedAt) + creatingMs + recoveryMs(source.recovery)

/** The reason why the branch's creation fails; undefined if the creation can still succeed. */
function creationFailure(
  observed: Observed,
  { fatal, serves }: Assessment,
  deadline: number | undefined,
  now: number,
): Refusal | undefined {
  if (isCopiedInstead(observed))
    return {
      reason: 'NotRecovered',
      message: `an older operator version ignored spec.target and copied the current data; ${tryAgain}`,
    }
  if (isLostBefore(observed))
    return {
      reason: 'SnapshotLost',
      message: `the snapshot for the branch's volume does not exist or is not usable; ${tryAgain}`,
    }
  if (fatal !== undefined) return fatal
  if (serves || deadline === undefined || now < deadline) return undefined
  const progress = conditionOf(observed.branch.status, 'Progressing')?.message
  return {
    reason: 'DeadlineExceeded',
    message: `the branch did not serve before its deadline: ${progress ?? 'no progress was reported'}`,
  }
}

/**
 * Returns the time at which the branch stopped serving, or `now` if the branch served in the previous pass. Never
 * returns a time before the end of the last move, because the operator closes the endpoint during a move.
 */
function notServingSince({ branch }: Observed, now: number): number {
  const ready = conditionOf(branch.status, 'Ready')
  const returnedAt = Date.parse(branch.status?.move?.endedAt ?? '') || 0
  return ready?.status === 'False' ? Math.max(Date.parse(ready.lastTransitionTime), returnedAt) : now
}

/**
 * The time at which a branch that does not serve becomes `failed`, in ms since the epoch. Undefined after this time,
 * during a move, while the branch serves, and before the branch was connectable.
 */
function failsAt(observed: Observed, { serves }: Assessment, time: MaintenanceTime): number | undefined {
  const { now, maintenanceMs } = time
  const { connectableAt, maintenance } = observed.branch.status ?? {}
  if (serves || connectableAt === undefined || isMoveRunning(observed.branch)) return undefined
  const at = notServingSince(observed, now) + (isMaintained(maintenance, time) ? maintenanceMs : toleratedMs)
  return at > now ? at : undefined
}

function phaseOf(observed: Observed, assessment: Assessment, time: MaintenanceTime): BranchPhase {
  const { phase = 'available', connectableAt } = observed.branch.status ?? {}
  if (assessment.serves) return 'available'
  if (connectableAt === undefined || isMoveRunning(observed.branch)) return 'creating'
  return assessment.fatal || failsAt(observed, assessment, time) === undefined ? 'failed' : phase
}

/**
 * Until the branch is connectable, returns the operation `create-branch`. After that, returns the operation in the
 * status until its Task has ended.
 */
function operationAfter(observed: Observed, isMade: boolean, now: number): BranchStatus['operation'] {
  const { status } = observed.branch
  if (!isMade) return operationOf(observed.branch, 'create-branch', now)
  return hasEnded(status) ? endedOperation(observed) : status?.operation
}

function branchStatus(observed: Observed, assessment: Assessment, time: MaintenanceTime): BranchStatus {
  const { now } = time
  const { branch } = observed
  const { status = {} } = branch
  const { fatal, serves, pending } = assessment
  const connectableAt = status.connectableAt ?? (serves ? preciseTime(now) : undefined)
  const isMade = connectableAt !== undefined
  const step = isRecovering(observed)
    ? yes('Recovering', recoveringMessage)
    : yes(pending?.reason ?? 'OpeningEndpoint', pending?.message ?? 'opening the endpoint')
  const progressing = (isMade ? progressOf(observed, serves) : undefined) ?? step
  const ofPostgres = statusOf(observed, assessment, status, now)
  const more: Partial<BranchStatus> = {
    ...ofPostgres.status,
    phase: phaseOf(observed, assessment, time),
    ...(isMade ? { connectableAt } : {}),
    ...(isMade && status.connectableAt === undefined ? { creationDuration: sinceCreation(branch, now) } : {}),
    maintenance: maintenanceAfter(
      status.maintenance,
      { isDone: serves && pending === undefined, isFatal: fatal !== undefined },
      time,
    ),
    operation: operationAfter(observed, isMade, now),
    move: moveAfter(observed, serves, now),
  }
  return withFindings(observed, { ...ofPostgres.findings, Progressing: progressing }, more, now)
}
