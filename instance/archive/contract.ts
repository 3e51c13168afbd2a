/**
 * The agent's archiving state, which the operator reads over HTTPS. Positions are WAL positions in Postgres's format.
 * Times are in ms.
 */
import type { WalPosition } from '../replication/base-backup.ts'

export type ArchiveStatus = {
  /** `conflict`: the archive has other content under a file's name. Two servers may archive under one identity. */
  state: 'archiving' | 'failing' | 'conflict'
  /** When this state began. */
  since: number
  /** The agent's clock at the time of the response. All times here use this clock, even after it was set. */
  now: number
  /** When the agent began to archive. */
  startedAt: number
  error: { code: string; message: string } | null
  /** The last archived file. */
  lastFile: string | null
  lastArchivedAt: number | null
  /** The number of files that Postgres has finished and that are not yet archived. */
  waitingFiles: number
  oldestWaitingSince: number | null
  /** All WAL up to this position is in the archive, as segments or pieces. */
  archived: string | null
  /** The last time when all written WAL was archived. */
  archivedAt: number | null
  written: string | null
  lagBytes: number | null
  timeline: number | null
}

export type BackupJob =
  | { state: 'running'; bytes: number; estimate: number; progressAt: number }
  | {
      state: 'completed'
      /** Recovery starts at `start`, and must reach `end` before the data are consistent. */
      start: WalPosition
      end: WalPosition
      startedAt: string
      endedAt: string
      bytes: number
      /** The size in the store: compressed and encrypted. */
      storedBytes: number
    }
  | { state: 'failed'; error: string }
