/**
 * One Postgres as its owner asks for it, and what was last said of it. Any resource of ours that has these fields is an
 * instance as it is; the workload knows nothing else of its owner.
 */
import type { Autogrow, Condition, Endpoint, IpAllowlist, ObjectMeta, PgVersion, PinnedSize } from '../../crds/index.ts'
import type { OwnerKind } from './ownership.ts'

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

/**
 * Where the data come from that a new volume is to hold; absent: initdb makes them. Once a volume is on record nothing of
 * it matters any more.
 */
export type DataSource = {
  kind: 'snapshot'
  /** The VolumeSnapshot, in the owner's namespace. It has to stay until the claim is bound. */
  snapshot: string
  /** Whose volume it is of, as the identity file on it says: the id and the incarnation. */
  id: string
  incarnation?: number | undefined
  /** The number of the member whose volume it is of; absent: the first. */
  member?: number | undefined
  systemIdentifier: string
  /** What its volume had, in bytes: a volume out of it has at least that. */
  bytes: number
}

/** What comes into force at the next restart; `since`: RFC 3339. */
export type PendingRestart = { reason: string; message: string; since: string }

/** The last restart in a maintenance window; `restart` names the window. Without `endedAt` it is running; times: RFC 3339. */
export type Maintenance = {
  restart: string
  startedAt: string
  endedAt?: string | undefined
  outcome?: 'completed' | 'failed' | undefined
}

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
  maintenance?: Maintenance | undefined
  storage?: StorageStatus | undefined
}

export type Instance = {
  kind: OwnerKind
  metadata: ObjectMeta
  spec: InstanceSpec
  status?: InstanceStatus | undefined
  dataSource?: DataSource | undefined
  /** Its data are to come from somewhere that is not to be had: nothing is claimed, and nothing initialised. */
  awaitsSource?: { reason: string; message: string }
  /** A volume that was retained under its id is taken over, where it is certain which one. */
  adoptsVolumes?: boolean
  /** Another volume is about to take the place of this one: no pod is to run on it. */
  isFenced?: boolean
}
