/**
 * Protects storage in use from deletion: a claim while a pod with a node uses it, a volume while it is bound. Such an
 * object gets a finalizer when it is created. This module decides when the store removes the finalizer.
 */
import type { KindName } from '../../cluster/kinds.ts'
import { isObject, type JsonObject, listIn, objectIn, textIn } from './json.ts'
import type { ObjectReference } from './objects.ts'
import type { State } from './state.ts'

export const claimProtection = 'kubernetes.io/pvc-protection'
export const volumeProtection = 'kubernetes.io/pv-protection'

/** The finalizer that protects objects of a kind, if there is one. */
export function protectionOf(kind: KindName): string | undefined {
  if (kind === 'PersistentVolumeClaim') return claimProtection
  return kind === 'PersistentVolume' ? volumeProtection : undefined
}

/** The claims that a pod uses. */
export const claimsOf = ({ namespace }: { namespace: string }, pod: JsonObject): ObjectReference[] =>
  listIn(objectIn(pod, 'spec'), 'volumes').flatMap(volume => {
    const name = isObject(volume) ? textIn(volume.persistentVolumeClaim, 'claimName') : undefined
    return name === undefined ? [] : [{ kind: 'PersistentVolumeClaim', namespace, name }]
  })

/**
 * Whether a claim or volume is in use. A pod without a node does not count: the runtime does not schedule a pod whose
 * claim is being deleted.
 */
export function isInUse(state: State, reference: ObjectReference, object: JsonObject): boolean {
  if (reference.kind === 'PersistentVolume') return objectIn(object, 'status').phase === 'Bound'
  const pods = state.list('Pod', reference.namespace).filter(pod => textIn(pod.spec, 'nodeName'))
  return pods.some(pod => claimsOf(reference, pod).some(({ name }) => name === reference.name))
}
