/** The observed state of one backup: read by observe.ts, and the only input of plan/. */
import type { Backup, Branch, ManagedDatabase, PgVersion, Region } from '../../crds/index.ts'
import type { BackupJob } from '../archive/contract.ts'
import type { AgentFacts } from '../archive/watch.ts'
import type { Served } from '../optional-informer.ts'
import type { RestorePoint } from '../postgres/administrator.ts'
import type { ProofSchedule } from './verification/proof.ts'

/** The observed state of a VolumeSnapshot. */
export type SnapshotFacts = {
  name: string
  uid: string
  /** Whether the snapshot's labels and annotations name this backup. */
  isOwn: boolean
  isDeleting: boolean
  /** Undefined if the annotation is missing or invalid. */
  takenFrom: SnapshotSource | undefined
  /** When the snapshot was requested and when the storage took it, in ms since the epoch. */
  requestedAt: number
  cutAt: number | undefined
  isReady: boolean
  /** The claim into whose volume the storage converted the snapshot, which can no longer be used. */
  becameVolume: string | undefined
  bytes: number | undefined
  error: string | undefined
}

/** The source of the snapshot, and where recovery of the copy begins. */
export type SnapshotSource = Pick<RestorePoint, 'systemIdentifier'> &
  // Absent for a stopped volume, since Postgres cannot be queried.
  Partial<Omit<RestorePoint, 'systemIdentifier'>> & {
    pgVersion?: PgVersion | undefined
    region?: string | undefined
    claim: string
    /** The uid of the claim, to detect another claim with the same name. */
    claimUid: string
  }

/** The state of the checkpoint before the snapshot. */
export type CheckpointFacts =
  | { state: 'unasked' }
  | { state: 'waiting' }
  /** `since`, `at`: ms since the epoch. */
  | { state: 'running'; since: number }
  | { state: 'succeeded'; point: RestorePoint }
  /**
   * Postgres was not reachable, or stopped during the checkpoint. The operator retries. `failures`: consecutive
   * failures. `at`: time of the last one.
   */
  | { state: 'unanswered'; message: string; at: number; failures: number }
  | { state: 'failed'; message: string }

export type Source = {
  /** The database or branch that has the Postgres. */
  database: ManagedDatabase | Branch
  region: Region | undefined
  /** Whether its Postgres is reachable. */
  isReachable: boolean
}

/**
 * `stopped`: no Postgres runs on the volume of this claim, and a lock prevents a start. `claimExists`: whether the claim
 * still exists with this uid.
 */
export type PrerestoreFacts =
  | { state: 'running' | 'stopping' | 'over' }
  | { state: 'stopped'; claim: string; claimUid: string; systemIdentifier: string; claimExists: boolean }

/** The state of the verification of a copy. */
export type VerificationFacts = {
  /** Whether the volume, the network policy or the pod of a verification exists. */
  hasObjects: boolean
  claim: boolean
  pod: VerifierFacts | undefined
  /** Whether a verification slot is free for this backup. */
  hasSlot: boolean
  /** The Postgres version and the region of the copy; undefined if unknown. */
  target: { pgVersion: PgVersion; region: Region } | undefined
}

/** The pod that verifies the copy. `madeAt`: ms since the epoch. */
type VerifierFacts = { isDeleting: boolean; madeAt: number; end: VerifierEnd | undefined }
export type VerifierEnd = { exitCode: number; message: string }

/** The state of a durable backup. `incarnation`: the number of the volume that its database uses. */
export type DurableFacts = {
  hasArchive: boolean
  pod: AgentFacts['pod']
  incarnation: number | undefined
  /** `unknown`: the agent does not know the job, or was not queried. */
  job: BackupJob | { state: 'unknown' } | { state: 'unanswered'; message: string }
}

export type Observed = {
  backup: Backup
  /** The API's id; undefined until it is assigned. */
  id: string | undefined
  /** Undefined if no database or branch has that name and id. */
  source: Source | undefined
  snapshots: Served
  /** When the operator began to query the cluster for snapshots, in ms since the epoch. */
  snapshotsQueriedAt: number
  /** The snapshot with the backup's id in its name. */
  snapshot: SnapshotFacts | 'absent' | 'unknown'
  /** Kind and name of a database, branch or restore that still has to copy data from the backup. */
  usedBy: string | undefined
  /** Whether its deletion waits until the database's status records its due time. */
  awaitsRecord: boolean
  /** The state of the restore whose prerestore backup this is. Undefined for other backups. */
  prerestoreOf: PrerestoreFacts | undefined
  /** The name of the backup of the same source that runs before this one. */
  blockedBy: string | undefined
  checkpoint: CheckpointFacts
  /** The current uid of the claim that the snapshot is taken of; undefined if the claim is deleted. */
  claimUid: string | undefined
  /** The Task of a backup that a user requested. */
  taskId: string | undefined
  verification: VerificationFacts
  /** When the backup is restored to test the archive. Undefined unless it is the database's newest durable one. */
  proof?: ProofSchedule | undefined
  /** For a durable backup. */
  durable?: DurableFacts | undefined
  /** Whether the Task named by `taskId` exists and has ended. */
  hasTaskEnded: boolean
}
