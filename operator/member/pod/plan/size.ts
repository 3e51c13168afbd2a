/**
 * Which size a database has while another is requested. A size is applied as a whole: settings, resources and volume.
 * Since only the volume's growth can be refused, it grows first. Until it has, everything keeps the applied size, and
 * the request remains in the spec (docs/decisions/0019-applied-size.md).
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
  /** Waiting resolves it, now or maybe later. If not, it is reported at once, and the operation has failed. */
  passes: boolean
  /** This pass repeats the request, to find out whether the block still exists. */
  isRequested?: true | undefined
}

export type SizeState = {
  /** The size for settings and pod: the requested one as soon as nothing blocks it, else the applied one. */
  effective: PinnedSize
  /** Undefined if its Size object does not exist. */
  shape: SizeShape | undefined
  blocker: SizeBlocker | undefined
  /**
   * Why the volume is smaller than that of the applied size, if it is: caused by an older operator, or by a restore by
   * hand.
   */
  shortfall?: SizeBlocker | undefined
}

const sameSize = (left: PinnedSize, right: PinnedSize): boolean =>
  left.name === right.name && left.version === right.version

export function sizeState(observed: ObservedMember): SizeState {
  const { instance, children, size, appliedSize } = observed
  const requested = instance.spec.size
  const wished: SizeState = { effective: requested, shape: size?.spec.shape, blocker: undefined }
  // A claim that waits for its volume is replaced, so nothing has to grow.
  if (size !== undefined && isUnprovisioned(observed)) return wished
  const { claim } = children
  const growth = size && claim && growthOf(claim, size.spec.shape.storageSize, observed.growthRefusal)
  const blocker = growth && blockerOf(growth, observed)
  if (sameSize(requested, appliedSize.pinned)) return { ...wished, shortfall: blocker }
  const retained = (blocker: SizeBlocker): SizeState => ({
    effective: appliedSize.pinned,
    shape: appliedSize.size?.spec.shape,
    blocker,
  })
  if (size === undefined) return retained({ reason: 'SizeNotFound', message: sizeNotFound(requested), passes: false })
  // A database that has a retired size keeps it.
  if (size.spec.status === 'retired')
    return retained({
      reason: 'SizeRetired',
      message: `spec.size: ${sizeText(requested)} is retired and cannot be used for other databases`,
      passes: false,
    })
  if (claim === undefined)
    return instance.status?.volume === undefined
      ? wished
      : retained({ reason: 'Growing', message: 'the volume does not exist', passes: true })
  return blocker ? retained(blocker) : wished
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
      // A claim is not changed before it is known to be the database's own.
      return isOrphanClaim
        ? awaitsPod('the volume must first be confirmed as that of this database')
        : { reason: 'Growing', message: growth.message, passes: true, isRequested: growth.isRequested }
    case 'awaits-pod':
      return awaitsPod(growth.message)
    case 'failing':
      return { reason: 'GrowthFailing', message: `the volume does not grow: ${growth.message}`, passes: true }
    case 'refused':
      return {
        reason: 'GrowthRefused',
        message: `the volume cannot grow: the cluster refused: ${growth.message}`,
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
 * The recorded size after this pass: the new one once the pod has it, or if there is no pod and the next one will have
 * it.
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
  const rests = spec.suspended && pod === undefined && isPrepared
  if (runs || rests) return effective
  return status?.size ?? (sameSize(effective, spec.size) ? undefined : effective)
}

/** The condition while the requested size is not the applied one; none for a database that never had one. */
export function sizeFinding(
  { instance, isAtRest }: ObservedMember,
  state: SizeState,
  recorded: PinnedSize | undefined,
) {
  const requested = instance.spec.size
  if (recorded === undefined) return undefined
  const { blocker, shortfall } = state
  // After a restart of the operator no refusals are known, so the old condition stays until the cluster answers.
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
  return failed('Restarting', 'Postgres is being restarted with it')
}

/**
 * Whether a size that could not be applied when it was requested can be applied now. That stops Postgres for a moment,
 * so it is an operation of its own.
 */
export const comesIntoForce = (observed: ObservedMember, { effective }: SizeState): boolean => {
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
