/** What the plan for a branch consists of, and what every part of it says. */
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
  /** How long a branch may take once its source is copied, in ms. */
  creatingMs: number
  /** How long a restart in the region's window may take, in ms. */
  maintenanceMs: number
  /** The most branches between a database and a branch, that one included. */
  highestDepth: number
}

/** The status with what was found. */
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

/** It came to nothing: that is said first, and then all there is of it goes. */
export function creationFailed(observed: Observed, { reason, message }: Refusal, now: number): Plan {
  const operation = operationOf(observed.branch, 'create-branch', now)
  // What had been made of it depends on how far it was when its copy failed, and is deleted next.
  const ended = no('BranchFailed', 'the branch failed, and what was made of it is deleted')
  const findings = {
    Ready: no(reason, message),
    Progressing: no(reason, message),
    CredentialsReady: ended,
    EndpointReady: ended,
  }
  return nothing(withFindings(observed, findings, { phase: 'failed', operation }, now))
}
