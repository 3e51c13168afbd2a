/**
 * Which size a database has, while it may be asked to have another. A size comes into force as a whole: settings,
 * resources and volume. Since only the volume can be refused, it grows first; until it has, everything stays as it is on
 * the size in force, and the wish stays in the spec (docs/decisions/0019-size-in-force.md).
 */

import type { PinnedSize, SizeShape } from '../../../../crds/index.ts'
import { conditionOf, type Finding, no } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import { type Growth, growthOf } from '../../storage/plan/growth.ts'
import { isUnprovisioned } from '../../storage/plan/unprovisioned.ts'
import { sizeText } from '../stateful-set.ts'
import { mayStop } from './stop.ts'
import { sizeNotFound } from './unknown-reference.ts'

/** What keeps the size asked for from coming into force. */
type Hindrance = {
  reason:
    | 'SizeNotFound'
    | 'SizeRetired'
    | 'Growing'
    | 'AwaitsResume'
    | 'GrowthFailing'
    | 'GrowthRefused'
    | 'GrowthInfeasible'
  message: string
  /** Waiting mends it: it is on its way, or may be. What does not is told at once, and the operation has failed. */
  passes: boolean
  /** It is asked by this pass whether it still hinders. */
  isAsked?: true | undefined
}

export type SizeState = {
  /** What settings and pod are to be made by: the size asked for as soon as nothing hinders it, else the one in force. */
  effective: PinnedSize
  /** Unknown where there is no Size object of it. */
  shape: SizeShape | undefined
  hindrance: Hindrance | undefined
  /** Why the volume is smaller than that of the size in force, if it is: the work of an older operator, or of a restore by hand. */
  shortfall?: Hindrance | undefined
}

const sameSize = (left: PinnedSize, right: PinnedSize): boolean =>
  left.name === right.name && left.version === right.version

export function sizeState(observed: ObservedMember): SizeState {
  const { instance, children, size, appliedSize } = observed
  const asked = instance.spec.size
  const wished: SizeState = { effective: asked, shape: size?.spec.shape, hindrance: undefined }
  // A claim that waits for its volume is replaced, so that nothing has to grow.
  if (size !== undefined && isUnprovisioned(observed)) return wished
  const { claim } = children
  const growth = size && claim && growthOf(claim, size.spec.shape.storageSize, observed.growthRefusal)
  const hindrance = growth && hindranceOf(growth, observed)
  if (sameSize(asked, appliedSize.pinned)) return { ...wished, shortfall: hindrance }
  const kept = (hindrance: Hindrance): SizeState => ({
    effective: appliedSize.pinned,
    shape: appliedSize.size?.spec.shape,
    hindrance,
  })
  if (size === undefined) return kept({ reason: 'SizeNotFound', message: sizeNotFound(asked), passes: false })
  // Who has it keeps it.
  if (size.spec.status === 'retired')
    return kept({
      reason: 'SizeRetired',
      message: `spec.size: ${sizeText(asked)} is retired: no other database gets it`,
      passes: false,
    })
  if (claim === undefined)
    return instance.status?.volume === undefined
      ? wished
      : kept({ reason: 'Growing', message: 'the volume is not there', passes: true })
  return hindrance ? kept(hindrance) : wished
}

function hindranceOf(growth: Growth, observed: ObservedMember): Hindrance | undefined {
  const { instance, pod, children, isOrphanClaim } = observed
  const awaitsPod = (message: string): Hindrance =>
    instance.spec.suspended && pod === undefined
      ? { reason: 'AwaitsResume', message: 'the volume grows when the database is resumed', passes: true }
      : { reason: 'Growing', message, passes: true }
  switch (growth.state) {
    case 'done':
      return undefined
    case 'underway':
      // Nothing is asked of a claim that is not the database's own yet.
      return isOrphanClaim
        ? awaitsPod('the volume is to prove the one of this database first')
        : { reason: 'Growing', message: growth.message, passes: true, isAsked: growth.isAsked }
    case 'awaits-pod':
      return awaitsPod(growth.message)
    case 'failing':
      return { reason: 'GrowthFailing', message: `the volume does not grow: ${growth.message}`, passes: true }
    case 'refused':
      return { reason: 'GrowthRefused', message: `the volume must not grow: ${growth.message}`, passes: false }
    case 'infeasible': {
      const name = children.claim?.metadata.name ?? ''
      const message = `the volume cannot grow: ${growth.message}; \`kubectl describe pvc ${name}\` tells more`
      return { reason: 'GrowthInfeasible', message, passes: false }
    }
  }
}

/** The record of the size in force after this pass: another one once the pod has it, or there is none and it will. */
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

/** What is said while another size is asked for than is in force; nothing of a database that never had one. */
export function sizeFinding(
  { instance, isAtRest }: ObservedMember,
  state: SizeState,
  recorded: PinnedSize | undefined,
) {
  const asked = instance.spec.size
  if (recorded === undefined) return undefined
  const { hindrance, shortfall } = state
  // An operator that begins anew knows no refusal: what its forerunner was told stands until it has an answer.
  const before = conditionOf(instance.status, 'SizeApplied')
  if (before?.reason === 'GrowthRefused' && isAtRest && (hindrance ?? shortfall)?.isAsked)
    return no(before.reason, before.message)
  if (sameSize(recorded, asked))
    return (
      shortfall &&
      no(shortfall.reason, `${sizeText(asked)} is in force, with a volume smaller than its own: ${shortfall.message}`)
    )
  const told = (reason: string, why: string): Finding =>
    no(reason, `${sizeText(recorded)} is in force and ${sizeText(asked)} is asked for: ${why}`)
  if (hindrance) return told(hindrance.reason, hindrance.message)
  return told('Restarting', 'Postgres is restarted with it')
}

/**
 * Whether a size that could not come into force when it was asked for can do so now. That stops Postgres for a moment, so
 * it is an operation of its own.
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
