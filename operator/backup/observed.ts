/** All that a pass knows of one backup: gathered by observe.ts, decided upon by plan/, which reads nothing else. */
import type { Backup, Branch, ManagedDatabase, PgVersion, Region } from '../../crds/index.ts'
import type { Served } from '../optional-informer.ts'
import type { RestorePoint } from '../postgres/administrator.ts'

/** What a snapshot says of itself: whose it is, what was asked of the storage, and what Postgres said before. */
export type SnapshotFacts = {
  name: string
  uid: string
  /** It is marked as this backup's. */
  isOurs: boolean
  isGoing: boolean
  /** Absent where nobody can read it any more. */
  cutOf: CutOf | undefined
  /** When it was asked for, and the instant that it is of, in ms since the epoch. */
  askedAt: number
  cutAt: number | undefined
  isReady: boolean
  /** The claim whose volume its data have become: it was for that alone. */
  becameVolume: string | undefined
  bytes: number | undefined
  error: string | undefined
}

/** What the snapshot was made of, and from where the copy recovers. */
export type CutOf = Pick<RestorePoint, 'systemIdentifier'> &
  // Of a volume that is stopped nobody asks Postgres.
  Partial<Omit<RestorePoint, 'systemIdentifier'>> & {
    pgVersion?: PgVersion | undefined
    region?: string | undefined
    claim: string
    /** The claim's, so that one that took its name is not mistaken for it. */
    claimUid: string
  }

/** How the checkpoint before the snapshot stands. */
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
  /** Or branch: whatever has the Postgres. */
  database: ManagedDatabase | Branch
  region: Region | undefined
  /** Its Postgres can be reached. */
  isReachable: boolean
}

/** `stopped`: no Postgres runs on the volume of this claim, and a lock keeps any from starting; its uid is undefined where there is none. */
export type AnchorFacts =
  | { state: 'running' | 'stopping' | 'over' }
  | { state: 'stopped'; claim: string; claimUid: string; systemIdentifier: string; isThere: boolean }

/** How a check of a copy of the backup stands. */
export type VerificationFacts = {
  /** Something that was made for it is there: volume, fence or pod. */
  isThere: boolean
  claim: boolean
  pod: VerifierFacts | undefined
  /** Others that came before leave room for it. */
  isTurn: boolean
  /** Where its data can run; undefined where nobody knows that any more. */
  place: { pgVersion: PgVersion; region: Region } | undefined
}

/** The pod that checks it. `madeAt`: ms since the epoch. */
type VerifierFacts = { isGoing: boolean; madeAt: number; end: VerifierEnd | undefined }
export type VerifierEnd = { exitCode: number; message: string }

export type Observed = {
  backup: Backup
  /** The API's id; undefined until there is one. */
  id: string | undefined
  /** Undefined where there is no database, or branch, of that name and id. */
  source: Source | undefined
  snapshots: Served
  /** Since when the cluster is asked about them, in ms since the epoch. */
  snapshotsAskedAt: number
  /** The one under this backup's name. Not looked at where nothing depends on it. */
  snapshot: SnapshotFacts | 'absent' | 'unknown'
  /** The database that is being made of it, or the restore that has no data yet: what it is, and its name. */
  usedBy: string | undefined
  /** It is being deleted, and its database does not record yet when it was due. */
  awaitsRecord: boolean
  /** The restore that it is the anchor of; undefined where it is none's. */
  anchorOf: AnchorFacts | undefined
  /** The backup of the same source that comes before this one, by name. */
  ahead: string | undefined
  checkpoint: CheckpointFacts
  /** Of the claim that the snapshot was made of: its uid now; undefined where it is gone. */
  claimUid: string | undefined
  /** The Task that is to record it; a backup that nobody asked for has none. */
  taskId: string | undefined
  verification: VerificationFacts
  /** That Task is there, and has ended. */
  isTaskOver: boolean
}
