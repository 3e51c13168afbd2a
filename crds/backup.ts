/** Backup: one restore point of a database. */
import { z } from 'zod'
import { ofDatabase, pgVersion, runStatus, sourceBranch, timestamp } from './fields.ts'
import { declareKind, immutableSpec, type ObjectOfKind } from './kind.ts'
import { annotations } from './metadata.ts'

export const backupKinds = ['hot', 'durable'] as const
export const backupPurposes = ['user', 'scheduled', 'prebranch', 'prerestore', 'postrestore'] as const

const retentionRule = z
  .strictObject({
    count: z.int().min(1).max(1000).optional().describe('The newest so many are kept. Omitted: any number.'),
    days: z
      .int()
      .min(1)
      .max(3650)
      .optional()
      .describe('For so many days. Omitted: for any time. The newest stays longer.'),
  })
  .describe('How long completed backups are kept.')
export type RetentionRule = z.output<typeof retentionRule>

const retentionOfPurposes = z.strictObject({
  user: retentionRule.optional().describe('Backups that a user asked for.'),
  scheduled: retentionRule.optional().describe('Backups of the schedule.'),
  prebranch: retentionRule.optional().describe('Backups that branches are made of.'),
  prerestore: retentionRule.optional().describe('Backups taken before a restore.'),
  postrestore: retentionRule.optional().describe('Backups taken after a restore.'),
})

/** When backups are taken by themselves, how long they are kept, and whether the durable tier is on. */
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
    .describe('For how many days scheduled backups are kept. Omitted: 7, and at most 30 backups.'),
  retention: z
    .strictObject({
      hot: retentionOfPurposes.optional().describe('Of hot backups: snapshots of the volume.'),
      durable: retentionOfPurposes.optional().describe('Of durable backups, in object storage. None are taken yet.'),
    })
    .optional()
    .describe('How long backups are kept, by kind and purpose. What stands here takes the place of the default.'),
  verify: z
    .enum(['scheduled', 'none'])
    .optional()
    .describe('Which backups are verified by themselves, on a copy that is thrown away. Omitted: `scheduled`.'),
  durable: z.boolean().default(false).describe('`true` allows durable backups to object storage.'),
})

/** What the last check of a copy came to. */
export const verificationResult = z.strictObject({
  endedAt: timestamp.describe('When the check ended.'),
  version: z.string().max(64).optional().describe('The version of Postgres that looked.'),
  databases: z.int().min(0).optional().describe('How many databases were checked.'),
  relations: z.int().min(0).optional().describe('Tables, materialized views and their toast that were read.'),
  indexes: z.int().min(0).optional().describe('Indexes that were compared with their tables.'),
  pages: z.int().min(0).meta({ format: 'int64' }).optional().describe('Pages that were compared with their checksums.'),
  faults: z.int().min(0).meta({ format: 'int64' }).optional().describe('How many faults were found.'),
  error: z.string().max(1000).optional().describe('What was found first, or why nothing could be checked.'),
  asked: z.string().max(64).optional().describe('How the annotation begins that asked for it.'),
})
export type BackupVerification = z.output<typeof verificationResult>

const backupSpec = {
  ...ofDatabase,
  sourceBranch: sourceBranch
    .optional()
    .describe("The branch of the database whose data it is of. Omitted: the database's own."),
  kind: z
    .enum(backupKinds)
    .describe('`hot` is a snapshot of the volume. `durable` is in object storage: none are taken yet.'),
  purpose: z
    .enum(backupPurposes)
    .default('user')
    .describe('Why it is taken. The retention rules go by it. By `kubectl`: user.'),
}

export const backup = declareKind({
  kind: 'Backup',
  description:
    'One backup of a database: a snapshot of its volume. It outlives neither its snapshot nor, unless asked to, its database.',
  plural: 'backups',
  shortNames: ['bkp'],
  scope: 'Namespaced',
  spec: z.strictObject(backupSpec).meta(immutableSpec('a backup', backupSpec, ['databaseId'])),
  status: z.strictObject({
    ...runStatus,
    taskId: z.string().max(64).optional().describe('The Task that records it, until that has ended.'),
    snapshotName: z.string().max(253).optional().describe('The VolumeSnapshot that holds the data.'),
    cutAt: timestamp.optional().describe('The instant of which the data are.'),
    startLsn: z.string().max(20).optional().describe('Where recovery of the data begins, or later.'),
    endLsn: z.string().max(20).optional().describe('All that was committed up to here is in it.'),
    timeline: z.int().min(1).optional().describe('The timeline of Postgres that the data are on.'),
    systemIdentifier: z.string().max(32).optional().describe("Postgres's own number for this cluster of data."),
    pgVersion: pgVersion.optional().describe('The major version of Postgres that wrote them.'),
    region: z
      .string()
      .max(63)
      .optional()
      .describe('Where the snapshot is. Absent in older ones: where the database is.'),
    sizeBytes: z
      .int()
      .min(0)
      .meta({ format: 'int64' })
      .optional()
      .describe('How much storage a volume out of it takes, as the storage says.'),
    error: z.string().max(1000).optional().describe('Why it failed.'),
    verification: z
      .enum(['pending', 'verified', 'failed'])
      .optional()
      .describe('Whether a copy of it was found to be sound. Absent: nobody has looked.'),
    verificationTries: z
      .int()
      .min(0)
      .optional()
      .describe('While it is pending: how many copies ended without a result, such as by the loss of a node.'),
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

/** What asks for a verification, as its result names it; undefined where nobody does. */
export const verificationAsked = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  metadata.annotations?.[annotations.verify]?.slice(0, 64)

/** How a verification stands, for whoever asked for it: `pending` from the asking on. */
export function verificationOf(backup: Backup): NonNullable<Backup['status']>['verification'] {
  const { phase, verification, verificationResult } = backup.status ?? {}
  const asked = verificationAsked(backup)
  return phase === 'completed' && asked !== undefined && asked !== verificationResult?.asked ? 'pending' : verification
}
