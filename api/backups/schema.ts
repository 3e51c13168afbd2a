/** Backups as the API takes and gives them. */
import { z } from 'zod'
import { backupKinds, backupPurposes } from '../../crds/index.ts'
import { createdRange, id, idText, paging, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'

const kindDescription = '`hot` is a snapshot of the volume. `durable` is a copy in object storage.'
const backupKind = input('BackupKind', z.enum(backupKinds).describe(kindDescription))

export const backupShape = output(
  'Backup',
  z
    .strictObject({
      id: idText.describe('The id of the backup, a UUID.'),
      database_id: idText.describe('The id of the database it is a backup of.'),
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
    .meta({
      description: 'A backup of a database.',
      example: {
        id: '0198c0de-0000-7000-8000-000000000002',
        database_id: '0198c0de-0000-7000-8000-000000000001',
        name: 'shop-20260131-120000',
        created_at: '2026-01-31T12:00:00.000Z',
        finished_at: '2026-01-31T12:00:03.120Z',
        status: 'completed',
        kind: 'hot',
        metadata: { size_bytes: 31457280, cut_at: '2026-01-31T12:00:02.000Z', verification: 'verified' },
        purpose: 'user',
      },
    }),
)
export type BackupShape = z.output<typeof backupShape>

export const createBackupInput = input(
  'CreateBackupRequest',
  z
    .strictObject({ kind: backupKind.describe('How to take it.') })
    .meta({ description: 'A backup to take.', example: { kind: 'hot' } }),
)

export const listBackupsQuery = z.strictObject({
  database_id: id.optional().describe('Only backups of this database.'),
  kind: backupKind.optional().describe('Only backups of this kind.'),
  ...createdRange,
  ...paging(100, true),
})
