/** Plans a branch until its source is copied. The endpoint is created meanwhile, and the member afterwards. Pure. */

import { contestFinding } from '../../children/drift.ts'
import { nothingServes, planEndpoint } from '../../endpoint/plan/index.ts'
import { no, yes } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { nothing } from '../../owner/plan/steps.ts'
import type { Observed } from '../observed.ts'
import { operationOf } from './operation.ts'
import { creationFailed, type Plan, type PlanSettings, withFindings } from './plan.ts'
import { copied, copyingStep, isKept, prebranchDraft } from './prebranch.ts'
import { refusalOf } from './refusal.ts'

export function copying(observed: Observed, owner: Owner, now: number, settings: PlanSettings): Plan {
  const { branch, backup, source } = observed
  const refusal = backup === undefined ? refusalOf(observed, settings) : undefined
  if (refusal !== undefined) return creationFailed(observed, refusal, now)
  const copy = backup && copied(backup, branch, source, now)
  if (copy?.state === 'failed') return creationFailed(observed, copy.refusal, now)
  const endpoint = planEndpoint(observed, owner, nothingServes)
  const actions: Plan['actions'] = [...endpoint.actions]
  if (backup === undefined)
    actions.push({ do: 'create-backup', draft: prebranchDraft(branch, owner.id, isKept(observed)) })
  const notYet = no('NotCopied', 'its data are being copied')
  const asking = { step: copyingStep, message: 'asking for a snapshot of its source' }
  const { step, message } = copy?.state === 'underway' ? copy : asking
  const contested = contestFinding(observed)
  const findings = {
    ...(contested ? { ChildrenApplied: contested } : {}),
    KeysAvailable: yes('Present', "the installation's keys are there"),
    ...endpoint.findings,
    ...{ Ready: notYet, VolumeReady: notYet, Progressing: yes(step, message) },
  }
  const operation = operationOf(branch, 'create-branch', now)
  const status = withFindings(observed, findings, { phase: 'creating', operation }, now)
  return { ...nothing(copy?.state === 'cut' ? { ...status, source: copy.source } : status), actions }
}
