/** The observed state of one backup: read by observe.ts, and the only input of plan/. */
import type { Backup, Branch, ManagedDatabase, PgVersion, Region } from '../../crds/index.ts'
import type { BackupJob } from '../archive/contract.ts'
import type { AgentFacts } from '../archive/watch.ts'
import type { Served } from '../optional-informer.ts'
import type { RestorePoint } from '../postgres/administrator.ts'
import type { ProofSchedule } from './verification/proof.ts'

/** The content of a snapshot: its owner, the request to the storage, and the recovery information from Postgres. */
export type SnapshotFacts = {
  name: string
  uid: string
  /** Whether it is labelled as this backup's. */
  isOwn: boolean
  isGoing: boolean
  /** Absent if unreadable. */
  cutOf: CutOf | undefined
  /** The times of the request and of the snapshot, in ms since the epoch. */
  requestedAt: number
  cutAt: number | undefined
  isReady: boolean
  /** The claim whose volume now contains its data: the snapshot was only for that claim. */
  becameVolume: string | undefined
  bytes: number | undefined
  error: string | undefined
}

/** The source of the snapshot, and where recovery of the copy begins. */
export type CutOf = Pick<RestorePoint, 'systemIdentifier'> &
  // Absent for a stopped volume, since Postgres cannot be queried.
  Partial<Omit<RestorePoint, 'systemIdentifier'>> & {
    pgVersion?: PgVersion | undefined
    region?: string | undefined
    claim: string
    /** The uid of the claim, to distinguish it from another claim with its name. */
    claimUid: string
  }

/** The state of the checkpoint before the snapshot. */
export type CheckpointFacts =
  | { state: 'unasked' }
  | { state: 'waiting' }
  /** `since`, `at`: ms since the epoch. */
  | { state: 'running'; since: number }
  | { state: 'succeeded'; point: RestorePoint }
  /** Postgres was not reached, or ended meanwhile: so often in a row, at last then. It can be asked again. */
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
 * `stopped`: no Postgres runs on the volume of this claim, and a lock prevents a start; its uid is undefined if there
 * is none.
 */
export type PrerestoreFacts =
  | { state: 'running' | 'stopping' | 'over' }
  | { state: 'stopped'; claim: string; claimUid: string; systemIdentifier: string; isThere: boolean }

/** The state of the verification of a copy. */
export type VerificationFacts = {
  /** Whether any of its objects exists: volume, network policy or pod. */
  isThere: boolean
  claim: boolean
  pod: VerifierFacts | undefined
  /** Whether a verification slot is free for this backup. */
  hasSlot: boolean
  /** Where its data can run; undefined if unknown. */
  target: { pgVersion: PgVersion; region: Region } | undefined
}

/** The pod that verifies it. `madeAt`: ms since the epoch. */
type VerifierFacts = { isGoing: boolean; madeAt: number; end: VerifierEnd | undefined }
export type VerifierEnd = { exitCode: number; message: string }

/** The state of a durable backup. `incarnation`: the number of the serving volume of its database. */
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
  /** Since when the cluster has been queried for snapshots, in ms since the epoch. */
  snapshotsQueriedAt: number
  /** The snapshot with this backup's name. Not read if nothing depends on it. */
  snapshot: SnapshotFacts | 'absent' | 'unknown'
  /** The database or branch being created from it, or the restore that has not copied its data: kind and name. */
  usedBy: string | undefined
  /** Whether it is being deleted, and its database has not recorded its due time. */
  awaitsRecord: boolean
  /** The restore that this is the prerestore backup of, if any. */
  prerestoreOf: PrerestoreFacts | undefined
  /** The name of the backup of the same source that runs before this one. */
  ahead: string | undefined
  checkpoint: CheckpointFacts
  /** The current uid of the claim that the snapshot is taken of; undefined if the claim is deleted. */
  claimUid: string | undefined
  /** The Task of a backup that a user requested. */
  taskId: string | undefined
  verification: VerificationFacts
  /** For a completed durable backup: whether it is restored as the proof of its tenant. */
  proof?: ProofSchedule | undefined
  /** For a durable backup. */
  durable?: DurableFacts | undefined
  /** Whether that Task exists and has ended. */
  isTaskOver: boolean
}
