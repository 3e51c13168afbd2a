/**
 * One Postgres as its owner requests it, with its last reported state. Any resource of Espalier with these fields is an
 * instance. The workload reads nothing else of its owner.
 */
import type { Autogrow, Condition, Endpoint, IpAllowlist, ObjectMeta, PgVersion, PinnedSize } from '../../crds/index.ts'
import type { RecoverySource } from '../../instance/recovery/source.ts'
import type { OwnerKind } from './ownership.ts'

export type InstanceSpec = {
  region: string
  size: PinnedSize
  pgVersion: PgVersion
  /** No pod runs, and the volume is kept. */
  suspended: boolean
  ipAllowlist: IpAllowlist
  storage?: { autogrow?: Autogrow | undefined } | undefined
  /** Absent if the instance does not archive. */
  backup?: { durable: boolean } | undefined
}

/** The volume with the data, recorded after it was initialised. The operator never initialises it again. */
export type VolumeRecord = {
  claim: string
  /** The claim's uid. */
  uid: string
  /** The PersistentVolume. It is kept if its claim is deleted. */
  volumeName?: string | undefined
  systemIdentifier: string
}

/** The source of a new volume's data. If absent, initdb creates the data. Not read after a volume is recorded. */
export type DataSource = SnapshotSource | ArchiveSource

export type SnapshotSource = {
  kind: 'snapshot'
  /** The VolumeSnapshot, in the owner's namespace. It must exist until the claim is bound. */
  snapshot: string
  /** The owner of the copied volume, as in the volume's identity file: the id and the incarnation. */
  id: string
  incarnation?: number | undefined
  /** The member number of the copied volume. Absent for the first member. */
  member?: number | undefined
  systemIdentifier: string
  /** The capacity of the copied volume, in bytes. The new volume has at least this capacity. */
  bytes: number
}

/** A base backup in the archive, and the WAL to replay on it. Not needed after the volume has its data. */
export type ArchiveSource = {
  kind: 'archive'
  recover: RecoverySource
  /** The id of the data's owner. */
  id: string
  systemIdentifier: string
  /** The size of the base backup. */
  bytes: number
}

/** Changes that take effect at the next restart; `since`: RFC 3339. */
export type PendingRestart = { reason: string; message: string; since: string }

/**
 * The last restart in a maintenance window. `restart` names the window. It is running if `endedAt` is absent. Times:
 * RFC 3339.
 */
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
  /** The incarnation that serves. */
  incarnation?: number | undefined
  endpoint?: Endpoint | undefined
  /** The first label of the domain is the host label. It never changes after it was reported. */
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
  /** The source of the data is not available yet. The operator creates no claim and initialises nothing. */
  awaitsSource?: { reason: string; message: string }
  /** The number of the first incarnation; 1 if absent. */
  firstIncarnation?: number | undefined
  /** The port that the instance gets if the port is free. */
  preferredPort?: number | undefined
  /** The data are still being imported. No client may connect. */
  awaitsImport?: { reason: string; message: string; isPermanent?: true } | undefined
  /** If exactly one retained volume has the instance's id, the instance uses it. */
  adoptsVolumes?: boolean
  /** Another volume will soon replace this one, so no pod may run on it. */
  isFenced?: boolean
}
