/**
 * What is asked of a write that is valid in itself: whether this cluster admits it. As on an API server it comes after
 * the object's own rules, and a refusal is `Forbidden`. Status writes are not asked for.
 */
import type { Namespace } from '../../cluster/index.ts'
import type { AnyObject, KindName, Kinds } from '../../cluster/kinds.ts'
import type { Propagation } from '../../cluster/port.ts'
import { parseQuantity } from '../../values/quantity.ts'

export type AdmissionRequest = {
  operation: 'create' | 'update' | 'delete'
  /** What it is to become; of a deletion, what it is. */
  object: AnyObject
  /** What it was, where it is there. */
  previous: AnyObject | undefined
  /** Who writes: the field manager. */
  manager: string
  /** The namespace that it is in, where it is in one. */
  namespace: Namespace | undefined
  /** Of a deletion: what becomes of dependents. */
  propagation: Propagation | undefined
  /** Lists the objects of a kind in the object's namespace. */
  neighbours<K extends KindName>(kind: K): readonly Kinds[K][]
}

/** Why a write is refused, in the words of the API server; undefined admits it. */
export type Admission = (request: AdmissionRequest) => string | undefined

const requested = (object: AnyObject): number =>
  (object.kind === 'PersistentVolumeClaim' && parseQuantity(object.spec?.resources?.requests?.storage)) || 0

/** A claim may ask for more where its storage class lets volumes grow; one without any class never may. */
export const claimGrowth =
  (growsIn: (storageClass: string | undefined) => boolean): Admission =>
  ({ object, previous }) => {
    if (object.kind !== 'PersistentVolumeClaim' || previous === undefined) return undefined
    if (requested(object) <= requested(previous)) return undefined
    const storageClass = object.spec?.storageClassName
    if (storageClass !== '' && growsIn(storageClass)) return undefined
    return 'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize'
  }
