/**
 * The responses of a member's agent and of the archive to the operator, as zod schemas. Larger responses are refused
 * (request.ts).
 */
import { z } from 'zod'
import { shortened } from '../../values/text.ts'

const milliseconds = z.number().min(0)
const lsn = z.string().regex(/^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/i)
const bytes = z.int().min(0)

/**
 * `archived`: everything up to this position is in the archive. `archivedAt`: the last time when all written WAL was in
 * the archive.
 */
export const archiveStatus = z.object({
  state: z.enum(['archiving', 'failing', 'conflict']),
  since: milliseconds,
  /** Absent from an older agent. */
  now: milliseconds.optional(),
  startedAt: milliseconds.optional(),
  error: z.object({ message: z.string().transform(text => shortened(text, 500)) }).nullable(),
  lastArchivedAt: milliseconds.nullable(),
  waitingFiles: bytes,
  oldestWaitingSince: milliseconds.nullable(),
  archived: lsn.nullable(),
  archivedAt: milliseconds.nullable(),
  written: lsn.nullable(),
  lagBytes: bytes.nullable(),
  timeline: z.int().min(1).nullable(),
})
export type ArchiveStatus = z.output<typeof archiveStatus>

const position = z.object({ position: lsn, timeline: z.int().min(1) })

export const backupJob = z.discriminatedUnion('state', [
  z.object({ state: z.literal('running'), bytes, estimate: bytes, progressAt: milliseconds }),
  z.object({
    state: z.literal('completed'),
    start: position,
    end: position,
    endedAt: z.iso.datetime(),
    bytes,
    storedBytes: bytes,
  }),
  z.object({ state: z.literal('failed'), error: z.string().transform(text => text.slice(0, 900)) }),
])
export type BackupJob = z.output<typeof backupJob>

export const deletedPage = z.object({ deleted: bytes, hasMore: z.boolean() })
