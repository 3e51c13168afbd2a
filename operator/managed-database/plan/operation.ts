/**
 * Decides which operation runs, and when it has ended. It is in `status.operation` from its first pass until its Task
 * is finished. Its outcome is in the condition Progressing, which is written together with the final phase. So a Task
 * never ends before the database is reconciled, and neither a crash nor the next operation can lose the outcome.
 */
import {
  appliedDigests,
  canonicalJson,
  type Digests,
  desiredDigests,
  desiredHash,
  desiredStateOf,
  isInForce,
  type ManagedDatabaseStatus,
  type OperationName,
  operationOfChange,
  readOperation,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { recoveryMs } from '../../backup/recovery.ts'
import { givenUpMessage, unfinished } from '../../endpoint/plan/rotation.ts'
import { maskedRules } from '../../endpoint/route.ts'
import { sizeAnnotation, sizeText } from '../../member/pod/stateful-set.ts'
import { completed, conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { maintenanceAfter } from '../../objects/maintenance.ts'
import { hasEnded, isFinished } from '../../owner/operation.ts'
import type { Assessment, Pending } from '../../workload/plan/assessment.ts'
import type { Observed } from '../observed.ts'

type StatusOperation = NonNullable<ManagedDatabaseStatus['operation']>

/** How long an operation may take before it is reported as failed, in ms. */
export type Deadlines = { creatingMs: number; modifyingMs: number; restoringMs: number; deletingMs: number }

export type OperationState = {
  operation: StatusOperation | undefined
  progressing: Finding
  /** The hash of the applied request; absent until an operation has ended. */
  appliedHash: string | undefined
  /** The last restart in the region's window. */
  maintenance: ManagedDatabaseStatus['maintenance']
}

/**
 * The operation name for a change made without the API, from the difference to the applied request. An older operator
 * wrote no digests. Then the StatefulSet and the route show what is applied.
 */
function changeOf(observed: Observed): OperationName {
  const { database } = observed
  if (database.status?.appliedHash === undefined) return 'create-managed'
  const after = desiredDigests(desiredStateOf(database))
  return operationOfChange(appliedDigests(database) ?? digestsOfChildren(observed, after), after)
}

/** Digests derived from the child objects. Where these do not show a value, the desired digest is used. */
function digestsOfChildren({ database: { spec }, children, route }: Observed, desired: Digests): Digests {
  const { statefulSet } = children
  const size = statefulSet?.spec?.template.metadata?.annotations?.[sizeAnnotation]
  const rules = route?.route?.rules
  const differing = {
    size: size !== undefined && size !== sizeText(spec.size),
    suspended: statefulSet !== undefined && (statefulSet.spec?.replicas === 0) !== spec.suspended,
    cidrs: rules !== undefined && canonicalJson(rules) !== canonicalJson(maskedRules(spec)),
  }
  return {
    ...desired,
    ...Object.fromEntries(Object.entries(differing).flatMap(([name, is]) => (is ? [[name, '']] : []))),
  }
}

function deadlineOf(name: OperationName, { creatingMs, modifyingMs, restoringMs, deletingMs }: Deadlines): number {
  if (name === 'create-managed') return creatingMs
  // A Restore has its own deadline until the database switches to the restored volume (operator/restore).
  if (name === 'restore-managed') return restoringMs + 2 * modifyingMs
  return name === 'delete-managed' ? deletingMs : modifyingMs
}

function operationFrom(
  { taskId, name }: { taskId: string; name: OperationName },
  hash: string,
  now: number,
  deadlines: Deadlines,
): StatusOperation {
  return {
    taskId,
    name,
    hash,
    startedAt: timestamp(now),
    deadlineAt: timestamp(now + deadlineOf(name, deadlines)),
  }
}

/** The operation that applies the spec: the one that the API requested, or a new one for a change made without it. */
function updateOperation(observed: Observed, hash: string, now: number, deadlines: Deadlines): StatusOperation {
  const { database } = observed
  const annotated = readOperation(database)
  if (annotated && annotated.name !== 'delete-managed' && !isFinished(observed.annotatedTask))
    return operationFrom(annotated, hash, now, deadlines)
  const { uid, generation } = database.metadata
  const own = { taskId: derivedId(`${uid}/${hash}/${generation}`), name: changeOf(observed) }
  return operationFrom(own, hash, now, deadlines)
}

/** The operation that applies a size after the volume has grown. The first operation for this size had failed. */
const grownSizeOperation = ({ database: { metadata } }: Observed, hash: string) => ({
  taskId: derivedId(`${metadata.uid}/${hash}/${metadata.generation}/grown`),
  name: 'update-managed-size' as const,
})

/** The operation that deletes the database. */
export function deletionOperation(observed: Observed, now: number, deadlines: Deadlines): StatusOperation {
  const { database } = observed
  const running = database.status?.operation
  if (running?.name === 'delete-managed') return running
  const annotated = readOperation(database)
  const own = { taskId: derivedId(`${database.metadata.uid}/delete`), name: 'delete-managed' as const }
  const desired = annotated?.name === 'delete-managed' ? annotated : own
  return operationFrom(desired, desiredHash(desiredStateOf(database)), now, deadlines)
}

/**
 * The hash of the applied request. If a user only withdraws a request, such as a restart, the hash changes without an
 * operation.
 */
const appliedNow = ({ database }: Observed, hash: string): string | undefined =>
  isInForce(database) ? hash : database.status?.appliedHash

/** The operation of a restart in the region's window, which no client requested. */
function maintenanceOperation(observed: Observed, windowId: string, hash: string, now: number, deadlines: Deadlines) {
  const taskId = derivedId(`${observed.database.metadata.uid}/maintenance/${windowId}`)
  return operationFrom({ taskId, name: 'restart-managed' }, hash, now, deadlines)
}

/** Returns what a requested restore waits for, or why it failed. */
function restorePending({ restoring }: Observed): Pending | undefined {
  if (restoring === undefined || restoring.state === 'completed') return undefined
  const { state, reason, message } = restoring
  return { step: 'Restoring', reason, message, ...(state === 'failed' ? { isPermanent: true } : {}) }
}

/** A restart is done once Postgres has restarted, even if a size change still waits for the volume to grow. */
const pendingOf = (name: OperationName, pending: Pending | undefined): Pending | undefined =>
  name === 'restart-managed' && pending?.step === 'Growing' ? undefined : pending

/** The state of the restart in the region's window. It ends at once if nothing is pending. */
function maintenanceNow(
  { database: { status } }: Observed,
  { pending, fatal, serves }: Assessment,
  now: number,
  { modifyingMs }: Deadlines,
): OperationState['maintenance'] {
  const isStopped = status?.phase === 'suspended'
  const isDone = pendingOf('restart-managed', pending) === undefined && (serves || isStopped)
  const time = { now, maintenanceMs: modifyingMs }
  return maintenanceAfter(status?.maintenance, { isDone, isFatal: fatal !== undefined }, time)
}

/** An import has its own deadlines, so the operation's deadline is extended while the import runs. */
function whileImporting(
  { database }: Observed,
  pending: Pending | undefined,
  operation: StatusOperation,
  now: number,
  deadlines: Deadlines,
): StatusOperation {
  const remainingMs = Date.parse(operation.deadlineAt) - now
  const allowed = deadlineOf(operation.name, deadlines)
  if ((database.status?.import?.attempt ?? 0) === 0 || pending?.step !== 'Importing' || remainingMs > allowed / 2)
    return operation
  return { ...operation, deadlineAt: timestamp(now + allowed) }
}

/** Returns the operation and its state after this pass. */
export function operationState(
  observed: Observed,
  assessment: Assessment,
  now: number,
  given: Deadlines,
): OperationState {
  const { fatal } = assessment
  const { dataSource } = observed.instance
  // The time for the copy depends on the backup's size.
  const copyMs = dataSource?.kind === 'archive' ? recoveryMs({ sizeBytes: dataSource.bytes }) : 0
  const deadlines = { ...given, creatingMs: given.creatingMs + copyMs }
  const { status } = observed.database
  const hash = desiredHash(desiredStateOf(observed.database))
  const appliedHash = appliedNow(observed, hash)
  const outcome = conditionOf(status, 'Progressing')
  const last = outcome?.status === 'False' ? no(outcome.reason, outcome.message) : no(completed, 'nothing to be done')
  const maintenance = maintenanceNow(observed, assessment, now, deadlines)

  if (hasEnded(status) && !isFinished(observed.task))
    return {
      operation: status?.operation,
      progressing: last,
      appliedHash: status?.appliedHash,
      maintenance: status?.maintenance,
    }

  const current = hasEnded(status) ? undefined : status?.operation
  const isCurrent = current !== undefined && current.hash === hash && current.name !== 'delete-managed'
  const { isUnsure, isGivenUp } = assessment.desired.restarts
  // While it is unknown whether a maintenance restart would change anything, it is not an operation.
  const isMaintained = maintenance !== undefined && maintenance.endedAt === undefined && !isUnsure
  if (assessment.awaitsSize) {
    const operation = operationFrom(grownSizeOperation(observed, hash), hash, now, deadlines)
    const progressing = yes('Starting', 'the volume has grown: Postgres is restarted')
    return { operation, progressing, appliedHash, maintenance }
  }
  if (!isCurrent && appliedHash === hash && !isMaintained) {
    return { operation: undefined, progressing: atRest(last, assessment.pending), appliedHash, maintenance }
  }

  const next = () =>
    isMaintained && appliedHash === hash
      ? maintenanceOperation(observed, maintenance.restart, hash, now, deadlines)
      : updateOperation(observed, hash, now, deadlines)
  const operation = whileImporting(observed, assessment.pending, isCurrent ? current : next(), now, deadlines)
  const restoring = restorePending(observed)
  const pending = restoring ?? pendingOf(operation.name, assessment.pending)
  const ended = (finding: Finding): OperationState => ({
    operation,
    progressing: finding,
    appliedHash: hash,
    maintenance,
  })
  if (fatal && restoring === undefined) return ended(no(fatal.reason, fatal.message))
  if (isGivenUp)
    return ended(
      no(
        'DeadlineExceeded',
        `Postgres was not restarted by ${operation.deadlineAt}. The request has expired: request the restart again`,
      ),
    )
  const unrotated = observed.rotations.isGivenUp ? unfinished(observed, assessment.answered) : []
  if (unrotated.length > 0) return ended(no('DeadlineExceeded', givenUpMessage(unrotated, operation.deadlineAt)))
  if (pending === undefined) return ended(no(completed, 'everything requested is applied'))
  if (pending.isPermanent) return ended(no(pending.reason, pending.message))
  if (now >= Date.parse(operation.deadlineAt))
    return ended(no('DeadlineExceeded', `not done by ${operation.deadlineAt}; still trying: ${pending.message}`))
  const why = isMaintained && operation.name === 'restart-managed' ? ", in the region's maintenance window" : ''
  return { operation, progressing: yes(pending.reason, `${pending.message}${why}`), appliedHash, maintenance }
}

/**
 * The condition Progressing while no operation runs. A resolved failure becomes Completed. If a problem blocks the
 * database, the condition has its reason.
 */
function atRest(last: Finding, pending: Pending | undefined): Finding {
  if (pending === undefined) return last.reason === completed ? last : no(completed, 'everything requested is applied')
  return pending.reason === pending.step ? last : no(pending.reason, pending.message)
}
