/**
 * Plans a branch: a pure function from what was observed to actions and status, the same after a crash at any point. A branch is
 * created in this order: a snapshot of its source, which the status records; a volume from it; Postgres, closed to clients, until
 * the data are its own; then the endpoint is opened, and billing starts.
 */
import { isFailedCreation } from '../../../crds/index.ts'
import { preciseTime } from '../../../values/time.ts'
import { type Finding, no } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import { foundRecord, hasFinalizer, identification, marking, nothing } from '../../owner/plan/steps.ts'
import type { Action } from '../actions.ts'
import { isDeletionRequested, type Observed } from '../observed.ts'
import { copying } from './copying.ts'
import { planCleanup, planDeletion, planEnded, planRecord } from './deletion.ts'
import { type Plan, type PlanSettings, withFindings } from './plan.ts'
import { running } from './running.ts'

export function plan(observed: Observed, now: number, settings: PlanSettings): Plan {
  const { branch } = observed
  const { metadata, status = {} } = branch
  const isHeld = hasFinalizer(metadata)
  const idle = nothing(status)
  if (status.phase === 'deleted') return planRecord(observed, isHeld, now)
  if (metadata.deletionTimestamp !== undefined && !isHeld) return idle
  const isFailed = isFailedCreation(branch) && !isDeletionRequested(branch)
  if (isFailed && !isHeld) return planEnded(observed, now)
  const marked = marking(observed, { isGoing: isDeletionRequested(branch) || isFailed })
  if (marked.state === 'key-missing') return withoutKeys(observed, marked, now)
  if (marked.state === 'unmarked') return { ...idle, actions: marked.actions }
  const owner = observed.identity.state === 'settled' ? observed.identity.owner : undefined
  if (isDeletionRequested(branch)) return planDeletion(observed, owner, now)
  if (isFailed) return planCleanup(observed, owner, now)
  const identified = identification(observed)
  if (identified.state === 'contested') return contested(observed, identified.why, now)
  if (identified.state === 'unidentified') return { ...idle, actions: identified.actions }
  const expiresAt = branch.spec.expiresAt === undefined ? undefined : Date.parse(branch.spec.expiresAt)
  const isExpired = expiresAt !== undefined && now >= expiresAt
  if (isExpired && observed.clockDoubt === undefined)
    return { ...idle, actions: [{ do: 'request-deletion', at: preciseTime(now) }] }
  const found = foundRecord(observed)
  if (found !== undefined) return nothing({ ...status, ...found })
  // The status of a branch that was created again from a backup of its object may have the volume alone.
  const isCopied = status.source !== undefined || status.volume !== undefined
  const made = (isCopied ? running : copying)(observed, identified.owner, now, settings)
  return {
    ...made,
    actions: [...marked.actions, ...made.actions],
    wakeAt: earliest(made.wakeAt, isExpired ? undefined : expiresAt),
  }
}

function withoutKeys(
  observed: Observed,
  { finding, actions }: { finding: Finding; actions: Action[] },
  now: number,
): Plan {
  const phase = observed.branch.status?.phase ?? 'creating'
  return { ...nothing(withFindings(observed, { KeysAvailable: finding }, { phase }, now)), actions }
}

/** Does nothing, and stops nothing that runs, until a user has decided whose the data are. */
function contested(observed: Observed, why: string, now: number): Plan {
  const finding = no('IdContested', why)
  const phase = observed.branch.status?.phase ?? 'creating'
  return nothing(withFindings(observed, { Ready: finding, VolumeReady: finding }, { phase }, now))
}
