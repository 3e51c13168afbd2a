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

/** Fields of a child that another manager changed. The apply also removes fields that are not in the draft. */
export type PutBack = { corrections: readonly Correction[]; drifts: readonly Drift[] }

export type ApplyAction = {
  [K in AppliedKind]: { do: 'apply'; kind: K; draft: Draft<K>; putBack?: PutBack }
}[AppliedKind]

/** With a resourceVersion, deletes the object only if it has not changed since the observation. */
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
  /** Writes the owner's labels and annotations on an object. */
  | { do: 'label'; kind: KindName; object: AnyObject }
