/**
 * From what was observed of one member to what is done about it: a pure function. It concerns the objects of this member alone, so the
 * Postgres of a restore candidate is planned by it beside the one that serves.
 */
import { applyIfChanged } from '../../children/drift.ts'
import type { Finding } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { MemberAction } from '../actions.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from '../pod/addresses.ts'
import { podRepair } from '../pod/plan/pod-repair.ts'
import { restart } from '../pod/plan/restart.ts'
import type { RestartsOf } from '../pod/plan/restart-marks.ts'
import { isStopped } from '../pod/plan/stop.ts'
import { type Answered, isOwn, presentAnswer } from '../postgres/answer.ts'
import { repairedClaim } from '../storage/claim.ts'
import { type Autogrowth, autogrowth } from '../storage/plan/autogrow.ts'
import { awaitsRetry, resizedClaim } from '../storage/plan/growth.ts'
import { adoption } from '../storage/plan/retained.ts'
import { isToBeReplaced, replacement } from '../storage/plan/unprovisioned.ts'
import { volumeFinding } from '../storage/plan/volume.ts'
import { protectVolume } from '../storage/plan/volume-protection.ts'
import { type DesiredMember, desiredMember } from './desired.ts'

/** What a member needs of its owner and of the endpoint. */
type Prerequisites = {
  restartsOf: RestartsOf
  /** Among the members of its incarnation. */
  role: Role
  /** All that its pod mounts, and the network policy, exist or are not waited for. */
  isComplete: boolean
  /** When the valid server certificate was issued, in ms since the epoch. */
  certificateIssuedAt: number | undefined
  /** Its volume is protected from deletion by others. A candidate's is not: the restore creates another one. */
  protectsVolume: boolean
}

type MemberState = {
  desired: DesiredMember
  /** VolumeReady. */
  volume: Finding
  /** The data are lost or another's: nothing that the operator may do by itself mends this. */
  fatal: Finding | undefined
  /** What Postgres answered, in its present run. */
  answered: Answered
  /** Of a volume that grows by itself. */
  autogrown: Autogrowth
}

export type MemberPlan = MemberState & { actions: MemberAction[] }

export function planMember(observed: ObservedMember, owner: Owner, now: number, needs: Prerequisites): MemberPlan {
  const answer = presentAnswer(observed)
  const answered = answer?.state === 'answered' ? answer : undefined
  const volume = volumeFinding(observed, answered)
  const fatal = volume.fatal ? volume.finding : undefined
  const known = observed.instance.status?.volume?.systemIdentifier
  const systemIdentifier = known ?? (!fatal && isOwn(answered) ? answered.systemIdentifier : undefined)
  const intent = { stopped: isStopped(observed), systemIdentifier, role: needs.role }
  const desired = desiredMember(observed, owner, intent, needs.restartsOf)
  const autogrown = autogrowth(observed, desired.size, now)
  const state = { desired, volume: volume.finding, fatal, answered, autogrown }
  return { ...state, actions: actionsOf(observed, owner, state, needs) }
}

function actionsOf(observed: ObservedMember, owner: Owner, state: MemberState, needs: Prerequisites): MemberAction[] {
  const repairs = podRepair(observed, state)
  // A restart is decided by the annotations once they are put back.
  const isMisread = repairs.some(({ annotations }) => Object.keys(annotations).length > 0)
  return [
    ...storage(observed, owner, state),
    ...(needs.protectsVolume ? protectVolume(observed, owner) : []),
    ...workload(observed, state, needs),
    ...repairs,
    ...(isMisread ? [] : restart(observed, state, needs.certificateIssuedAt)),
    ...detach(observed, state),
  ]
}

/**
 * A volume is claimed, and a claim that waits for one replaced, only while none has been recorded; one that is lost never
 * is, and a claim that is not, or not yet, the database's is left as it is.
 */
function storage(observed: ObservedMember, owner: Owner, { desired, autogrown }: MemberState): MemberAction[] {
  const { instance, children, size, growthRefusal, isOrphanClaim } = observed
  const recorded = instance.status?.volume
  const { claim } = children
  if (claim === undefined && observed.retained.length > 0) return adoption(observed, owner)
  if (claim === undefined)
    return recorded === undefined && !instance.awaitsSource && desired.claim
      ? [{ do: 'create-claim', draft: desired.claim }]
      : []
  if (recorded === undefined ? isOrphanClaim : recorded.uid !== claim.metadata.uid) return []
  if (isToBeReplaced(observed)) return replacement(observed)
  const repaired = desired.claim && repairedClaim(claim, desired.claim)
  if (repaired) return [{ do: 'update-claim', claim: repaired }]
  const storage = size?.spec.shape.storageSize
  const resized = storage && resizedClaim(claim, storage)
  if (!resized) return autogrown.claim ? [{ do: 'grow-claim', claim: autogrown.claim }] : []
  return awaitsRetry(growthRefusal, claim, storage) ? [] : [{ do: 'grow-claim', claim: resized }]
}

/** Configuration first; the StatefulSet once all that its pod mounts, and the network policy, exist. */
function workload(observed: ObservedMember, { desired }: MemberState, { isComplete }: Prerequisites): MemberAction[] {
  const { configuration, claim, statefulSet } = observed.children
  const actions: MemberAction[] = desired.configuration
    ? applyIfChanged(observed, 'ConfigMap', configuration, desired.configuration)
    : []
  const canStart = isComplete && configuration !== undefined && claim !== undefined
  const stops = isStopped(observed) && statefulSet !== undefined
  if (desired.statefulSet && ((canStart && !observed.provisionsWithoutPod) || stops))
    actions.push(...applyIfChanged(observed, 'StatefulSet', statefulSet, desired.statefulSet))
  return actions
}

/** Removes from a closed copy what is its source's. One on record can have slots and subscriptions of its own. */
function detach({ instance, postgres }: ObservedMember, { answered, fatal }: MemberState): MemberAction[] {
  if (answered === undefined || fatal || postgres === undefined || postgres.isOutdated) return []
  return instance.status?.volume === undefined && !isOwn(answered) ? [{ do: 'detach' }] : []
}
