/**
 * One Postgres as its owner requests it, and its last reported state. Any resource of Espalier with these fields is an
 * instance; the workload reads nothing else of its owner.
 */
import type { Autogrow, Condition, Endpoint, IpAllowlist, ObjectMeta, PgVersion, PinnedSize } from '../../crds/index.ts'
import type { RecoverySource } from '../../instance/recovery/source.ts'
import type { OwnerKind } from './ownership.ts'

export type InstanceSpec = {
  region: string
  size: PinnedSize
  pgVersion: PgVersion
  /** No pod runs, and the volume remains. */
  suspended: boolean
  ipAllowlist: IpAllowlist
  storage?: { autogrow?: Autogrow | undefined } | undefined
  /** Absent: it does not archive. */
  backup?: { durable: boolean } | undefined
}

/** The volume with the data, once it has been initialised. It is never initialised again. */
export type VolumeRecord = {
  claim: string
  /** The claim's uid. */
  uid: string
  /** The PersistentVolume. It outlives a deleted claim. */
  volumeName?: string | undefined
  systemIdentifier: string
}

/** The source of a new volume's data; absent: initdb creates them. Not used any more once a volume is recorded. */
export type DataSource = SnapshotSource | ArchiveSource

export type SnapshotSource = {
  kind: 'snapshot'
  /** The VolumeSnapshot, in the owner's namespace. It must exist until the claim is bound. */
  snapshot: string
  /** The owner of the copied volume, as in the identity file on it: the id and the incarnation. */
  id: string
  incarnation?: number | undefined
  /** The member number of the copied volume; absent: the first. */
  member?: number | undefined
  systemIdentifier: string
  /** The capacity of the copied volume, in bytes: the new one has at least that. */
  bytes: number
}

/** A base backup in the archive, and WAL that is replayed on it. Not needed once the volume has its data. */
export type ArchiveSource = {
  kind: 'archive'
  recover: RecoverySource
  /** The owner of the data. */
  id: string
  systemIdentifier: string
  /** The size of the base backup. */
  bytes: number
}

/** Changes that take effect at the next restart; `since`: RFC 3339. */
export type PendingRestart = { reason: string; message: string; since: string }

/** The last restart in a maintenance window; `restart` names the window. Without `endedAt` it is running; times: RFC 3339. */
export type Maintenance = {
  restart: string
  startedAt: string
  endedAt?: string | undefined
  outcome?: 'completed' | 'failed' | undefined
}

/** For a volume that grows automatically; `since`: RFC 3339. */
export type StorageStatus = { capacity: string; since: string; growsTo?: string | undefined }

export type InstanceStatus = {
  conditions?: Condition[] | undefined
  volume?: VolumeRecord | undefined
  /** The applied size. */
  size?: PinnedSize | undefined
  /** Which incarnation serves. */
  incarnation?: number | undefined
  endpoint?: Endpoint | undefined
  /** Its first label is the host label, which stays as first reported. */
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
  /** The source of its data is not available: no claim is created, and nothing is initialised. */
  awaitsSource?: { reason: string; message: string }
  /** The number of the first incarnation; absent: 1. */
  firstIncarnation?: number | undefined
  /** The port that it gets if that is free. */
  preferredPort?: number | undefined
  /** Its data are still being imported: no client may connect. */
  awaitsImport?: { reason: string; message: string; isPermanent?: true } | undefined
  /** A volume that was retained with its id is taken over, if there is exactly one candidate. */
  adoptsVolumes?: boolean
  /** Another volume is about to replace this one: no pod may run on it. */
  isFenced?: boolean
}
