/**
 * Plans the actions for one member from its observed state. Pure. Plans only this member's objects, so a restore can
 * use it for a candidate's Postgres beside the serving member.
 */
import { applyIfChanged } from '../../children/drift.ts'
import type { Finding } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { MemberAction } from '../actions.ts'
import { canMountArchive, planArchive } from '../archive/plan.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from '../pod/addresses.ts'
import { podRepair } from '../pod/plan/pod-repair.ts'
import { restart } from '../pod/plan/restart.ts'
import type { RestartsOf } from '../pod/plan/restart-annotations.ts'
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

/** Inputs from the member's owner and from the endpoint. */
type Prerequisites = {
  restartsOf: RestartsOf
  role: Role
  /**
   * The network policy and all objects that the pod mounts exist. Also true for a member that does not wait for them.
   */
  isComplete: boolean
  /** When the valid server certificate was issued, in ms since the epoch. */
  certificateIssuedAt: number | undefined
  /**
   * Whether the operator protects the volume from deletion by other managers. A candidate's volume needs no protection,
   * because the restore can create another volume.
   */
  protectsVolume: boolean
}

type MemberState = {
  desired: DesiredMember
  /** The condition VolumeReady. */
  volume: Finding
  /**
   * The volume cannot be used, for example because its data are lost or belong to another database. The operator cannot
   * fix this.
   */
  fatal: Finding | undefined
  /** Postgres's answer in its current run. */
  answered: Answered
  /** The state of a volume that grows automatically. */
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
  // Restores the annotations first, because the restart decision reads them.
  const isMisread = repairs.some(({ annotations }) => Object.keys(annotations).length > 0)
  return [
    ...storage(observed, owner, state),
    ...planArchive(observed),
    ...(needs.protectsVolume ? protectVolume(observed, owner) : []),
    ...workload(observed, state, needs),
    ...repairs,
    ...(isMisread ? [] : restart(observed, state, needs.certificateIssuedAt)),
    ...dropInherited(observed, state),
  ]
}

/**
 * The operator creates a claim, or replaces one that waits for its volume, only before a volume is recorded. The
 * operator never replaces a lost claim. It does not change a claim that does not belong to the database, or that is not
 * confirmed yet.
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

/**
 * Applies the configuration first. Applies the StatefulSet only when the network policy and all mounted objects exist,
 * or to stop the pod.
 */
function workload(observed: ObservedMember, { desired }: MemberState, { isComplete }: Prerequisites): MemberAction[] {
  const { configuration, claim, statefulSet } = observed.children
  const actions: MemberAction[] = desired.configuration
    ? applyIfChanged(observed, 'ConfigMap', configuration, desired.configuration)
    : []
  const canStart = isComplete && canMountArchive(observed) && configuration !== undefined && claim !== undefined
  const stops = isStopped(observed) && statefulSet !== undefined
  if (desired.statefulSet && ((canStart && !observed.provisionsWithoutPod) || stops))
    actions.push(...applyIfChanged(observed, 'StatefulSet', statefulSet, desired.statefulSet))
  return actions
}

/**
 * Removes the source's slots and subscriptions from a closed copy. Skips a recorded copy, which can have its own slots
 * and subscriptions.
 */
function dropInherited({ instance, postgres }: ObservedMember, { answered, fatal }: MemberState): MemberAction[] {
  if (answered === undefined || fatal || postgres === undefined || postgres.isOutdated) return []
  return instance.status?.volume === undefined && !isOwn(answered) ? [{ do: 'detach' }] : []
}
