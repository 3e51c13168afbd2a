/** Backup: one restore point of a database. */
import { z } from 'zod'
import { ofDatabase, pgVersion, runStatus, sourceBranch, timestamp } from './fields.ts'
import { declareKind, immutableSpec, type ObjectOfKind } from './kind.ts'
import { annotations } from './metadata.ts'

export const backupKinds = ['hot', 'durable'] as const
export const backupPurposes = ['user', 'scheduled', 'prebranch', 'prerestore', 'postrestore'] as const

const retentionRule = z
  .strictObject({
    count: z.int().min(1).max(1000).optional().describe('The number of newest backups to keep. Omitted: no limit.'),
    days: z
      .int()
      .min(1)
      .max(3650)
      .optional()
      .describe('The number of days to keep a backup. Omitted: no limit. The newest backup is kept longer.'),
  })
  .describe('How long completed backups are kept.')
export type RetentionRule = z.output<typeof retentionRule>

const retentionOfPurposes = z.strictObject({
  user: retentionRule.optional().describe('Backups that a user requested.'),
  scheduled: retentionRule.optional().describe('Scheduled backups.'),
  prebranch: retentionRule.optional().describe('Backups that branches are created from.'),
  prerestore: retentionRule.optional().describe('Backups taken before a restore.'),
  postrestore: retentionRule.optional().describe('Backups taken after a restore.'),
})

/** The backup schedule, the retention, and whether the durable tier is on. */
export const backupPolicy = z.strictObject({
  schedule: z
    .string()
    .max(100)
    .optional()
    .describe('When scheduled backups are taken: a cron expression in UTC, or `off`. Omitted: once a night.'),
  retentionDays: z
    .int()
    .min(1)
    .max(3650)
    .optional()
    .describe('For how many days scheduled backups are kept. Omitted: 7, and at most 30 backups of each kind.'),
  retention: z
    .strictObject({
      hot: retentionOfPurposes.optional().describe('Retention of hot backups (snapshots of the volume).'),
      durable: retentionOfPurposes.optional().describe('Retention of durable backups (in the archive).'),
    })
    .optional()
    .describe('How long backups are kept, by kind and purpose. Each entry replaces its default.'),
  verify: z
    .enum(['scheduled', 'none'])
    .optional()
    .describe(
      'Which backups are verified automatically, on a temporary copy. `scheduled`: scheduled hot backups, and one durable backup of a tenant each day. Omitted: `scheduled`.',
    ),
  durable: z
    .boolean()
    .default(false)
    .describe(
      '`true` enables the durable tier: WAL is archived, and durable backups are taken. See the condition Archiving. A running database archives after its next restart.',
    ),
})

/** The result of the last verification. */
export const verificationResult = z.strictObject({
  endedAt: timestamp.describe('When the verification ended.'),
  version: z.string().max(64).optional().describe('The version of Postgres that checked the copy.'),
  databases: z.int().min(0).optional().describe('How many databases were checked.'),
  relations: z.int().min(0).optional().describe('How many tables, materialized views and TOAST tables were read.'),
  indexes: z.int().min(0).optional().describe('How many indexes were compared with their tables.'),
  pages: z
    .int()
    .min(0)
    .meta({ format: 'int64' })
    .optional()
    .describe('How many pages were compared with their checksums.'),
  faults: z.int().min(0).meta({ format: 'int64' }).optional().describe('How many faults were found.'),
  error: z.string().max(1000).optional().describe('The first fault found, or why nothing could be checked.'),
  asked: z
    .string()
    .max(64)
    .optional()
    .describe('The first 64 characters of the annotation value that requested the verification.'),
})
export type BackupVerification = z.output<typeof verificationResult>

const backupSpec = {
  ...ofDatabase,
  sourceBranch: sourceBranch.optional().describe('The branch that is backed up. Omitted: the database itself.'),
  kind: z
    .enum(backupKinds)
    .describe('`hot`: a snapshot of the volume. `durable`: a base backup in the archive; needs the durable tier.'),
  purpose: z
    .enum(backupPurposes)
    .default('user')
    .describe('Why the backup is taken. Selects the retention rule. Backups created with kubectl have `user`.'),
}

export const backup = declareKind({
  kind: 'Backup',
  description:
    'One backup of a database: a snapshot of its volume, or a base backup in the archive. It is deleted with its data, and with its database unless `deletion.keepBackups` is set there.',
  plural: 'backups',
  shortNames: ['bkp'],
  scope: 'Namespaced',
  spec: z.strictObject(backupSpec).meta(immutableSpec('a backup', backupSpec, ['databaseId'])),
  status: z.strictObject({
    ...runStatus,
    taskId: z.string().max(64).optional().describe('The Task that records the backup, until that Task has ended.'),
    incarnation: z
      .int()
      .min(1)
      .optional()
      .describe(
        'For a durable backup: the number of the volume that was backed up. The archive stores the backup under this number.',
      ),
    snapshotName: z.string().max(253).optional().describe('The VolumeSnapshot that contains the data.'),
    cutAt: timestamp.optional().describe('The point in time of the data.'),
    startLsn: z
      .string()
      .max(20)
      .optional()
      .describe('The WAL position where recovery of the data begins, or a later one.'),
    endLsn: z
      .string()
      .max(20)
      .optional()
      .describe('The backup contains every transaction that was committed before this WAL position.'),
    timeline: z.int().min(1).optional().describe('The Postgres timeline of the data.'),
    systemIdentifier: z.string().max(32).optional().describe('The Postgres system identifier of the data.'),
    pgVersion: pgVersion.optional().describe('The major version of Postgres that wrote the data.'),
    region: z
      .string()
      .max(63)
      .optional()
      .describe('The region of the snapshot. Absent in older backups: the region of the database.'),
    sizeBytes: z
      .int()
      .min(0)
      .meta({ format: 'int64' })
      .optional()
      .describe('The size of a volume restored from the backup, as the storage reports it.'),
    error: z.string().max(1000).optional().describe('Why the backup failed.'),
    verification: z
      .enum(['pending', 'verified', 'failed'])
      .optional()
      .describe('The result of verifying a copy of the backup. Absent: never verified.'),
    verificationTries: z
      .int()
      .min(0)
      .optional()
      .describe('While pending: how many copies ended without a result, for example because a node was lost.'),
    verificationResult: verificationResult.optional().describe('The result of the last verification.'),
  }),
  rules: [],
  columns: [
    { name: 'Database', type: 'string', jsonPath: '.spec.databaseName' },
    { name: 'Kind', type: 'string', jsonPath: '.spec.kind' },
    { name: 'Purpose', type: 'string', jsonPath: '.spec.purpose' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Progressing')].reason",
      priority: 1,
    },
    { name: 'Error', type: 'string', jsonPath: '.status.error', priority: 1 },
    { name: 'SizeBytes', type: 'integer', jsonPath: '.status.sizeBytes', priority: 1 },
    { name: 'Duration', type: 'string', jsonPath: '.status.duration', priority: 1 },
    { name: 'Verified', type: 'string', jsonPath: '.status.verification' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Backup = ObjectOfKind<typeof backup>

/** Whether this is a durable backup whose restore proves that the archive contains what the database needs. */
export const canProve = ({ metadata, spec, status }: Pick<Backup, 'metadata' | 'spec' | 'status'>): boolean =>
  spec.kind === 'durable' &&
  spec.sourceBranch === undefined &&
  status?.phase === 'completed' &&
  metadata.deletionTimestamp === undefined

/** The requested verification, in the format in which the result names it. Undefined if none is requested. */
export const requestedVerification = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  metadata.annotations?.[annotations.verify]?.slice(0, 64)

/** The verification state that clients see: `pending` as soon as a verification is requested. */
export function verificationOf(backup: Backup): NonNullable<Backup['status']>['verification'] {
  const { phase, verification, verificationResult } = backup.status ?? {}
  const requested = requestedVerification(backup)
  return phase === 'completed' && requested !== undefined && requested !== verificationResult?.asked
    ? 'pending'
    : verification
}
