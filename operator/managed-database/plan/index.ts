/**
 * Plans a database: a pure function from the observed state to actions and status. After a crash, the next pass
 * observes and plans again.
 */

import {
  blocksDeletion,
  type DatabasePhase,
  desiredDigests,
  desiredHash,
  desiredStateOf,
  isLiveBranch,
  isTeardownBegun,
  type ManagedDatabaseStatus,
  teardownReason,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { checksumFailures, type Finding, no, yes } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Plan as OwnerPlan } from '../../owner/kind.ts'
import { hasEnded, isFinished } from '../../owner/operation.ts'
import { statusOf } from '../../owner/plan/status.ts'
import { foundRecord, hasFinalizer, identification, labelling, nothing } from '../../owner/plan/steps.ts'
import { type Assessment, assess } from '../../workload/plan/assessment.ts'
import { awaitsPostgres, nextActions } from '../../workload/plan/next-actions.ts'
import { nextPassAt, nodeRequeueAt } from '../../workload/plan/waits.ts'
import type { Action } from '../actions.ts'
import { type Findings, nextConditions } from '../conditions.ts'
import {
  allAttempts,
  type ImportDeadlines,
  importBefore,
  importWait,
  planImport,
  usualDeadlines,
} from '../import/plan.ts'
import type { Observed } from '../observed.ts'
import { archivingOf, backupsFinding, retentionFinding } from './backups.ts'
import { connectionSecrets } from './connection-secrets.ts'
import { deletionBlock, isOrphaned, slotsEndAt, teardownStep } from './deletion.ts'
import { restartsOf } from './due-restarts.ts'
import { forceOf } from './force.ts'
import { type Deadlines, deletionOperation, type OperationState, operationState } from './operation.ts'
import { type Previous, previousVolumes } from './previous.ts'
import { restoreRecording } from './recorded-restore.ts'
import { switchedStatus } from './switch.ts'

export type Plan = OwnerPlan<Action, ManagedDatabaseStatus>

export type PlanSettings = { deadlines: Deadlines; imports?: ImportDeadlines }

export function plan(observed: Observed, now: number, { deadlines, imports = usualDeadlines }: PlanSettings): Plan {
  const { database } = observed
  const { status = {}, metadata } = database
  const isDeleting = metadata.deletionTimestamp !== undefined
  const isGoing = isDeleting && deletionBlock(observed, now) === undefined
  const labelled = labelling(observed, { isGoing })
  if (labelled.state === 'key-missing') return withoutKeys(observed, labelled, now)
  const idle = nothing(status)
  if (labelled.state === 'unlabelled') return { ...idle, actions: labelled.actions }
  if (isDeleting && !hasFinalizer(metadata)) return idle
  if (isOrphaned(database)) return { ...idle, actions: [{ do: 'orphan' }] }
  if (isGoing) return planTeardown(observed, now, deadlines)
  const identified = identification(observed)
  if (identified.state === 'contested') return contested(observed, identified.why, now)
  if (identified.state === 'unidentified') return { ...idle, actions: identified.actions }

  const imported = importBefore(observed, now)
  if (imported !== undefined) return nothing({ ...status, import: imported })
  const switched = switchedStatus(observed, identified.owner, now)
  if (switched !== undefined) return nothing(switched)
  const force = forceOf(observed, now)
  if (force !== undefined && now >= force.expiresAt) return { ...idle, actions: [{ do: 'remove-force' }] }
  const found = foundRecord(observed)
  if (found !== undefined) return nothing({ ...status, ...found })
  return serving(withImport(observed), identified.owner, {
    now,
    deadlines,
    imports,
    labelling: labelled.actions,
    force,
  })
}

/** No client may connect before the import of a new database has ended. */
function withImport(observed: Observed): Observed {
  const awaitsImport = importWait(observed)
  return awaitsImport === undefined ? observed : { ...observed, instance: { ...observed.instance, awaitsImport } }
}

type Serving = {
  now: number
  deadlines: Deadlines
  imports: ImportDeadlines
  /** Actions that add missing labels. The other actions do not wait for them. */
  labelling: Action[]
  force: ReturnType<typeof forceOf>
}

/** The plan of a database that is not being deleted. */
function serving(observed: Observed, owner: Owner, { now, deadlines, imports, labelling, force }: Serving): Plan {
  const time = { now, maintenanceMs: deadlines.modifyingMs }
  const assessment = assess(observed, owner, now, restartsOf(observed, time))
  const operation = operationState(observed, assessment, now, deadlines)
  const isDeleting = observed.database.metadata.deletionTimestamp !== undefined
  const block = isDeleting ? deletionBlock(observed, now) : undefined
  const previous = previousVolumes(observed, now)
  const imported = planImport(observed, assessment, now, imports)
  const secrets = connectionSecrets(observed, assessment)
  const reported = { block, previous, secrets: secrets.finding, force: force?.finding, imported: imported.status }
  const runs = operation.progressing.status === 'True'
  // The operation is recorded before Postgres restarts. Otherwise a crash could leave a restart without a Task.
  const next = assessment.awaitsSize ? [] : nextActions(observed, assessment)
  return {
    actions: [
      ...labelling,
      ...restoreRecording(observed, owner),
      ...next,
      ...imported.actions,
      ...previous.actions,
      ...secrets.actions,
    ],
    status: databaseStatus(observed, assessment, operation, reported, now),
    awaitsPostgres: awaitsPostgres(observed, assessment) || imported.awaitsPostgres,
    configurationDigest: assessment.desired.configurationDigest,
    awaitsGateways:
      assessment.findings.EndpointReady?.reason === 'AcknowledgementPending' || assessment.services.awaitsGateways,
    requeueAt: earliest(
      runs && operation.operation ? Date.parse(operation.operation.deadlineAt) : undefined,
      nextPassAt(observed, assessment, now),
      previous.requeueAt,
      imported.requeueAt,
      force?.expiresAt,
      slotsEndAt(observed, now),
    ),
  }
}

/** Two databases claim the same data. The operator only reports this, until a user decides which one owns them. */
function contested(observed: Observed, why: string, now: number): Plan {
  const { database } = observed
  const { status = {}, metadata } = database
  const finding = no('IdContested', why)
  const findings: Findings = { Ready: finding, VolumeReady: finding }
  const conditions = nextConditions(status.conditions ?? [], findings, metadata.generation, now)
  const phase = metadata.deletionTimestamp === undefined ? 'failed' : 'deleting'
  const { generation: observedGeneration } = metadata
  return nothing({ ...status, phase, observedGeneration, conditions })
}

function withoutKeys(
  observed: Observed,
  { finding, actions }: { finding: Finding; actions: Action[] },
  now: number,
): Plan {
  const { status = {}, metadata } = observed.database
  const conditions = nextConditions(status.conditions ?? [], { KeysAvailable: finding }, metadata.generation, now)
  return { ...nothing({ phase: 'creating' as const, ...status, conditions }), actions }
}

/** The first pass only writes the start of the teardown to the status. After that, new branches do not block it. */
function planTeardown(observed: Observed, now: number, deadlines: Deadlines): Plan {
  const { database, identity, task, isNamespaceGoing } = observed
  const { status = {}, metadata } = database
  const ended = hasEnded(status) && !isFinished(task)
  const operation = ended ? status.operation : deletionOperation(observed, now, deadlines)
  const step = teardownStep(observed, identity.state === 'settled' ? identity.owner : undefined, now)
  const importEnd: Action[] =
    observed.importing.remaining === undefined ? [] : [{ do: 'end-import', upTo: allAttempts }]
  const late = operation !== undefined && now >= Date.parse(operation.deadlineAt)
  const findings: Findings = {
    Ready: no(teardownReason, 'the database is being deleted'),
    VolumeReady: no('Deleting', 'the volume is deleted with the database'),
    EndpointReady: no('Deleting', 'the endpoint is closed'),
    ...(ended ? {} : { Progressing: yes('Deleting', step.message) }),
    ...(late
      ? {
          DeletionBlocked: yes(
            'DeletionStuck',
            `the deletion is not done by ${operation.deadlineAt}; current step: ${step.message}`,
          ),
        }
      : {}),
  }
  // The Task of a deletion outlives the database, so it must exist before the finalizer is removed.
  const hasTask = !ended && operation?.taskId === status.operation?.taskId && task !== undefined
  const recorded = hasTask || isNamespaceGoing === true
  return {
    actions: !isTeardownBegun(database) || (step.isDone && !recorded) ? [] : [...importEnd, ...step.actions],
    status: {
      ...status,
      phase: 'deleting',
      observedGeneration: metadata.generation,
      conditions: nextConditions(status.conditions ?? [], findings, metadata.generation, now),
      operation,
      maintenance: withoutOutcome(status.maintenance, now),
    },
    awaitsPostgres: false,
    configurationDigest: undefined,
    awaitsGateways: step.actions.length === 0 && observed.route?.acknowledged === false,
    requeueAt: earliest(
      operation && !late ? Date.parse(operation.deadlineAt) : undefined,
      nodeRequeueAt(observed, now),
    ),
  }
}

/**
 * Ends the maintenance restart of a deleted database without an outcome, so that the region's next restart does not
 * wait for it.
 */
function withoutOutcome(
  maintenance: ManagedDatabaseStatus['maintenance'],
  now: number,
): ManagedDatabaseStatus['maintenance'] {
  if (maintenance === undefined) return undefined
  const { restart, startedAt, endedAt = timestamp(now) } = maintenance
  return { restart, startedAt, endedAt }
}

/** Reasons of VolumeReady with which the phase is `degraded`, although Postgres still answers. */
const degradingReasons = new Set(['DiskFull', 'VolumeBeingDeleted', checksumFailures])

function phaseOf(
  observed: Observed,
  { fatal, serves, findings, services, pending }: Assessment,
  state: OperationState,
): DatabasePhase {
  const { spec, status } = observed.database
  const before = status?.phase
  const isStopped = spec.suspended && observed.pod === undefined
  if (state.progressing.status === 'True' && state.operation) {
    if (state.operation.name === 'create-managed') return 'creating'
    if (state.operation.name === 'restore-managed' || observed.restoring !== undefined) return 'restoring'
    if (spec.suspended) return isStopped && before === 'suspended' ? 'suspended' : 'suspending'
    return before === 'suspended' || before === 'suspending' || before === 'resuming' ? 'resuming' : 'modifying'
  }
  if (fatal || status?.import?.phase === 'failed') return 'failed'
  if (isStopped) return 'suspended'
  // A database with a failed service stays degraded until the service runs. A database whose service is replaced stays
  // available, since the old pod serves until then.
  const isRecovering = (before === 'degraded' || before === 'failed') && pending?.step === 'StartingServices'
  const isImpaired = degradingReasons.has(findings.VolumeReady?.reason ?? '') || services.hasFailed || isRecovering
  if (serves && !isImpaired && !spec.suspended && findings.EndpointReady?.status === 'True') return 'available'
  const hasCreationTimedOut =
    state.operation?.name === 'create-managed' && state.progressing.reason === 'DeadlineExceeded'
  return before === 'failed' || hasCreationTimedOut ? 'failed' : 'degraded'
}

/** The digests of the applied state. They do not change until the desired state is applied. */
function digestsOf({ database }: Observed, { appliedHash }: OperationState) {
  const desired = desiredStateOf(database)
  if (appliedHash !== desiredHash(desired)) return database.status?.appliedDigests
  return { hash: appliedHash, members: desiredDigests(desired) }
}

/** Parts of the status that do not concern Postgres or the operation. */
type Reported = {
  block: { reason: string; message: string } | undefined
  previous: Previous
  /** The condition SecretsReady. */
  secrets: Finding | undefined
  force: Finding | undefined
  imported: ManagedDatabaseStatus['import']
}

function findingsOf(observed: Observed, { block, previous, secrets, force }: Reported, now: number): Findings {
  const ofBackups = backupsFinding(observed, now)
  const retained = retentionFinding(observed, now)
  const archiving = archivingOf(observed)
  return {
    ...(archiving ? { Archiving: archiving } : {}),
    ...(ofBackups ? { BackupsReady: ofBackups } : {}),
    ...(secrets ? { SecretsReady: secrets } : {}),
    ...(retained ? { RetentionHeld: retained } : {}),
    ...(previous.finding ? { PreviousVolumesKept: previous.finding } : {}),
    ...(force ? { DeletionForced: force } : {}),
    ...(block ? { DeletionBlocked: yes(block.reason, block.message) } : {}),
  }
}

function databaseStatus(
  observed: Observed,
  assessment: Assessment,
  state: OperationState,
  reported: Reported,
  now: number,
): ManagedDatabaseStatus {
  const { database, branches } = observed
  const { status = {}, metadata } = database
  const ofPostgres = statusOf(observed, assessment, status, now)
  const findings: Findings = {
    ...ofPostgres.findings,
    Progressing: state.progressing,
    ...(ofPostgres.resizing ? { SizeApplied: ofPostgres.resizing } : {}),
    ...findingsOf(observed, reported, now),
  }
  return {
    ...status,
    ...ofPostgres.status,
    phase: metadata.deletionTimestamp === undefined ? phaseOf(observed, assessment, state) : 'deleting',
    observedGeneration: metadata.generation,
    conditions: nextConditions(status.conditions ?? [], findings, metadata.generation, now),
    appliedHash: state.appliedHash,
    appliedDigests: digestsOf(observed, state),
    ...(reported.imported === undefined ? {} : { import: reported.imported }),
    branchCount: branches.filter(isLiveBranch).length,
    previous: reported.previous.volumes,
    archive: database.spec.backup.durable ? (observed.archived ?? status.archive) : undefined,
    blockingBranches: branches.filter(blocksDeletion).length || undefined,
    operation: state.operation,
    maintenance: state.maintenance,
  }
}
