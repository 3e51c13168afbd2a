/**
 * Storage that is in use outlives its deletion: a claim as long as there is a pod that has a node and names it, a volume as
 * long as it is bound. Such an object carries a finalizer from its creation on, and loses it here.
 */
// @ts-nocheck

import type { KindName } from '../../cluster/kinds.ts'
import { isObject, type JsonObject, listIn, objectIn, textIn } from './json.ts'
import type { ObjectReference } from './objects.ts'
import type { State } from './state.ts'

export const claimProtection = 'kubernetes.io/pvc-protection'
export const volumeProtection = 'kubernetes.io/pv-protection'

/** The finalizer that protects objects of a kind, where one does. */
export function protectionOf(kind: KindName): string | undefined {
  if (kind === 'PersistentVolumeClaim') return claimProtection
  return kind === 'PersistentVolume' ? volumeProtection : undefined
}

/** The claims that a pod names. */
export const claimsOf = ({ namespace }: { namespace: string }, pod: JsonObject): ObjectReference[] =>
  listIn(objectIn(pod, 'spec'), 'volumes').flatMap(volume => {
    const name = isObject(volume) ? textIn(volume.persistentVolumeClaim, 'claimName') : undefined
    return name === undefined ? [] : [{ kind: 'PersistentVolumeClaim', namespace, name }]
  })

/** Whether something still uses a claim or volume. A pod without a node does not: none is given to it any more. */
export function isInUse(state: State, reference: ObjectReference, object: JsonObject): boolean {
  if (reference.kind === 'PersistentVolume') return objectIn(object, 'status').phase === 'Bound'
  const pods = state.list('Pod', reference.namespace).filter(pod => textIn(pod.spec, 'nodeName'))
  return pods.some(pod => claimsOf(reference, pod).some(({ name }) => name === reference.name))
}
