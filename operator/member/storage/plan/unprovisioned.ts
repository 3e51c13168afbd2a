/**
 * A claim without a volume, whose owner never had a volume. For example, the claim requests more storage than the
 * driver has, or its class does not exist. Kubernetes does not allow changes to such a claim, so the operator replaces
 * it after the user has corrected size or class. The operator removes the pod, deletes the claim unless it was bound
 * meanwhile, and creates another claim. The operator never replaces an initialised volume.
 */

import type { DeleteAction } from '../../../children/actions.ts'
import type { ObservedMember } from '../../observed.ts'
import { hasRequest } from '../claim.ts'

/** Whether the owner waits for its first volume. A suspended owner does not wait. */
export function isUnprovisioned({ instance, children: { claim }, isOrphanClaim, pod }: ObservedMember): boolean {
  if (instance.status?.volume !== undefined || instance.spec.suspended) return false
  if (claim === undefined || isOrphanClaim || pod?.address !== undefined) return false
  return (claim.status?.phase ?? 'Pending') === 'Pending' && !claim.spec?.volumeName
}

/** Whether the operator replaces the claim with one for the current size and storage class. */
export function isToBeReplaced(observed: ObservedMember): boolean {
  const { children, size, region } = observed
  const { claim } = children
  if (claim === undefined || size === undefined || region === undefined || !isUnprovisioned(observed)) return false
  return claim.metadata.deletionTimestamp !== undefined || !hasRequest(claim, size.spec.shape, region)
}

/** Deletes a claim that is to be replaced, when no pod can use the claim. */
export function replacement({ children, pod }: ObservedMember): DeleteAction[] {
  const { claim, statefulSet } = children
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return []
  if (pod !== undefined || (statefulSet?.spec?.replicas ?? 0) !== 0) return []
  const { name, namespace = '', uid = '', resourceVersion } = claim.metadata
  return [{ do: 'delete', kind: 'PersistentVolumeClaim', name, namespace, uid, resourceVersion }]
}

/** Returns why the volume does not exist yet. Undefined if the cluster reports nothing. */
export function unprovisionedMessage(observed: ObservedMember): string | undefined {
  const { instance, provisioning, pod, region } = observed
  if (!isUnprovisioned(observed)) return undefined
  if (isToBeReplaced(observed))
    return 'the volume claim is being replaced by one with the requested size and storage class'
  const why = provisioning ?? pod?.problem?.message
  if (why === undefined) return undefined
  const { name, version } = instance.spec.size
  const remedy = `to replace the claim, set another size than ${name}-v${version}, or another storage class in region ${region?.metadata.name}`
  return `the volume does not exist yet: ${why}; ${remedy}`
}
