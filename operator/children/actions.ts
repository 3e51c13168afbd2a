/** Actions on any child of an owner: apply a draft, delete an object, write the owner's labels. */
import type { AnyObject, Draft, KindName } from '../../cluster/index.ts'
import type { Drift } from '../objects/foreign-fields.ts'
import type { Correction } from './drift-history.ts'

export type AppliedKind =
  | 'ConfigMap'
  | 'Deployment'
  | 'NetworkPolicy'
  | 'PodDisruptionBudget'
  | 'Service'
  | 'StatefulSet'

/** Fields that another manager changed on a child. The apply also removes the fields that no draft has. */
export type PutBack = { corrections: readonly Correction[]; drifts: readonly Drift[] }

export type ApplyAction = {
  [K in AppliedKind]: { do: 'apply'; kind: K; draft: Draft<K>; putBack?: PutBack }
}[AppliedKind]

/** With a resourceVersion, the object is deleted only if it has not changed since it was observed. */
export type DeleteAction = {
  do: 'delete'
  kind: KindName
  name: string
  namespace: string
  uid: string
  resourceVersion?: string | undefined
}

export type ChildAction =
  | ApplyAction
  | DeleteAction
  /** Writes an object with the owner's marks on it. */
  | { do: 'mark'; kind: KindName; object: AnyObject }
