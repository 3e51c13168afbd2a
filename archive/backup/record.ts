/**
 * A base backup consists of parts of at most 16 MiB, a manifest and a record. The record is written last, after the
 * other objects were checked. A backup without a record is incomplete.
 *
 *     <id>/<incarnation>/backups/<backup id>/base/00000001 ...
 *     <id>/<incarnation>/backups/<backup id>/manifest
 *     <id>/<incarnation>/backups/<backup id>/record
 */
import { z } from 'zod'
import type { Incarnation } from '../names.ts'
import { contentText } from '../object/header.ts'

const position = z.strictObject({
  position: z.string().regex(/^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/),
  timeline: z.int().min(1),
})

export const backupRecord = z.strictObject({
  version: z.literal(1),
  /** Recovery starts at `start`, and must reach `end` before the data are consistent. */
  start: position,
  end: position,
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime(),
  /** In order. The concatenated parts are the tar archive. */
  parts: z.array(contentText).min(1).max(10_000_000),
  manifest: contentText,
  /** The size of all parts, before compression. */
  bytes: z.int().min(0),
})
export type BackupRecord = z.output<typeof backupRecord>

export const partBytes = 16 * 1024 * 1024

export const backupsPrefix = ({ databaseId, number }: Incarnation): string => `${databaseId}/${number}/backups/`

/** The names of a backup's objects. */
export function backupNames(incarnation: Incarnation, id: string) {
  const prefix = `${backupsPrefix(incarnation)}${id}`
  return {
    /** `number`: from 1. */
    part: (number: number): string => `${prefix}/base/${String(number).padStart(8, '0')}`,
    manifest: `${prefix}/manifest`,
    record: `${prefix}/record`,
  }
}
