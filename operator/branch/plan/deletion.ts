/**
 * Plans the deletion of a branch: deletes its services, closes the endpoint, stops Postgres, then deletes the volume
 * and the source backup. Deletes the credentials and the route last. A deletion by `spec.deletionRequestedAt` leaves a
 * record for 30 days. A branch whose creation failed keeps its failure reason until a user deletes the branch. Pure.
 */
import type { AnyObject } from '../../../cluster/index.ts'
import type { Condition } from '../../../crds/index.ts'
import { preciseTime, timestamp } from '../../../values/time.ts'
import { completed, conditionOf, no, yes } from '../../objects/conditions.ts'
import { type Owner, ownerUidOf } from '../../objects/ownership.ts'
import { nothing } from '../../owner/plan/steps.ts'
import { noServiceObjects } from '../../service/observed.ts'
import { remove, type Teardown, teardown } from '../../workload/plan/teardown.ts'
import { nodeRequeueAt } from '../../workload/plan/waits.ts'
import type { Action } from '../actions.ts'
import type { BranchStatus, Observed } from '../observed.ts'
import { endedOperation, operationOf } from './operation.ts'
import { type Plan, withFindings } from './plan.ts'
import { ownBackup } from './prebranch.ts'

/** How long the record of a deleted branch is kept. */
const recordMs = 30 * 24 * 3600_000

function teardownStep(observed: Observed, owner: Owner | undefined, now: number): Teardown {
  const backup = ownBackup(observed)
  const source = (): Teardown | undefined =>
    backup && {
      actions: remove('Backup', [backup]),
      message: "deleting the branch's source backup",
      progress: 85,
    }
  return teardown(observed, owner, now, source)
}

/** `last`: the actions after all children are deleted. */
function planStep(observed: Observed, step: Teardown, last: Action[], now: number): Plan {
  return {
    ...nothing(observed.branch.status ?? {}),
    actions: step.isDone ? last : step.actions,
    awaitsGateways: step.actions.length === 0 && observed.route?.acknowledged === false,
    requeueAt: nodeRequeueAt(observed, now),
  }
}

/** The plan of a branch whose deletion was requested. */
export function planDeletion(observed: Observed, owner: Owner | undefined, now: number): Plan {
  const { branch, task, isNamespaceGoing } = observed
  const operation = operationOf(branch, 'delete-branch', now)
  const step = teardownStep(observed, owner, now)
  const findings = {
    Ready: no('Deleting', 'the branch is being deleted'),
    EndpointReady: no('Deleting', 'the endpoint is being closed, because the branch is being deleted'),
    Progressing: yes('Deleting', step.message),
  }
  // The Task reports the end of the deletion, so it must exist before the Branch is deleted.
  const hasTask = operation.taskId === branch.status?.operation?.taskId && task !== undefined
  const isRecorded = hasTask || isNamespaceGoing === true
  const isObjectDeleted = branch.metadata.deletionTimestamp !== undefined
  const last: Action = isObjectDeleted
    ? { do: 'finish-deletion' }
    : { do: 'leave-record', status: recordOf(observed, now) }
  const status = withFindings(observed, findings, { phase: 'deleting', operation }, now)
  return { ...planStep(observed, step, isRecorded ? [last] : [], now), status }
}

/** The status of a deleted branch. Keeps the source and the billing times, and removes volume, endpoint and move. */
function recordOf(observed: Observed, now: number): BranchStatus {
  const findings = {
    Ready: no('Deleted', 'the branch is deleted'),
    EndpointReady: no('Deleted', 'the endpoint is closed'),
    Progressing: no(completed, 'the branch is deleted'),
  }
  const ended = {
    ...{ volume: undefined, instances: undefined, endpoint: undefined, storage: undefined },
    ...{ storageUsedBytes: undefined, pendingRestart: undefined, move: undefined },
  }
  return withFindings(
    observed,
    findings,
    { phase: 'deleted', deletedAt: timestamp(now), updatedAt: preciseTime(now), ...ended },
    now,
  )
}

/** The plan that deletes the objects of a branch whose creation failed. */
export const planCleanup = (observed: Observed, owner: Owner | undefined, now: number): Plan => ({
  ...planStep(observed, teardownStep(observed, owner, now), [{ do: 'finish-deletion' }], now),
  status: outcomeOf(observed),
})

/**
 * The plan after a deletion, or after the cleanup of a failed creation. Removes the operation from the status once the
 * operation's Task has ended. Deletes children and a source backup that a previous leader created after
 * the deletion or cleanup.
 */
export const planEnded = (observed: Observed, now: number): Plan => {
  const services = { ...observed.services, objects: noServiceObjects }
  const late = { ...observed, owned: ownedByUid(observed), services }
  const step = teardownStep(late, undefined, now)
  return {
    ...nothing(observed.branch.status ?? {}),
    actions: step.isDone ? [] : step.actions,
    status: outcomeOf(observed),
  }
}

/** Selects children by the owner's uid, because a recreated Branch can have the same `id` label. */
function ownedByUid({ branch, owned }: Observed): Observed['owned'] {
  const own = <T extends Pick<AnyObject, 'metadata'>>(objects: readonly T[]): T[] =>
    objects.filter(object => ownerUidOf(object) === branch.metadata.uid)
  return {
    statefulSets: own(owned.statefulSets),
    deployments: own(owned.deployments),
    pods: own(owned.pods),
    services: own(owned.services),
    networkPolicies: own(owned.networkPolicies),
    disruptionBudgets: own(owned.disruptionBudgets),
    configurations: own(owned.configurations),
    claims: own(owned.claims),
    secrets: own(owned.secrets),
    volumes: [],
    routes: own(owned.routes),
  }
}

const outcomeOf = (observed: Observed): BranchStatus =>
  withOutcome({ ...observed.branch.status, operation: endedOperation(observed) })

/**
 * The reasons that Ready has after a rejected write or a name conflict. A later pass replaces the reason and the
 * message.
 */
const transientReasons = new Set(['Refused', 'NameTaken'])

/**
 * Replaces a transient reason and message of Ready by those of Progressing. The reason of a deleted branch is
 * `Deleted`.
 */
function withOutcome(status: BranchStatus): BranchStatus {
  const outcome = conditionOf(status, 'Progressing')
  if (outcome?.status !== 'False') return status
  const { message } = outcome
  const reason = status.phase === 'deleted' ? 'Deleted' : outcome.reason
  const isPassing = ({ type, reason }: Condition) => type === 'Ready' && transientReasons.has(reason)
  const conditions = status.conditions?.map(found => (isPassing(found) ? { ...found, reason, message } : found))
  return { ...status, conditions }
}

/** The plan of a deleted branch. Only the record of the branch remains. */
export function planRecord(observed: Observed, isFinalizerPresent: boolean, now: number): Plan {
  const { metadata, status } = observed.branch
  const ended = planEnded(observed, now)
  if (isFinalizerPresent) return { ...ended, actions: [{ do: 'finish-deletion' }] }
  if (metadata.deletionTimestamp !== undefined || ended.actions.length > 0) return ended
  const until = Date.parse(status?.deletedAt ?? '') + recordMs
  if (now >= until)
    return observed.clockDistrust === undefined ? { ...ended, actions: [{ do: 'delete-record' }] } : ended
  return { ...ended, requeueAt: Number.isNaN(until) ? undefined : until }
}
