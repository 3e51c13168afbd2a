/** Actions on a member's claim and volumes. */
import type { Draft, PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { VolumeChange } from './persistent-volume.ts'

export type StorageAction =
  | { do: 'create-claim'; draft: Draft<'PersistentVolumeClaim'> }
  | { do: 'update-claim'; claim: PersistentVolumeClaim }
  /** Requests another size of the volume, which the cluster may refuse. */
  | { do: 'grow-claim'; claim: PersistentVolumeClaim }
  | { do: 'change-volume'; name: string; uid: string; change: VolumeChange }
  /** Creates a second PersistentVolume for the same storage. */
  | { do: 'copy-volume'; from: string; uid: string; name: string; owner: Owner }
