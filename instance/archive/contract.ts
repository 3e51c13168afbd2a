/**
 * The agent's archiving state, served to the operator by HTTPS. Positions are in WAL, in Postgres's format; times are
 * in ms.
 */
import type { WalPosition } from '../replication/base-backup.ts'

export type ArchiveStatus = {
  /** `conflict`: the archive has other content under a name. Two servers may archive under one identity. */
  state: 'archiving' | 'failing' | 'conflict'
  /** When this state began. */
  since: number
  /** The agent's clock at the response. All times here are by it, even after it was set. */
  now: number
  /** When the agent began to archive. */
  startedAt: number
  error: { code: string; message: string } | null
  /** The last archived file. */
  lastFile: string | null
  lastArchivedAt: number | null
  /** Files that Postgres has finished and that are not archived. */
  waitingFiles: number
  oldestWaitingSince: number | null
  /** The archive has everything up to here, including streamed pieces. */
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
      /** In the store: compressed and encrypted. */
      storedBytes: number
    }
  | { state: 'failed'; error: string }
