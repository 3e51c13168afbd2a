/**
 * Which operation runs, and when it has ended. It is in `status.operation` from its first pass until its Task is
 * finished. Its outcome is in the condition Progressing, written together with the phase it ends in. So a Task never
 * ends before its subject is reconciled, and neither a crash nor the next operation can lose the outcome.
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
 * The name of a change made without the API, from what differs from the applied request. If an older operator wrote the
 * hash without digests, the children show what was applied: template, replicas and route.
 */
function changeOf(observed: Observed): OperationName {
  const { database } = observed
  if (database.status?.appliedHash === undefined) return 'create-managed'
  const after = desiredDigests(desiredStateOf(database))
  return operationOfChange(appliedDigests(database) ?? digestsOfChildren(observed, after), after)
}

/** The digests that the children were created for; the desired ones if the children do not show it. */
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
  // A Restore has its own deadline until its data serve (operator/restore).
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

/** The operation that applies the spec: the API's, or the operator's own for a change made without the API. */
function updateOperation(observed: Observed, hash: string, now: number, deadlines: Deadlines): StatusOperation {
  const { database } = observed
  const annotated = readOperation(database)
  if (annotated && annotated.name !== 'delete-managed' && !isFinished(observed.annotatedTask))
    return operationFrom(annotated, hash, now, deadlines)
  const { uid, generation } = database.metadata
  const own = { taskId: derivedId(`${uid}/${hash}/${generation}`), name: changeOf(observed) }
  return operationFrom(own, hash, now, deadlines)
}

/** The operation that applies a size whose first operation has failed. */
const grownSizeOperation = ({ database: { metadata } }: Observed, hash: string) => ({
  taskId: derivedId(`${metadata.uid}/${hash}/${metadata.generation}/grown`),
  name: 'update-managed-size' as const,
})

/** The operation that tears a database down. */
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
 * The hash of the applied request. It changes without an operation if only a request for an action was withdrawn, such
 * as a restart: nothing has to be done for that.
 */
const appliedNow = ({ database }: Observed, hash: string): string | undefined =>
  isInForce(database) ? hash : database.status?.appliedHash

/** The operation of a restart in the region's window, which no client requested. */
function maintenanceOperation(observed: Observed, windowId: string, hash: string, now: number, deadlines: Deadlines) {
  const taskId = derivedId(`${observed.database.metadata.uid}/maintenance/${windowId}`)
  return operationFrom({ taskId, name: 'restart-managed' }, hash, now, deadlines)
}

/** What a requested restore waits for, or why it failed. */
function restorePending({ restoring }: Observed): Pending | undefined {
  if (restoring === undefined || restoring.state === 'completed') return undefined
  const { state, reason, message } = restoring
  return { step: 'Restoring', reason, message, ...(state === 'failed' ? { isPermanent: true } : {}) }
}

/** A restart has ended once Postgres is restarted, even if a size waits for its volume meanwhile. */
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

/** An import ends by its own deadlines, which depend on its progress; the steps after it have the usual time. */
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

/** The state of operations after this pass. */
export function operationState(
  observed: Observed,
  assessment: Assessment,
  now: number,
  given: Deadlines,
): OperationState {
  const { fatal } = assessment
  const { dataSource } = observed.instance
  // The size that the backup names.
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
  // A restart that ends with nothing to do, as in an object created again from a backup, is no operation.
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
      no('DeadlineExceeded', `not restarted by ${operation.deadlineAt}; it will not be restarted: ask again`),
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
 * An outcome without an operation: a failure that no longer exists becomes Completed; a blocked database reports the
 * reason.
 */
function atRest(last: Finding, pending: Pending | undefined): Finding {
  if (pending === undefined) return last.reason === completed ? last : no(completed, 'everything requested is applied')
  return pending.reason === pending.step ? last : no(pending.reason, pending.message)
}
