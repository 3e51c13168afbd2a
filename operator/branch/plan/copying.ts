/**
 * Plans a branch until its source is recorded. While a snapshot of the source is taken, the operator creates the
 * credentials and the endpoint, which stays closed. Once the source is recorded, `running` plans the volume and
 * Postgres. Pure.
 */

import { conflictFinding } from '../../children/drift.ts'
import { nothingServes, planEndpoint } from '../../endpoint/plan/index.ts'
import { no, yes } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { nothing } from '../../owner/plan/steps.ts'
import type { Observed } from '../observed.ts'
import { operationOf } from './operation.ts'
import { creationFailed, type Plan, type PlanSettings, withFindings } from './plan.ts'
import { copied, copyingStep, isRetained, prebranchDraft } from './prebranch.ts'
import { isOutOfArchive, recoverableMessage, recovered } from './recovering.ts'
import { refusalOf } from './refusal.ts'

export function copying(observed: Observed, owner: Owner, now: number, settings: PlanSettings): Plan {
  const { branch, backup, source } = observed
  const refusal = backup === undefined || isOutOfArchive(observed) ? refusalOf(observed, settings) : undefined
  if (refusal !== undefined) return creationFailed(observed, refusal, now)
  if (isOutOfArchive(observed)) {
    const found = recovered(observed, now)
    if ('refused' in found) return creationFailed(observed, found.refused, now)
    return begun(observed, now, found.source)
  }
  const copy = backup && copied(backup, branch, source, now)
  if (copy?.state === 'failed') return creationFailed(observed, copy.refusal, now)
  const endpoint = planEndpoint(observed, owner, nothingServes)
  const actions: Plan['actions'] = [...endpoint.actions]
  if (backup === undefined)
    actions.push({ do: 'create-backup', draft: prebranchDraft(branch, owner.id, isRetained(observed)) })
  const notYet = no('NotCopied', "the branch's data are being copied")
  const requesting = { step: copyingStep, message: 'requesting a snapshot of the source' }
  const { step, message } = copy?.state === 'running' ? copy : requesting
  const contested = conflictFinding(observed)
  const findings = {
    ...(contested ? { ChildrenApplied: contested } : {}),
    KeysAvailable: yes('Present', "the installation's keys exist"),
    ...endpoint.findings,
    ...{ Ready: notYet, VolumeReady: notYet, Progressing: yes(step, message) },
  }
  const operation = operationOf(branch, 'create-branch', now)
  const status = withFindings(observed, findings, { phase: 'creating', operation }, now)
  return { ...nothing(copy?.state === 'completed' ? { ...status, source: copy.source } : status), actions }
}

/** Records the backup and WAL from which the branch will be recovered. Nothing is created before this record. */
function begun(observed: Observed, now: number, source: NonNullable<Plan['status']['source']>): Plan {
  const notYet = no('NotCopied', "the branch's data are being recovered from the archive")
  const findings = {
    KeysAvailable: yes('Present', "the installation's keys exist"),
    ...{ Ready: notYet, VolumeReady: notYet, Progressing: yes(copyingStep, recoverableMessage(source.backupName)) },
  }
  const operation = operationOf(observed.branch, 'create-branch', now)
  return nothing(withFindings(observed, findings, { phase: 'creating', operation, source }, now))
}
