/**
 * How far a volume has grown towards the requested storage. Only the claim's status counts. The spec is a request; the
 * status reports the capacity after volume and file system have grown.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { canonicalQuantity, sizeInBytes } from '../../../../values/quantity.ts'
import type { GrowthRefusal } from '../../observed.ts'

export type Growth =
  | { state: 'done' }
  /** In progress. `isRequested`: this pass sends the request, so no answer is known. */
  | { state: 'underway'; message: string; isRequested?: true }
  /** The volume is created, or its file system grows, when a pod mounts it. */
  | { state: 'awaits-pod'; message: string }
  /** The driver has failed, and retries. */
  | { state: 'failing'; message: string }
  /** The growth does not succeed until a user changes the storage or the quota. */
  | { state: 'refused' | 'infeasible'; message: string }

/**
 * Resize statuses after which the driver's controller or node plugin has stopped retrying (Kubernetes API reference;
 * `Failed` before 1.31).
 */
const givenUp = /(Infeasible|Failed)$/
const resizeErrors: readonly string[] = ['ControllerResizeError', 'NodeResizeError']

const requested = (claim: PersistentVolumeClaim): string | undefined => claim.spec?.resources?.requests?.storage
const isBound = (claim: PersistentVolumeClaim): boolean => claim.status?.phase === 'Bound'

/** The volume's capacity. If the cluster reports none, the operator assumes the requested storage. */
const capacity = (claim: PersistentVolumeClaim): string | undefined =>
  claim.status?.capacity?.storage ?? requested(claim)

const compared = (left: string | undefined, right: string | undefined): number =>
  (sizeInBytes(left) ?? 0) - (sizeInBytes(right) ?? 0)
const isAtLeast = (present: string | undefined, desired: string): boolean => compared(present, desired) >= 0

/** Whether a refusal concerns this claim and this storage. */
const concerns = (refusal: GrowthRefusal, claim: PersistentVolumeClaim, storage: string): boolean =>
  refusal.claim === claim.metadata.uid && refusal.storage === canonicalQuantity(storage)

/** Whether this growth was refused, and the pause before the next request has not ended. */
export const awaitsRetry = (
  refusal: GrowthRefusal | undefined,
  claim: PersistentVolumeClaim,
  storage: string,
): boolean => refusal !== undefined && !refusal.isDue && concerns(refusal, claim, storage)

export function growthOf(claim: PersistentVolumeClaim, storage: string, refusal: GrowthRefusal | undefined): Growth {
  // A volume that does not exist yet gets the size that its claim requests.
  if (!isBound(claim))
    return isAtLeast(requested(claim), storage)
      ? { state: 'done' }
      : { state: 'awaits-pod', message: 'the volume is still being created' }
  const { conditions = [], allocatedResources, allocatedResourceStatuses } = claim.status ?? {}
  const is = (type: string) => conditions.find(condition => condition.type === type && condition.status === 'True')
  const fileSystem = is('FileSystemResizePending')
  // If the claim requests more than `storage`, a pending resize concerns that larger request.
  const isFurther = compared(requested(claim), storage) > 0
  if (isAtLeast(capacity(claim), storage) && (fileSystem === undefined || isFurther)) return { state: 'done' }
  if (claim.metadata.deletionTimestamp !== undefined)
    return { state: 'failing', message: 'the volume claim is being deleted' }
  if (refusal && concerns(refusal, claim, storage)) return { state: 'refused', message: refusal.message }
  const way = `the volume is growing from ${capacity(claim)} to ${canonicalQuantity(storage)}`
  if (resizedClaim(claim, storage) !== undefined) return { state: 'underway', message: way, isRequested: true }
  const error = resizeErrors.map(is).find(condition => condition !== undefined)
  const reason = error?.message ?? error?.reason
  const status = allocatedResourceStatuses?.storage ?? ''
  // The status may be about an earlier request.
  const allocated = allocatedResources?.storage ?? requested(claim)
  const isOfThis = compared(allocated, requested(claim)) === 0
  if (givenUp.test(status) && isOfThis)
    return { state: 'infeasible', message: reason ?? `the storage driver reports ${status}` }
  if (reason !== undefined) return { state: 'failing', message: reason }
  if (fileSystem !== undefined) return { state: 'awaits-pod', message: 'the file system is growing' }
  return { state: 'underway', message: way }
}

/**
 * The claim with the request for this storage. Undefined if the claim already requests it, if a larger request has
 * succeeded, or if the claim cannot be changed. A larger request that failed is lowered to this one.
 */
export function resizedClaim(claim: PersistentVolumeClaim, storage: string): PersistentVolumeClaim | undefined {
  if (claim.metadata.deletionTimestamp !== undefined || !isBound(claim)) return undefined
  const current = requested(claim)
  const isTooMuch = compared(current, storage) > 0 && !isAtLeast(capacity(claim), storage)
  if (isAtLeast(current, storage) && !isTooMuch) return undefined
  const requests = { ...claim.spec?.resources?.requests, storage: canonicalQuantity(storage) }
  return { ...claim, spec: { ...claim.spec, resources: { ...claim.spec?.resources, requests } } }
}
