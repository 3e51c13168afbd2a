/**
 * Plans a branch. Computes actions and status only from the observed state, the time and the settings. So the operator
 * can continue after a crash at any point. A branch is created in this order:
 * 1. The operator takes a snapshot of the source. With `spec.target`, the operator selects a base backup and WAL in the
 *    archive instead. `status.source` records the snapshot or the backup.
 * 2. The operator creates a volume from `status.source`.
 * 3. Postgres starts. Postgres refuses clients until the source's slots and subscriptions are dropped and all passwords
 *    are replaced.
 * 4. The endpoint opens, and billing starts.
 */
import { isFailedCreation } from '../../../crds/index.ts'
import { preciseTime } from '../../../values/time.ts'
import { type Finding, no } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import { foundRecord, hasFinalizer, identification, labelling, nothing } from '../../owner/plan/steps.ts'
import type { Action } from '../actions.ts'
import { isDeletionRequested, type Observed } from '../observed.ts'
import { copying } from './copying.ts'
import { planCleanup, planDeletion, planEnded, planRecord } from './deletion.ts'
import { type Plan, type PlanSettings, withFindings } from './plan.ts'
import { running } from './running.ts'

export function plan(observed: Observed, now: number, settings: PlanSettings): Plan {
  const { branch } = observed
  const { metadata, status = {} } = branch
  const isFinalizerPresent = hasFinalizer(metadata)
  const idle = nothing(status)
  if (status.phase === 'deleted') return planRecord(observed, isFinalizerPresent, now)
  if (metadata.deletionTimestamp !== undefined && !isFinalizerPresent) return idle
  const isFailed = isFailedCreation(branch) && !isDeletionRequested(branch)
  if (isFailed && !isFinalizerPresent) return planEnded(observed, now)
  const labelled = labelling(observed, { isGoing: isDeletionRequested(branch) || isFailed })
  if (labelled.state === 'key-missing') return withoutKeys(observed, labelled, now)
  if (labelled.state === 'unlabelled') return { ...idle, actions: labelled.actions }
  const owner = observed.identity.state === 'settled' ? observed.identity.owner : undefined
  if (isDeletionRequested(branch)) return planDeletion(observed, owner, now)
  if (isFailed) return planCleanup(observed, owner, now)
  const identified = identification(observed)
  if (identified.state === 'contested') return contested(observed, identified.why, now)
  if (identified.state === 'unidentified') return { ...idle, actions: identified.actions }
  const expiresAt = branch.spec.expiresAt === undefined ? undefined : Date.parse(branch.spec.expiresAt)
  const isExpired = expiresAt !== undefined && now >= expiresAt
  if (isExpired && observed.clockDistrust === undefined)
    return { ...idle, actions: [{ do: 'request-deletion', at: preciseTime(now) }] }
  const found = foundRecord(observed)
  if (found !== undefined) return nothing({ ...status, ...found })
  // The status of a Branch can have a volume but no source, for example after a restore by Velero.
  const isCopied = status.source !== undefined || status.volume !== undefined
  const made = (isCopied ? running : copying)(observed, identified.owner, now, settings)
  return {
    ...made,
    actions: [...labelled.actions, ...made.actions],
    requeueAt: earliest(made.requeueAt, isExpired ? undefined : expiresAt),
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

/** Plans no action until a user has decided which object owns the data. A running Postgres is not stopped. */
function contested(observed: Observed, why: string, now: number): Plan {
  const finding = no('IdContested', why)
  const phase = observed.branch.status?.phase ?? 'creating'
  return nothing(withFindings(observed, { Ready: finding, VolumeReady: finding }, { phase }, now))
}
