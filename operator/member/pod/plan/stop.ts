/**
 * The one gate before anything of ours stops Postgres: a new size or volume, a restart that was asked for or is due,
 * suspension. Whatever stops a pod, and is not the deletion of the database itself, asks here first.
 */

import { conditionOf } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import { isToBeReplaced } from '../../storage/plan/unprovisioned.ts'
import { mayRunOnRecordedVolume, outlivesClaim, volumeStateOf } from '../../storage/plan/volume-state.ts'
import { sizeText } from '../stateful-set.ts'

/**
 * Whether the data outlive the pod. A claim or volume that somebody deletes is held by nothing but the pod that uses it;
 * where the claim is lost, the volume may be there all the same, under a Postgres that runs.
 */
export function mayStop(observed: ObservedMember): boolean {
  const state = volumeStateOf(observed)
  if (state === 'safe' || outlivesClaim(observed)) return true
  return state === 'lost' && !mayRunOnRecordedVolume(observed)
}

/**
 * Whether a stop is also the occasion to bind the volume to a new claim. Then the StatefulSet goes to no pod, rather than
 * that its pod is deleted for another to be made.
 */
export const stopsToRebind = (observed: ObservedMember): boolean => {
  const state = volumeStateOf(observed)
  return state === 'terminating' || state === 'released'
}

/** Whether another size is on its way. A claim that goes does not grow any more, so the new claim comes first. */
function isResizing({ instance, appliedSize, size }: ObservedMember): boolean {
  const { spec, status } = instance
  const runs = conditionOf(status, 'Progressing')?.status === 'True'
  return runs && size !== undefined && sizeText(spec.size) !== sizeText(appliedSize.pinned)
}

/**
 * Whether a suspension waits for what needs Postgres: only as long as nothing has begun to stop Postgres. One that is down, such as after
 * a crash, is started again. What waits for it fails by a deadline of its own (operator/backup/plan/patience.ts).
 */
export const isHeld = (observed: ObservedMember): boolean => {
  const { instance, children, pod, suspensionBlock } = observed
  if (suspensionBlock === undefined || !instance.spec.suspended || children.statefulSet?.spec?.replicas === 0)
    return false
  const isUp = pod?.address !== undefined && !pod.terminating
  return isUp || (children.statefulSet !== undefined && volumeStateOf(observed) === 'safe')
}

/** Whether a suspension may stop the pod that there is. */
const maySuspend = (observed: ObservedMember): boolean => mayStop(observed) && !isHeld(observed)

/** Whether no pod is to run: fenced off, suspended as asked, nothing to run it on, or a claim to be replaced by a new one. */
export function isStopped(observed: ObservedMember): boolean {
  const { instance, children, pod } = observed
  const state = volumeStateOf(observed)
  if (instance.isFenced) return pod === undefined || mayStop(observed)
  if (state === 'lost') return !mayRunOnRecordedVolume(observed) || (instance.spec.suspended && maySuspend(observed))
  if (isToBeReplaced(observed)) return true
  if (stopsToRebind(observed) && mayStop(observed)) {
    // Postgres stopped by itself, or was stopped: what was begun is brought to its end.
    const isDown = pod === undefined || pod.terminating || pod.address === undefined
    if (state === 'released' || isDown || isResizing(observed)) return true
    if (children.statefulSet?.spec?.replicas === 0) return true
  }
  return instance.spec.suspended && ((pod === undefined && !isHeld(observed)) || maySuspend(observed))
}
