/** Backups as the API takes and gives them. */
import { z } from 'zod'
import { backupKinds, backupPurposes } from '../../crds/index.ts'
import { createdRange, id, paging, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'

const kindDescription = '`hot` is a snapshot of the volume. `durable` is a copy in object storage.'

export const backupShape = output(
  'Backup',
  z
    .strictObject({
      id: z.string().describe('The id of the backup, a UUID.'),
      database_id: z.string().describe('The id of the database it is a backup of.'),
      name: z.string().describe('The name of the backup.'),
      created_at: time.describe('When the backup was asked for.'),
      finished_at: time.optional().describe('When the backup ended. Absent before.'),
      status: z
        .string()
        .describe(
          '`pending`, `running`, `completed`, `failed` or `deleting`. Only a completed backup is a restore point.',
        ),
      kind: z.enum(backupKinds).describe(kindDescription),
      metadata: z
        .record(z.string(), z.unknown())
        .describe(
          'What is known of it, each member once it is: `size_bytes`; `cut_at`, the instant of which the data are; `start_lsn`, where recovery begins; `end_lsn`, up to which all that was committed is in it; `timeline`; `system_identifier`; `error`, why it failed; `verification`, which is `pending`, `verified` or `failed`; `verification_result`, with `ended_at`, the `version` of Postgres that looked, how many `databases`, `relations`, `indexes` and `pages` it read, how many `faults` there are, and the first of them as `error`.',
        ),
      purpose: z
        .string()
        .optional()
        .describe(
          `Why it was taken: ${backupPurposes.map(purpose => `\`${purpose}\``).join(', ')}. There may be other values later.`,
        ),
    })
    .describe('A backup of a database.'),
)
export type BackupShape = z.output<typeof backupShape>

export const createBackupInput = input(
  'CreateBackupRequest',
  z
    .strictObject({ kind: z.enum(backupKinds).describe(kindDescription) })
    .meta({ description: 'A backup to take.', example: { kind: 'hot' } }),
)

export const listBackupsQuery = z.strictObject({
  database_id: id.optional().describe('Only backups of this database.'),
  kind: z.enum(backupKinds).optional().describe('Only backups of this kind.'),
  ...createdRange,
  ...paging(100, true),
})
