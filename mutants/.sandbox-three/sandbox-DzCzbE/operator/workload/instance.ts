/**
 * One Postgres as its owner asks for it, and what was last said of it. Any resource of ours that has these fields is an
 * instance as it is; the workload knows nothing else of its owner.
 */
// @ts-nocheck

import type { Autogrow, Condition, Endpoint, IpAllowlist, ObjectMeta, PgVersion, PinnedSize } from '../../crds/index.ts'
import type { OwnerKind } from '../objects/ownership.ts'

export type InstanceSpec = {
  region: string
  size: PinnedSize
  pgVersion: PgVersion
  /** No pod runs, and the volume stays. */
  suspended: boolean
  ipAllowlist: IpAllowlist
  storage?: { autogrow?: Autogrow | undefined } | undefined
}

/** The volume that holds the data, once it has been initialised. It is never initialised again. */
export type VolumeRecord = {
  claim: string
  /** Of the claim. */
  uid: string
  /** The PersistentVolume. It outlives a claim that somebody deletes. */
  volumeName?: string | undefined
  systemIdentifier: string
}

/** What comes into force at the next restart; `since`: RFC 3339. */
export type PendingRestart = { reason: string; message: string; since: string }

/** Of a volume that grows by itself; `since`: RFC 3339. */
export type StorageStatus = { capacity: string; since: string; growsTo?: string | undefined }

export type InstanceStatus = {
  conditions?: Condition[] | undefined
  volume?: VolumeRecord | undefined
  /** The size in force. */
  size?: PinnedSize | undefined
  /** Which volume serves. */
  incarnation?: number | undefined
  endpoint?: Endpoint | undefined
  /** Its first label is the host label, which stays as it was told first. */
  domain?: string | undefined
  pendingRestart?: PendingRestart[] | undefined
  storage?: StorageStatus | undefined
}

export type Instance = {
  kind: OwnerKind
  metadata: ObjectMeta
  spec: InstanceSpec
  status?: InstanceStatus | undefined
}
