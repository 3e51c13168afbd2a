/**
 * Cluster policy: decides whether this cluster admits a valid write. As on an API server, the store first validates the
 * object. The policy does not apply to status writes. A refusal is `Forbidden`.
 */
import type { Namespace } from '../../cluster/index.ts'
import type { AnyObject, KindName, Kinds } from '../../cluster/kinds.ts'
import type { Propagation } from '../../cluster/port.ts'
import { parseQuantity } from '../../values/quantity.ts'

export type AdmissionRequest = {
  operation: 'create' | 'update' | 'delete'
  /** The new state; for a deletion, the current state. */
  object: AnyObject
  /** The current state, if the object exists. */
  previous: AnyObject | undefined
  /** The field manager that writes. */
  manager: string
  /** The object's namespace, if it has one. */
  namespace: Namespace | undefined
  /** For a deletion: the propagation policy. */
  propagation: Propagation | undefined
  /** Lists the objects of a kind in the object's namespace. */
  neighbours<K extends KindName>(kind: K): readonly Kinds[K][]
}

/** Returns the refusal in the API server's words; undefined if the write is admitted. */
export type Admission = (request: AdmissionRequest) => string | undefined

const requested = (object: AnyObject): number =>
  (object.kind === 'PersistentVolumeClaim' && parseQuantity(object.spec?.resources?.requests?.storage)) || 0

/**
 * A claim may request more storage if its storage class allows expansion. A claim with the class "" may not. A claim
 * that names no class has the default class.
 */
export const claimGrowth =
  (growsIn: (storageClass: string | undefined) => boolean): Admission =>
  ({ object, previous }) => {
    if (object.kind !== 'PersistentVolumeClaim' || previous === undefined) return undefined
    if (requested(object) <= requested(previous)) return undefined
    const storageClass = object.spec?.storageClassName
    if (storageClass !== '' && growsIn(storageClass)) return undefined
    return 'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize'
  }
