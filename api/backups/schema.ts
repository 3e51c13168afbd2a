/** Backups as the API takes and gives them. */
import { z } from 'zod'
import { backupKinds, backupPurposes } from '../../crds/index.ts'
import { createdRange, id, paging, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'

export const backupShape = output(
  'Backup',
  z.strictObject({
    id: z.string(),
    database_id: z.string(),
    name: z.string(),
    created_at: time,
    finished_at: time.optional(),
    status: z.string().describe('pending, running, completed or failed; only completed ones can be restored'),
    kind: z.enum(backupKinds),
    metadata: z.record(z.string(), z.unknown()),
    purpose: z
      .string()
      .optional()
      .describe(`an open set: ${backupPurposes.join(', ')}`),
  }),
)
export type BackupShape = z.output<typeof backupShape>

export const createBackupInput = input(
  'CreateBackupRequest',
  z.strictObject({ kind: z.enum(backupKinds) }).meta({ example: { kind: 'hot' } }),
)

export const listBackupsQuery = z.strictObject({
  database_id: id.optional().describe('only backups of this database'),
  kind: z.enum(backupKinds).optional(),
  ...createdRange,
  ...paging(100, true),
})
