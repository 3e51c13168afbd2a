/** All that a pass knows of one backup: gathered by observe.ts, decided upon by plan/, which reads nothing else. */
// @ts-nocheck

import type { Backup, ManagedDatabase, Region } from '../../crds/index.ts'
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
  bytes: number | undefined
  error: string | undefined
}

/** What the snapshot was made of, and from where the copy recovers. */
export type CutOf = RestorePoint & {
  claim: string
  /** The claim's, so that one that took its name is not mistaken for it. */
  claimUid: string
}

/** How the checkpoint before the snapshot stands. */
export type CheckpointFacts =
  | { state: 'unasked' }
  | { state: 'waiting' }
  | { state: 'running' }
  | { state: 'succeeded'; point: RestorePoint }
  | { state: 'failed'; message: string }

export type Source = {
  database: ManagedDatabase
  region: Region | undefined
  /** Its Postgres can be reached. */
  isReachable: boolean
}

export type Observed = {
  backup: Backup
  /** The API's id; undefined until there is one. */
  id: string | undefined
  /** Undefined where there is no database of that name and id. */
  source: Source | undefined
  snapshots: Served
  /** The one under this backup's name. Not looked at where nothing depends on it. */
  snapshot: SnapshotFacts | 'absent' | 'unknown'
  /** The backup of the same database that comes before this one, by name. */
  ahead: string | undefined
  checkpoint: CheckpointFacts
  /** Of the claim that the snapshot was made of: its uid now; undefined where it is gone. */
  claimUid: string | undefined
  /** The Task that is to record it; a backup that nobody asked for has none. */
  taskId: string | undefined
  /** That Task is there, and has ended. */
  isTaskOver: boolean
}
