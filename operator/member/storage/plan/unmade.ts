/**
 * A claim that has no volume yet, of a database that never had one: too large for any storage, or of a class that there is
 * not. Kubernetes lets nobody change such a claim, so a size or class that was put right replaces it: no pod first, then
 * the claim goes, as it was seen and not if it was bound meanwhile, and another is made. Nothing that was ever initialised is touched.
 */

import type { DeleteAction } from '../../../children/actions.ts'
import type { ObservedMember } from '../../observed.ts'
import { asksFor } from '../claim.ts'

/** Whether the database waits for the first volume of its life. While it is suspended it does not. */
export function isUnmade({ instance, children: { claim }, isStrayClaim, pod }: ObservedMember): boolean {
  if (instance.status?.volume !== undefined || instance.spec.suspended) return false
  if (claim === undefined || isStrayClaim || pod?.address !== undefined) return false
  return (claim.status?.phase ?? 'Pending') === 'Pending' && !claim.spec?.volumeName
}

/** Whether its claim is to give way to one that asks for what is wanted now. */
export function isToBeReplaced(observed: ObservedMember): boolean {
  const { children, size, region } = observed
  const { claim } = children
  if (claim === undefined || size === undefined || region === undefined || !isUnmade(observed)) return false
  return claim.metadata.deletionTimestamp !== undefined || !asksFor(claim, size.spec.shape, region)
}

/** Lets go of such a claim, once there is no pod that could come to use it. */
export function replacement({ children, pod }: ObservedMember): DeleteAction[] {
  const { claim, statefulSet } = children
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return []
  if (pod !== undefined || (statefulSet?.spec?.replicas ?? 0) !== 0) return []
  const { name, namespace = '', uid = '', resourceVersion } = claim.metadata
  return [{ do: 'delete', kind: 'PersistentVolumeClaim', name, namespace, uid, resourceVersion }]
}

/** Why the volume is not there yet, as far as the cluster says; undefined where it says nothing, or all is well. */
export function unmadeMessage(observed: ObservedMember): string | undefined {
  const { instance, provisioning, pod, region } = observed
  if (!isUnmade(observed)) return undefined
  if (isToBeReplaced(observed)) return 'the volume claim is being replaced by one for what is asked now'
  const why = provisioning ?? pod?.trouble?.message
  if (why === undefined) return undefined
  const { name, version } = instance.spec.size
  const remedy = `another size than ${name}-v${version}, or another storage class of region ${region?.metadata.name}, replaces the claim`
  return `the volume is not there yet: ${why}; ${remedy}`
}
