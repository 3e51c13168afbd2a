/**
 * How far a volume has grown to what is wanted of it. Only what the claim's status says counts: the request is a wish, and
 * the capacity is told once volume and file system have it.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { bytesTold, canonicalQuantity } from '../../../../values/quantity.ts'
import type { GrowthRefusal } from '../../observed.ts'

export type Growth =
  | { state: 'done' }
  /** On its way; `isAsked`: by this pass, and no answer is known. */
  | { state: 'underway'; message: string; isAsked?: true }
  /** It is made, or its file system grows, when a pod mounts it. */
  | { state: 'awaits-pod'; message: string }
  /** The driver fails and tries again. */
  | { state: 'failing'; message: string }
  /** It does not come to pass unless somebody changes something. */
  | { state: 'refused' | 'infeasible'; message: string }

/** Statuses of resizing with which controller or node have given up (Kubernetes API reference; `Failed` before 1.31). */
const givenUp = /(Infeasible|Failed)$/
const resizeErrors: readonly string[] = ['ControllerResizeError', 'NodeResizeError']

const requested = (claim: PersistentVolumeClaim): string | undefined => claim.spec?.resources?.requests?.storage
const isBound = (claim: PersistentVolumeClaim): boolean => claim.status?.phase === 'Bound'

/** What the volume has. Where a cluster tells no capacity, its word is taken that it gave what was asked. */
const capacity = (claim: PersistentVolumeClaim): string | undefined =>
  claim.status?.capacity?.storage ?? requested(claim)

const compared = (left: string | undefined, right: string | undefined): number =>
  (bytesTold(left) ?? 0) - (bytesTold(right) ?? 0)
const isAtLeast = (held: string | undefined, desired: string): boolean => compared(held, desired) >= 0

/** Whether a refusal was of this: a claim's way to this storage. */
const concerns = (refusal: GrowthRefusal, claim: PersistentVolumeClaim, storage: string): boolean =>
  refusal.claim === claim.metadata.uid && refusal.storage === canonicalQuantity(storage)

/** Whether this growth was refused and is not to be asked for again yet. */
export const awaitsRetry = (
  refusal: GrowthRefusal | undefined,
  claim: PersistentVolumeClaim,
  storage: string,
): boolean => refusal !== undefined && !refusal.isDue && concerns(refusal, claim, storage)

export function growthOf(claim: PersistentVolumeClaim, storage: string, refusal: GrowthRefusal | undefined): Growth {
  // A volume that is not there yet comes as large as its claim asks.
  if (!isBound(claim))
    return isAtLeast(requested(claim), storage)
      ? { state: 'done' }
      : { state: 'awaits-pod', message: 'the volume is still being made' }
  const { conditions = [], allocatedResources, allocatedResourceStatuses } = claim.status ?? {}
  const is = (type: string) => conditions.find(condition => condition.type === type && condition.status === 'True')
  const fileSystem = is('FileSystemResizePending')
  // Where more is asked for than this, what is pending is of that.
  const isFurther = compared(requested(claim), storage) > 0
  if (isAtLeast(capacity(claim), storage) && (fileSystem === undefined || isFurther)) return { state: 'done' }
  if (claim.metadata.deletionTimestamp !== undefined)
    return { state: 'failing', message: 'somebody deletes the volume claim' }
  if (refusal && concerns(refusal, claim, storage)) return { state: 'refused', message: refusal.message }
  const way = `the volume grows from ${capacity(claim)} to ${canonicalQuantity(storage)}`
  if (resizedClaim(claim, storage) !== undefined) return { state: 'underway', message: way, isAsked: true }
  const error = resizeErrors.map(is).find(condition => condition !== undefined)
  const told = error?.message ?? error?.reason
  const status = allocatedResourceStatuses?.storage ?? ''
  // A status may still be that of an earlier request.
  const allocated = allocatedResources?.storage ?? requested(claim)
  const isOfThis = compared(allocated, requested(claim)) === 0
  if (givenUp.test(status) && isOfThis)
    return { state: 'infeasible', message: told ?? `the storage driver says ${status}` }
  if (told !== undefined) return { state: 'failing', message: told }
  if (fileSystem !== undefined) return { state: 'awaits-pod', message: 'the file system grows' }
  return { state: 'underway', message: way }
}

/**
 * The claim with the request for this storage; undefined where it asks for that already, for more than is needed and has
 * it, or cannot be changed. A request that came to nothing is lowered to what is still wanted.
 */
export function resizedClaim(claim: PersistentVolumeClaim, storage: string): PersistentVolumeClaim | undefined {
  if (claim.metadata.deletionTimestamp !== undefined || !isBound(claim)) return undefined
  const current = requested(claim)
  const isTooMuch = compared(current, storage) > 0 && !isAtLeast(capacity(claim), storage)
  if (isAtLeast(current, storage) && !isTooMuch) return undefined
  const requests = { ...claim.spec?.resources?.requests, storage: canonicalQuantity(storage) }
  return { ...claim, spec: { ...claim.spec, resources: { ...claim.spec?.resources, requests } } }
}
