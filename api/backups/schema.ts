/** Backups in requests and responses of the API. */
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
      database_id: idText.describe('The id of the database that the backup belongs to.'),
      name: z.string().describe('The name of the backup.'),
      created_at: time.describe('When the backup was requested.'),
      finished_at: time.optional().describe('When the backup ended. Absent until then.'),
      status: z
        .string()
        .describe(
          '`pending`, `running`, `completed`, `failed` or `deleting`. Only a completed backup is a restore point.',
        ),
      kind: z.enum(backupKinds).describe(kindDescription),
      metadata: z
        .record(z.string(), z.unknown())
        .describe(
          'Details of the backup, each present once known: `size_bytes`; `cut_at`, the time of the data; `start_lsn`, where recovery starts; `end_lsn`, up to which all commits are included; `timeline`; `system_identifier`; `error`, why it failed; `verification`: `pending`, `verified` or `failed`; `verification_result`: `ended_at`, the Postgres `version` used for verification, the number of `databases`, `relations`, `indexes` and `pages` read, the number of `faults`, and the first of them as `error`.',
        ),
      purpose: z
        .string()
        .optional()
        .describe(
          `Why it was taken: ${backupPurposes.map(purpose => `\`${purpose}\``).join(', ')}. More values may be added.`,
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
    .strictObject({ kind: backupKind.describe('The kind of backup.') })
    .meta({ description: 'A backup to create.', example: { kind: 'hot' } }),
)

export const listBackupsQuery = z.strictObject({
  database_id: id.optional().describe('Only backups of this database.'),
  kind: backupKind.optional().describe('Only backups of this kind.'),
  ...createdRange,
  ...paging(100, true),
})
