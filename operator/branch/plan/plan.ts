/** The type of a branch's plan, and functions that build its status. */
import { no } from '../../objects/conditions.ts'
import type { Plan as OwnerPlan } from '../../owner/kind.ts'
import { nothing } from '../../owner/plan/steps.ts'
import type { InstanceFindings } from '../../workload/plan/findings.ts'
import type { Action } from '../actions.ts'
import type { BranchStatus, Observed } from '../observed.ts'
import { nextConditions } from './conditions.ts'
import { operationOf } from './operation.ts'
import type { Refusal } from './refusal.ts'

export type Plan = OwnerPlan<Action, BranchStatus>

export type PlanSettings = {
  /**
   * How long a creation or move may take after its source is recorded, in ms. A recovery from the archive has more
   * time.
   */
  creatingMs: number
  /** How long a restart in the region's maintenance window may take, in ms. */
  maintenanceMs: number
  /** The highest spec.depth that this installation allows. */
  highestDepth: number
}

export function withFindings(
  { branch }: Observed,
  findings: InstanceFindings,
  more: Partial<BranchStatus>,
  now: number,
): BranchStatus {
  const { status = {}, metadata } = branch
  return {
    ...status,
    ...(metadata.generation === undefined ? {} : { observedGeneration: metadata.generation }),
    ...more,
    conditions: nextConditions(status.conditions ?? [], findings, metadata.generation, now),
  }
}

/** Returns the plan that reports a failed creation in the status. Later plans delete the branch's objects. */
export function creationFailed(observed: Observed, { reason, message }: Refusal, now: number): Plan {
  const operation = operationOf(observed.branch, 'create-branch', now)
  const ended = no('BranchFailed', 'the branch failed, and its objects are being deleted')
  const findings = {
    Ready: no(reason, message),
    Progressing: no(reason, message),
    CredentialsReady: ended,
    EndpointReady: ended,
  }
  return nothing(withFindings(observed, findings, { phase: 'failed', operation }, now))
}
