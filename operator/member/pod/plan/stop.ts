/**
 * The check before each planned stop of Postgres: for a new size or volume, a restart, a suspension, or a restore. Only
 * the deletion of the database stops a pod without this check.
 */

import { conditionOf } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import { isToBeReplaced } from '../../storage/plan/unprovisioned.ts'
import { mayRunOnRecordedVolume, outlivesClaim, volumeStateOf } from '../../storage/plan/volume-state.ts'
import { sizeText } from '../stateful-set.ts'

/**
 * Whether the data outlive the pod. If a claim or volume is being deleted, only the pod that uses the volume delays the
 * deletion. If the claim is lost, the volume may still exist, and Postgres may still run on it.
 */
export function mayStop(observed: ObservedMember): boolean {
  const state = volumeStateOf(observed)
  if (state === 'safe' || outlivesClaim(observed)) return true
  return state === 'lost' && !mayRunOnRecordedVolume(observed)
}

/**
 * Whether the stop is also necessary to bind the volume to a new claim. The operator then scales the StatefulSet to
 * zero instead of only deleting the pod.
 */
export const stopsToRebind = (observed: ObservedMember): boolean => {
  const state = volumeStateOf(observed)
  return state === 'terminating' || state === 'released'
}

/**
 * Whether another size is being applied. A claim that is being deleted no longer grows, so the operator creates the new
 * claim first.
 */
function isResizing({ instance, appliedSize, size }: ObservedMember): boolean {
  const { spec, status } = instance
  const runs = conditionOf(status, 'Progressing')?.status === 'True'
  return runs && size !== undefined && sizeText(spec.size) !== sizeText(appliedSize.pinned)
}

/**
 * Whether a suspension waits for work that needs Postgres. A suspension whose stop has begun does not wait. During the
 * wait, the operator starts a Postgres that is down, for example after a crash. The work has its own deadline
 * (operator/backup/plan/timeouts.ts).
 */
export const isSuspensionDelayed = (observed: ObservedMember): boolean => {
  const { instance, children, pod, suspensionBlock } = observed
  if (suspensionBlock === undefined || !instance.spec.suspended || children.statefulSet?.spec?.replicas === 0)
    return false
  const isUp = pod?.address !== undefined && !pod.terminating
  return isUp || (children.statefulSet !== undefined && volumeStateOf(observed) === 'safe')
}

/** Whether a suspension may stop the existing pod. */
const maySuspend = (observed: ObservedMember): boolean => mayStop(observed) && !isSuspensionDelayed(observed)

/**
 * Whether no pod may run: the instance is fenced or suspended, there is no volume to run on, or the operator replaces
 * the claim.
 */
export function isStopped(observed: ObservedMember): boolean {
  const { instance, children, pod } = observed
  const state = volumeStateOf(observed)
  if (instance.isFenced) return pod === undefined || mayStop(observed)
  if (state === 'lost') return !mayRunOnRecordedVolume(observed) || (instance.spec.suspended && maySuspend(observed))
  if (isToBeReplaced(observed)) return true
  if (stopsToRebind(observed) && mayStop(observed)) {
    // Postgres is down: it ended by itself, or the operator stopped it. The operator completes the stop.
    const isDown = pod === undefined || pod.terminating || pod.address === undefined
    if (state === 'released' || isDown || isResizing(observed)) return true
    if (children.statefulSet?.spec?.replicas === 0) return true
  }
  return instance.spec.suspended && ((pod === undefined && !isSuspensionDelayed(observed)) || maySuspend(observed))
}
