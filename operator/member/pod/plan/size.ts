/**
 * Determines a database's size while another size is requested. The operator applies settings, resources and volume of
 * a size together. Only the growth of the volume can be refused, so the volume grows first. Until it has grown,
 * everything keeps the applied size, and the request remains in the spec (docs/decisions/0019-applied-size.md).
 */

import type { PinnedSize, SizeShape } from '../../../../crds/index.ts'
import { conditionOf, type Finding, no } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import { type Growth, growthOf } from '../../storage/plan/growth.ts'
import { isUnprovisioned } from '../../storage/plan/unprovisioned.ts'
import { sizeText } from '../stateful-set.ts'
import { mayStop } from './stop.ts'
import { sizeNotFound } from './unknown-reference.ts'

/** What blocks the requested size. */
type SizeBlocker = {
  reason:
    | 'SizeNotFound'
    | 'SizeRetired'
    | 'Growing'
    | 'AwaitsResume'
    | 'GrowthFailing'
    | 'GrowthRefused'
    | 'GrowthInfeasible'
  message: string
  /**
   * Whether waiting can remove the blocker. If not, the operator reports the blocker at once, and the operation fails.
   */
  passes: boolean
  /** This pass sends the request, so the cluster's answer is not known yet. */
  isRequested?: true | undefined
}

export type SizeState = {
  /** The size for settings and pod: the requested size if nothing blocks it, otherwise the applied size. */
  effective: PinnedSize
  /** Undefined if its Size object does not exist. */
  shape: SizeShape | undefined
  blocker: SizeBlocker | undefined
  /**
   * Set if the volume is smaller than the applied size requires. An older operator, or a restore by hand, can cause
   * this.
   */
  shortfall?: SizeBlocker | undefined
}

const sameSize = (left: PinnedSize, right: PinnedSize): boolean =>
  left.name === right.name && left.version === right.version

export function sizeState(observed: ObservedMember): SizeState {
  const { instance, children, size, appliedSize } = observed
  const requested = instance.spec.size
  const requestedState: SizeState = { effective: requested, shape: size?.spec.shape, blocker: undefined }
  // The operator replaces a claim that waits for its volume, so nothing has to grow.
  if (size !== undefined && isUnprovisioned(observed)) return requestedState
  const { claim } = children
  const growth = size && claim && growthOf(claim, size.spec.shape.storageSize, observed.growthRefusal)
  const blocker = growth && blockerOf(growth, observed)
  if (sameSize(requested, appliedSize.pinned)) return { ...requestedState, shortfall: blocker }
  const retained = (blocker: SizeBlocker): SizeState => ({
    effective: appliedSize.pinned,
    shape: appliedSize.size?.spec.shape,
    blocker,
  })
  if (size === undefined) return retained({ reason: 'SizeNotFound', message: sizeNotFound(requested), passes: false })
  // A database that already has a retired size keeps it. Other databases cannot get it.
  if (size.spec.status === 'retired')
    return retained({
      reason: 'SizeRetired',
      message: `spec.size: ${sizeText(requested)} is retired; only databases that already have it can use it`,
      passes: false,
    })
  if (claim === undefined)
    return instance.status?.volume === undefined
      ? requestedState
      : retained({ reason: 'Growing', message: 'the volume does not exist', passes: true })
  return blocker ? retained(blocker) : requestedState
}

function blockerOf(growth: Growth, observed: ObservedMember): SizeBlocker | undefined {
  const { instance, pod, children, isOrphanClaim } = observed
  const awaitsPod = (message: string): SizeBlocker =>
    instance.spec.suspended && pod === undefined
      ? { reason: 'AwaitsResume', message: 'the volume grows when the database is resumed', passes: true }
      : { reason: 'Growing', message, passes: true }
  switch (growth.state) {
    case 'done':
      return undefined
    case 'underway':
      // The operator does not change a claim before the claim is known to belong to the database.
      return isOrphanClaim
        ? awaitsPod('the operator must first confirm that the volume belongs to this database')
        : { reason: 'Growing', message: growth.message, passes: true, isRequested: growth.isRequested }
    case 'awaits-pod':
      return awaitsPod(growth.message)
    case 'failing':
      return { reason: 'GrowthFailing', message: `the volume does not grow: ${growth.message}`, passes: true }
    case 'refused':
      return {
        reason: 'GrowthRefused',
        message: `the cluster refused to grow the volume: ${growth.message}`,
        passes: false,
      }
    case 'infeasible': {
      const name = children.claim?.metadata.name ?? ''
      const message = `the volume cannot grow: ${growth.message}; for details: \`kubectl describe pvc ${name}\``
      return { reason: 'GrowthInfeasible', message, passes: false }
    }
  }
}

/**
 * The recorded size after this pass. It is the new size if the pod has it, or if no pod exists and the next pod will
 * have it.
 */
export function recordedSize(
  observed: ObservedMember,
  { effective }: SizeState,
  isPrepared: boolean,
): PinnedSize | undefined {
  const { instance, pod } = observed
  const { spec, status } = instance
  if (isUnprovisioned(observed)) return undefined
  const runs = pod !== undefined && !pod.terminating && pod.size === sizeText(effective)
  const nextPodHasIt = spec.suspended && pod === undefined && isPrepared
  if (runs || nextPodHasIt) return effective
  return status?.size ?? (sameSize(effective, spec.size) ? undefined : effective)
}

/**
 * The condition while the requested size is not applied, or the volume is smaller than the size. Undefined before the
 * first size is applied.
 */
export function sizeFinding(
  { instance, isAtRest }: ObservedMember,
  state: SizeState,
  recorded: PinnedSize | undefined,
) {
  const requested = instance.spec.size
  if (recorded === undefined) return undefined
  const { blocker, shortfall } = state
  // After a restart, the operator knows no refusals. So the previous condition stays until the cluster answers.
  const before = conditionOf(instance.status, 'SizeApplied')
  if (before?.reason === 'GrowthRefused' && isAtRest && (blocker ?? shortfall)?.isRequested)
    return no(before.reason, before.message)
  if (sameSize(recorded, requested))
    return (
      shortfall &&
      no(shortfall.reason, `${sizeText(requested)} is applied, with a smaller volume: ${shortfall.message}`)
    )
  const failed = (reason: string, why: string): Finding =>
    no(reason, `${sizeText(recorded)} is applied and ${sizeText(requested)} is requested: ${why}`)
  if (blocker) return failed(blocker.reason, blocker.message)
  return failed('Restarting', 'Postgres is being restarted with the requested size')
}

/**
 * Whether a size that was blocked when it was requested can be applied now. To apply it, the operator stops Postgres
 * for a moment, so this is a separate operation.
 */
export const isSizeUnblocked = (observed: ObservedMember, { effective }: SizeState): boolean => {
  const { instance, appliedSize } = observed
  return (
    observed.isAtRest &&
    mayStop(observed) &&
    !instance.spec.suspended &&
    instance.status?.size !== undefined &&
    sameSize(effective, instance.spec.size) &&
    !sameSize(effective, appliedSize.pinned)
  )
}
