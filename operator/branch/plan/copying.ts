/** A branch up to the moment in which the copy of its source is on record. All that does not wait for data is made meanwhile. Pure. */
import { childNames } from '../../../crds/index.ts'
import { noRestarts } from '../../member/pod/plan/restart-marks.ts'
import { no, yes } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { assess } from '../../workload/plan/assessment.ts'
import { nextActions } from '../../workload/plan/next-actions.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'
import { operationOf } from './operation.ts'
import { failed, nothing, type Plan, type PlanSettings, told } from './plan.ts'
import { copied, copyingStep, isKept, prebranchDraft } from './prebranch.ts'
import { refusalOf } from './refusal.ts'

export function copying(observed: Observed, owner: Owner, now: number, settings: PlanSettings): Plan {
  const { branch, backup, source } = observed
  const refusal = backup === undefined ? refusalOf(observed, settings) : undefined
  if (refusal !== undefined) return failed(observed, refusal, now)
  const copy = backup && copied(backup, branch, source, now)
  if (copy?.state === 'failed') return failed(observed, copy.refusal, now)
  const assessment = assess(observed, owner, now, noRestarts)
  const actions: Action[] = withoutVolume(nextActions(observed, owner, assessment), owner)
  if (backup === undefined)
    actions.push({ do: 'create-backup', draft: prebranchDraft(branch, owner.id, isKept(observed)) })
  const notYet = no('NotCopied', 'its data are being copied')
  const asking = { step: copyingStep, message: 'asking for a snapshot of its source' }
  const { step, message } = copy?.state === 'underway' ? copy : asking
  const findings = { ...assessment.findings, Ready: notYet, VolumeReady: notYet, Progressing: yes(step, message) }
  const operation = operationOf(branch, 'create-branch', now)
  const status = told(observed, findings, { phase: 'creating', operation }, now)
  return { ...nothing(observed), actions, status: copy?.state === 'cut' ? { ...status, source: copy.source } : status }
}

/** A volume that is made before there is something to make it from would be an empty one. */
const withoutVolume = (actions: readonly Action[], { id }: Owner): Action[] =>
  actions.filter(action => {
    if (action.do !== 'apply') return action.do !== 'create-claim'
    return action.kind !== 'StatefulSet' && action.draft.metadata.name !== childNames.configuration(id, 1)
  })
