/**
 * The only check before the operator stops Postgres: for a new size or volume, a requested or due restart, or a
 * suspension. Everything that stops a pod, except the deletion of the database itself, uses it.
 */

import { conditionOf } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import { isToBeReplaced } from '../../storage/plan/unprovisioned.ts'
import { mayRunOnRecordedVolume, outlivesClaim, volumeStateOf } from '../../storage/plan/volume-state.ts'
import { sizeText } from '../stateful-set.ts'

/**
 * Whether the data outlive the pod. A claim or volume that is being deleted is retained only by the pod that uses it.
 * If the claim is lost, the volume may still exist, under a running Postgres.
 */
export function mayStop(observed: ObservedMember): boolean {
  const state = volumeStateOf(observed)
  if (state === 'safe' || outlivesClaim(observed)) return true
  return state === 'lost' && !mayRunOnRecordedVolume(observed)
}

/**
 * Whether a stop is also used to bind the volume to a new claim. Then the StatefulSet is scaled to zero; the pod is not
 * just deleted.
 */
export const stopsToRebind = (observed: ObservedMember): boolean => {
  const state = volumeStateOf(observed)
  return state === 'terminating' || state === 'released'
}

/**
 * Whether another size is being applied. A claim that is being deleted no longer grows, so the new claim is created
 * first.
 */
function isResizing({ instance, appliedSize, size }: ObservedMember): boolean {
  const { spec, status } = instance
  const runs = conditionOf(status, 'Progressing')?.status === 'True'
  return runs && size !== undefined && sizeText(spec.size) !== sizeText(appliedSize.pinned)
}

/**
 * Whether a suspension waits for work that needs Postgres: only while nothing has begun to stop Postgres. A Postgres
 * that is down, such as after a crash, is started again. The work fails by a deadline of its own
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

/** Whether no pod is to run: fenced, suspended as requested, nothing to run on, or a claim that is to be replaced. */
export function isStopped(observed: ObservedMember): boolean {
  const { instance, children, pod } = observed
  const state = volumeStateOf(observed)
  if (instance.isFenced) return pod === undefined || mayStop(observed)
  if (state === 'lost') return !mayRunOnRecordedVolume(observed) || (instance.spec.suspended && maySuspend(observed))
  if (isToBeReplaced(observed)) return true
  if (stopsToRebind(observed) && mayStop(observed)) {
    // Postgres stopped by itself, or was stopped: what was begun is completed.
    const isDown = pod === undefined || pod.terminating || pod.address === undefined
    if (state === 'released' || isDown || isResizing(observed)) return true
    if (children.statefulSet?.spec?.replicas === 0) return true
  }
  return instance.spec.suspended && ((pod === undefined && !isSuspensionDelayed(observed)) || maySuspend(observed))
}
