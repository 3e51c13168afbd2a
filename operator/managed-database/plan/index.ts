/**
 * From what was observed of a database to what is to be done about it and what is to be said of it: a pure function,
 * the same whether it is asked for the first time or after a crash at any point.
 */

import {
  askedBy,
  blocksDeletion,
  type DatabasePhase,
  desiredDigests,
  desiredHash,
  isLiveBranch,
  isTeardownBegun,
  type ManagedDatabaseStatus,
  teardownFinalizer,
  teardownReason,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { pendingRestarts, restartFinding } from '../../member/pod/plan/pending-restart.ts'
import { recordedSize, sizeFinding } from '../../member/pod/plan/size.ts'
import { configurationFinding } from '../../member/postgres/plan/configuration.ts'
import { checksumFailures } from '../../member/postgres/plan/health.ts'
import { nextRecord, recordFromClaim } from '../../member/storage/plan/record.ts'
import { type Finding, no, yes } from '../../objects/conditions.ts'
import type { VolumeRecord } from '../../objects/instance.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import type { Plan as OwnerPlan } from '../../owner/kind.ts'
import { type Assessment, assess } from '../../workload/plan/assessment.ts'
import { instancesOf } from '../../workload/plan/instances.ts'
import { missingKey } from '../../workload/plan/keys.ts'
import { marks } from '../../workload/plan/marks.ts'
import { awaitsPostgres, nextActions } from '../../workload/plan/next-actions.ts'
import { earliest, lookAgain, nodeWake, storageUsed } from '../../workload/plan/waits.ts'
import type { Action } from '../actions.ts'
import { type Findings, nextConditions } from '../conditions.ts'
import type { Observed } from '../observed.ts'
import { hasEnded, isFinished } from '../operation.ts'
import { backupsFinding, retentionFinding } from './backups.ts'
import { connectionSecrets } from './connection-secrets.ts'
import { deletionBlock, isOrphaned, slotsEndAt, teardownStep } from './deletion.ts'
import { restartsOf } from './due-restarts.ts'
import { forceOf } from './force.ts'
import { notAvailableFindings } from './not-available.ts'
import { type Deadlines, deletion, type OperationState, operationState } from './operation.ts'
import { type Previous, previousVolumes } from './previous.ts'

export type Plan = OwnerPlan<Action, ManagedDatabaseStatus>

export type PlanSettings = { deadlines: Deadlines }

export function plan(observed: Observed, now: number, { deadlines }: PlanSettings): Plan {
  const { database, identity } = observed
  const isDeleting = database.metadata.deletionTimestamp !== undefined
  const missing = missingKey(observed)
  if (missing !== undefined) return withoutKeys(observed, missing, now)
  const isGoing = isDeleting && deletionBlock(observed, now) === undefined
  const unmarked = marks(observed, { isGoing })
  const pressing = [...unmarked.referring, ...unmarked.ofChildren]
  if (pressing.length > 0) return { ...nothing(observed), actions: [...pressing, ...unmarked.others] }
  if (isDeleting && database.metadata.finalizers?.includes(teardownFinalizer) !== true) return nothing(observed)
  if (isOrphaned(database)) return { ...nothing(observed), actions: [{ do: 'orphan' }] }
  if (isGoing) return planTeardown(observed, now, deadlines)
  if (identity.state === 'contested') return contested(observed, identity.why, now)
  if (identity.state === 'unsettled' || database.metadata.finalizers?.includes(teardownFinalizer) !== true) {
    const id = identity.state === 'settled' ? identity.owner.id : identity.id
    return { ...nothing(observed), actions: [{ do: 'identify', id }] }
  }

  const force = forceOf(observed, now)
  if (force !== undefined && now >= force.expiresAt) return { ...nothing(observed), actions: [{ do: 'remove-force' }] }
  const found = recordFromClaim(observed)
  if (found) return recording(observed, found)

  const time = { now, maintenanceMs: deadlines.modifyingMs }
  const assessment = assess(observed, identity.owner, now, newest => restartsOf(observed, newest, time))
  const operation = operationState(observed, assessment, now, deadlines)
  const block = isDeleting ? deletionBlock(observed, now) : undefined
  const previous = previousVolumes(observed, now)
  const secrets = connectionSecrets(observed, assessment)
  const status = statusOf(observed, assessment, operation, { block, previous, secrets: secrets.finding }, now)
  const runs = operation.progressing.status === 'True'
  return {
    actions: [...unmarked.others, ...nextActions(observed, assessment), ...previous.actions, ...secrets.actions],
    status,
    awaitsPostgres: awaitsPostgres(observed, assessment),
    configurationDigest: assessment.desired.configurationDigest,
    awaitsGateways: assessment.findings.EndpointReady?.reason === 'AcknowledgementPending',
    wakeAt: earliest(
      runs && operation.operation ? Date.parse(operation.operation.deadlineAt) : undefined,
      lookAgain(observed, assessment, now),
      previous.wakeAt,
      force?.expiresAt,
      slotsEndAt(observed, now),
    ),
  }
}

const nothing = ({ database }: Observed): Plan => ({
  actions: [],
  status: database.status ?? {},
  awaitsPostgres: false,
  awaitsGateways: false,
  configurationDigest: undefined,
  wakeAt: undefined,
})

/** Puts a volume on record that was found, and nothing else: all that follows is decided by what is on record. */
function recording(observed: Observed, volume: VolumeRecord): Plan {
  const { database, incarnation } = observed
  return { ...nothing(observed), status: { ...database.status, incarnation, volume } }
}

/** Nothing is done, and nothing stops what runs, until somebody has said whose the data are. */
function contested(observed: Observed, why: string, now: number): Plan {
  const { database } = observed
  const { status = {}, metadata } = database
  const finding = no('IdContested', why)
  const findings: Findings = { Ready: finding, VolumeReady: finding }
  const conditions = nextConditions(status.conditions ?? [], findings, metadata.generation, now)
  const phase = metadata.deletionTimestamp === undefined ? 'failed' : 'deleting'
  const { generation: observedGeneration } = metadata
  return { ...nothing(observed), status: { ...status, phase, observedGeneration, conditions } }
}

/**
 * Without a key nothing is made and nothing changed, since a key is never made again over existing data; but owner references come
 * off, which takes no key and keeps a garbage collector from the data.
 */
function withoutKeys(observed: Observed, finding: Finding, now: number): Plan {
  const { status = {}, metadata } = observed.database
  const conditions = nextConditions(status.conditions ?? [], { KeysAvailable: finding }, metadata.generation, now)
  return {
    ...nothing(observed),
    actions: marks(observed, { isGoing: false }).referring,
    status: { phase: 'creating', ...status, conditions },
  }
}

/** The first pass says in the status that the teardown begins, and deletes nothing: from then on no new branch holds it up. */
function planTeardown(observed: Observed, now: number, deadlines: Deadlines): Plan {
  const { database, identity, task, isNamespaceGoing } = observed
  const { status = {}, metadata } = database
  const ended = hasEnded(status) && !isFinished(task)
  const operation = ended ? status.operation : deletion(observed, now, deadlines)
  const step = teardownStep(observed, identity.state === 'settled' ? identity.owner : undefined, now)
  const late = operation !== undefined && now >= Date.parse(operation.deadlineAt)
  const findings: Findings = {
    Ready: no(teardownReason, 'the database is being deleted'),
    VolumeReady: no('Deleting', 'the volume is deleted with the database'),
    EndpointReady: no('Deleting', 'the endpoint is closed'),
    ...(ended ? {} : { Progressing: yes('Deleting', step.message) }),
    ...(late
      ? { DeletionBlocked: yes('DeletionStuck', `not done by ${operation.deadlineAt}; still ${step.message}`) }
      : {}),
  }
  // The Task of a deletion outlives its subject, so it must be there before the subject goes.
  const hasTask = !ended && operation?.taskId === status.operation?.taskId && task !== undefined
  const recorded = hasTask || isNamespaceGoing === true
  return {
    actions: !isTeardownBegun(database) || (step.isDone && !recorded) ? [] : step.actions,
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
    wakeAt: earliest(operation && !late ? Date.parse(operation.deadlineAt) : undefined, nodeWake(observed, now)),
  }
}

/** A restart in the region's window ends with the database, neither well nor badly: no other waits for it. */
function withoutOutcome(
  maintenance: ManagedDatabaseStatus['maintenance'],
  now: number,
): ManagedDatabaseStatus['maintenance'] {
  if (maintenance === undefined) return undefined
  const { restart, startedAt, endedAt = timestamp(now) } = maintenance
  return { restart, startedAt, endedAt }
}

/** What is wrong with a volume whose Postgres goes on answering what it can. */
const impaired = new Set(['DiskFull', 'VolumeBeingDeleted', checksumFailures])

function phaseOf(observed: Observed, { fatal, serves, findings }: Assessment, state: OperationState): DatabasePhase {
  const { spec, status } = observed.database
  const before = status?.phase
  const isStopped = spec.suspended && observed.pod === undefined
  if (state.progressing.status === 'True' && state.operation) {
    if (state.operation.name === 'create-managed') return 'creating'
    if (state.operation.name === 'restore-managed' || observed.restoring !== undefined) return 'restoring'
    if (spec.suspended) return isStopped && before === 'suspended' ? 'suspended' : 'suspending'
    return before === 'suspended' || before === 'suspending' || before === 'resuming' ? 'resuming' : 'modifying'
  }
  if (fatal) return 'failed'
  if (isStopped) return 'suspended'
  const isImpaired = impaired.has(findings.VolumeReady?.reason ?? '')
  if (serves && !isImpaired && !spec.suspended && findings.EndpointReady?.status === 'True') return 'available'
  const gaveUpCreating = state.operation?.name === 'create-managed' && state.progressing.reason === 'DeadlineExceeded'
  return before === 'failed' || gaveUpCreating ? 'failed' : 'degraded'
}

/** Of what is in force; unchanged where that is not what is asked. */
function digestsOf({ database }: Observed, { appliedHash }: OperationState) {
  const asked = askedBy(database)
  if (appliedHash !== desiredHash(asked)) return database.status?.appliedDigests
  return { hash: appliedHash, members: desiredDigests(asked) }
}

type Told = {
  block: { reason: string; message: string } | undefined
  previous: Previous
  /** Of the Secrets for clients. */
  secrets: Finding | undefined
}

function statusOf(
  observed: Observed,
  assessment: Assessment,
  state: OperationState,
  { block, previous, secrets }: Told,
  now: number,
): ManagedDatabaseStatus {
  const { database, children, branches } = observed
  const { status = {}, metadata } = database
  const { answered, desired, findings, fatal } = assessment
  const refused = configurationFinding(observed)
  const pending = pendingRestarts(observed, desired, now)
  const restarts = restartFinding(pending)
  const isPrepared = isUpToDate(children.statefulSet, desired.statefulSet)
  const size = recordedSize(observed, desired.size, isPrepared)
  const told = sizeFinding(observed, desired.size, size)
  const ofBackups = backupsFinding(observed, now)
  const retained = retentionFinding(observed, now)
  const force = forceOf(observed, now)
  const all: Findings = {
    ...findings,
    Progressing: state.progressing,
    ...(told ? { SizeApplied: told } : {}),
    ...notAvailableFindings(database.spec),
    ...(ofBackups ? { BackupsReady: ofBackups } : {}),
    ...(secrets ? { SecretsReady: secrets } : {}),
    ...(retained ? { RetentionHeld: retained } : {}),
    ...(previous.finding ? { PreviousVolumesKept: previous.finding } : {}),
    ...(refused ? { ConfigurationRefused: refused } : {}),
    ...(restarts ? { RestartPending: restarts } : {}),
    ...(force ? { DeletionForced: force.finding } : {}),
    ...(block ? { DeletionBlocked: yes(block.reason, block.message) } : {}),
  }
  return {
    ...status,
    phase: metadata.deletionTimestamp === undefined ? phaseOf(observed, assessment, state) : 'deleting',
    observedGeneration: metadata.generation,
    conditions: nextConditions(status.conditions ?? [], all, metadata.generation, now),
    appliedHash: state.appliedHash,
    appliedDigests: digestsOf(observed, state),
    size,
    incarnation: observed.incarnation,
    volume: nextRecord(observed, fatal ? undefined : answered),
    endpoint: desired.endpoint ?? status.endpoint,
    domain: desired.domain ?? status.domain,
    instances: instancesOf(observed),
    branchCount: branches.filter(isLiveBranch).length,
    previous: previous.volumes,
    blockingBranches: branches.filter(blocksDeletion).length || undefined,
    storage: assessment.autogrown.status,
    storageUsedBytes: storageUsed(status.storageUsedBytes, observed.dataBytes),
    operation: state.operation,
    pendingRestart: pending.length > 0 ? pending : undefined,
    maintenance: state.maintenance,
  }
}
