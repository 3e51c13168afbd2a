/** What a plan can ask to be done. All that a plan names at once is independent, and is done at once. */
import type { AnyObject, Draft, KindName, PersistentVolumeClaim, Secret } from '../../cluster/index.ts'
import type { Rotations } from '../../crds/index.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { Correction } from '../children/drifts.ts'
import type { ServerNames } from '../endpoint/certificate.ts'
import type { VolumeChange } from '../member/storage/persistent-volume.ts'
import type { Drift } from '../objects/foreign-fields.ts'
import type { Owner } from '../objects/ownership.ts'
import type { InstanceCondition } from './plan/findings.ts'

export type AppliedKind = 'ConfigMap' | 'NetworkPolicy' | 'PodDisruptionBudget' | 'Service' | 'StatefulSet'

/** What another manager changed on a child; the fields that no draft has are removed. */
export type PutBack = { corrections: readonly Correction[]; drifts: readonly Drift[] }

export type Action =
  /** Writes an object with our marks on it. */
  | { do: 'mark'; kind: KindName; object: AnyObject }
  /** Puts the labels of a Secret back. */
  | { do: 'relabel'; secret: Secret }
  | { do: 'mint-credentials' }
  /** Gives the Secret its labels back, where it is there without. */
  | { do: 'find-credentials' }
  /** Makes a new password for each of these roles, and keeps the one before. */
  | { do: 'rotate-passwords'; rotations: Rotations }
  /** Postgres has the new ones. */
  | { do: 'forget-previous-passwords' }
  /** Puts these roles' passwords back to the ones before. */
  | { do: 'take-back-passwords'; roles: readonly DatabaseRole[] }
  | { do: 'issue-certificate'; names: ServerNames }
  | { do: 'create-claim'; draft: Draft<'PersistentVolumeClaim'> }
  | { do: 'update-claim'; claim: PersistentVolumeClaim }
  /** Asks for another size of the volume, which the cluster may refuse. */
  | { do: 'grow-claim'; claim: PersistentVolumeClaim }
  | { do: 'change-volume'; name: string; uid: string; change: VolumeChange }
  /** Makes a second object for the same storage. */
  | { do: 'copy-volume'; from: string; uid: string; name: string; owner: Owner }
  | { [K in AppliedKind]: { do: 'apply'; kind: K; draft: Draft<K>; putBack?: PutBack } }[AppliedKind]
  /** Claims a free port by a closed route; the one it had before, if that is free. */
  | { do: 'claim-port'; preferred: number | undefined }
  /** Gives up a port that a gateway cannot listen on, for another one. */
  | { do: 'leave-port'; port: number; uid: string }
  /** With a resourceVersion: only as it was seen. */
  | {
      do: 'delete'
      kind: KindName
      name: string
      namespace: string
      uid: string
      resourceVersion?: string | undefined
    }
  /** Puts labels, images and annotations of a pod back, as it runs. */
  | {
      do: 'repair-pod'
      name: string
      namespace: string
      uid: string
      labels: Record<string, string>
      /** By container. */
      images: Record<string, string>
      annotations: Record<string, string>
    }
  /** `opens`: then lets clients into a closed copy, as `open` does. */
  | { do: 'ensure-roles'; opens?: true }
  /** Rids a closed copy of what is its source's: slots and subscriptions. */
  | { do: 'detach' }
  /** Lets clients into a closed copy. */
  | { do: 'open' }
  /** Has Postgres read its certificate again. */
  | { do: 'reload' }
  /** Postgres was seen to show the certificate of this fingerprint: so it is noted on its Secret. */
  | { do: 'note-loaded'; fingerprint: string }

/** Something an action met that is no fault of ours and passes: told in a condition, and tried again. */
export type Problem = { condition: InstanceCondition; reason: string; message: string }
