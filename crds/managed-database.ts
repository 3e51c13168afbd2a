/**
 * ManagedDatabase: one Postgres database with its address, its allowlist and its services. Its name is `metadata.name`,
 * so the API server enforces that the name is unique in a tenant's namespace.
 */
import { z } from 'zod'
import { backupPolicy } from './backup.ts'
import {
  conditions,
  displayName,
  ipAllowlist,
  observedGeneration,
  options,
  pgVersion,
  quantity,
  timestamp,
} from './fields.ts'
import { importSpec, importStatus } from './import.ts'
import { instanceStatus, pinnedSize } from './instance.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'
import { momentFields } from './restore.ts'
import { serviceConfigs, serviceStatuses } from './services.ts'

export const databasePhases = [
  'creating',
  'available',
  'modifying',
  'restoring',
  'suspending',
  'suspended',
  'resuming',
  'degraded',
  'failed',
  'deleting',
] as const
export type DatabasePhase = (typeof databasePhases)[number]

/** The operations that tenants see. The name of a Task is one of these. */
export const operationNames = [
  'create-managed',
  'update-managed',
  'update-managed-size',
  'update-managed-ip-allowlists',
  'rotate-password-managed',
  'backup-managed',
  'restore-managed',
  'restart-managed',
  'suspend-managed',
  'resume-managed',
  'delete-managed',
  'create-branch',
  'move-branch',
  'delete-branch',
] as const
export const operationName = z.enum(operationNames)
export type OperationName = (typeof operationNames)[number]

/** When and how far the volume grows automatically. */
export const autogrow = z.strictObject({
  atPercent: z.int().min(50).max(90).default(80).describe('The usage at which the volume grows, in per cent.'),
  stepPercent: z
    .int()
    .min(5)
    .max(100)
    .default(20)
    .describe('How much it grows each time, in per cent of its capacity.'),
  maxSize: quantity.describe('The largest size that the volume grows to automatically.'),
})
export type Autogrow = z.output<typeof autogrow>

export const storage = z.strictObject({
  autogrow: autogrow.optional().describe('Grows the volume automatically as it fills. Omitted: it does not grow.'),
})

/**
 * The maximum number of previous volumes in a status. Restores are refused at a much lower number
 * (operator/restore/plan.ts).
 */
export const mostPreviousListed = 64

/** A volume that a restore replaced. It is kept as long as it is needed. */
const previousVolume = z.strictObject({
  incarnation: z.int().min(1).describe('The number of the volume.'),
  claim: z.string().max(253).describe('The PersistentVolumeClaim.'),
  uid: z.string().max(64).describe('The uid of the claim, for the annotation espalier.dev/discard-previous.'),
  replacedAt: timestamp.optional().describe('When the restored volume replaced it. Omitted: unknown.'),
  restore: z.string().max(253).optional().describe('The name of the Restore that replaced it.'),
  restoreUid: z.string().max(64).optional().describe('The uid of that Restore.'),
  restoredAt: timestamp.optional().describe('When that Restore completed. Omitted: not completed, or unknown.'),
  backup: z.string().max(253).optional().describe('The name of the prerestore Backup of this volume.'),
  backupUid: z.string().max(64).optional().describe('The uid of that Backup.'),
  discard: z.boolean().optional().describe('The Restore requested the deletion of this volume.'),
  bytes: z
    .int()
    .min(0)
    .meta({ format: 'int64' })
    .optional()
    .describe('The size of the data when the volume was replaced, or the size of the volume if that is unknown.'),
  keptUntil: timestamp.optional().describe('When the volume is deleted. Omitted: only after a user agrees.'),
  reason: z.string().max(63).optional().describe('Why the volume is kept, in one word.'),
  message: z.string().max(1000).optional().describe('Why the volume is kept, and what deletes it.'),
})
export type PreviousVolume = z.output<typeof previousVolume>

export const credentials = z.strictObject({
  secrets: z
    .boolean()
    .default(false)
    .describe(
      '`true` keeps the Secrets NAME-app, NAME-admin and NAME-app-read-only in the namespace of the database, each with the address and the password of a role. Every client that may read Secrets there can read them.',
    ),
})

/** The values are in the record of the deleted database (deleted-database.ts). */
const undelete = z.strictObject({
  incarnation: z
    .int()
    .min(2)
    .max(10_000)
    .describe('The number of its first volume, greater than the number of any volume it had before.'),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('The port that the database had. If the port is taken, the database gets another one.'),
  through: z
    .string()
    .regex(/^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/)
    .max(17)
    .optional()
    .describe(
      'The archive has all WAL up to this position. All of it is replayed, or only up to the time, position or point given here. Omitted: only the data of the Backup are restored.',
    ),
  ...momentFields,
})

export const managedDatabase = declareKind({
  kind: 'ManagedDatabase',
  description: 'One Postgres database with its address, its allowlist and its services.',
  plural: 'manageddatabases',
  shortNames: ['mdb'],
  scope: 'Namespaced',
  spec: z.strictObject({
    region: z.string().min(1).max(63).describe('The name of a Region. Immutable.').meta(immutable('region')),
    size: pinnedSize.describe(
      'The name and version of a Size. A change of size restarts Postgres. Volumes grow and never shrink.',
    ),
    pgVersion: pgVersion.describe('The major version of Postgres. Immutable.').meta(immutable('pgVersion')),
    instances: z.int().min(1).max(1).default(1).describe('The number of Postgres instances: always 1 for now.'),
    storage: storage.optional().describe('How the volume grows.'),
    displayName: displayName.optional(),
    ipAllowlist: ipAllowlist
      .default({ rules: [] })
      .describe('Which addresses may reach the Postgres endpoint. Without rules, none.'),
    services: serviceConfigs
      .default([])
      .describe('The services of the database, at most one of each type. See the condition ServicesReady.'),
    credentials: credentials
      .optional()
      .describe('How clients inside the cluster get the passwords. Omitted: only from the API.'),
    options: options.default([]),
    deletionProtection: z.boolean().default(false).describe('`true` refuses the deletion of the database.'),
    backup: backupPolicy
      .default({ durable: false })
      .describe('When backups are taken, and how long they are kept. See the condition BackupsReady.'),
    suspended: z.boolean().default(false).describe('`true` stops the database and keeps its volume.'),
    dataSource: z
      .strictObject({
        backupName: z.string().min(1).max(253).describe('The name of the Backup.'),
        undelete: undelete
          .optional()
          .describe('Restores the deleted database with this id. The Backup must be a durable one of that database.'),
      })
      .optional()
      .describe(
        'The Backup in the same namespace that the database is created from. Omitted: the database starts empty. Immutable.',
      )
      .meta(immutable('dataSource')),
    import: importSpec
      .optional()
      .describe('Another Postgres to import the data from. Omitted: none. Immutable.')
      .meta(immutable('import')),
    deletion: z
      .strictObject({
        keepBackups: z.boolean().default(false).describe('`true` keeps the backups when the database is deleted.'),
        purge: z
          .boolean()
          .optional()
          .describe('`true` deletes the database permanently: even with the durable tier it cannot be restored.'),
      })
      .default({ keepBackups: false })
      .describe('What remains after the database is deleted. Without `keepBackups`, its backups are deleted too.'),
  }),
  status: z.strictObject({
    phase: z.enum(databasePhases).optional().describe('The state of the database, in one word.'),
    observedGeneration: observedGeneration.optional(),
    seenSpec: z
      .strictObject({
        digest: z.string().max(64).describe('A digest of the fields of the spec that the API shows.'),
        updatedAt: timestamp
          .optional()
          .describe('When the API last wrote the database, recorded together with the digest.'),
      })
      .optional()
      .describe(
        "A digest of the spec fields that users see, and the time of the API's last write when it was computed.",
      ),
    conditions: conditions
      .optional()
      .describe('Ready: whether the database serves. Progressing: what delays a change.'),
    appliedHash: z.string().max(64).optional().describe('The hash of the request that the operator has applied.'),
    appliedDigests: z
      .strictObject({
        hash: z.string().max(64).describe('The appliedHash that these digests belong to.'),
        members: z.record(z.string().max(63), z.string().max(64)).describe('The digest of each member, by name.'),
      })
      .optional()
      .describe('The digests that appliedHash consists of, one for each member. They show what a change changes.'),
    ...instanceStatus,
    services: serviceStatuses.optional().describe('The state of its services.'),
    import: importStatus.optional().describe('The state of its import.'),
    branchCount: z.int().min(0).optional().describe('The number of live branches.'),
    previous: z
      .array(previousVolume)
      .max(mostPreviousListed)
      .optional()
      .describe('The volumes that restores replaced, oldest first.'),
    blockingBranches: z
      .int()
      .min(0)
      .optional()
      .describe('The number of branches that block the deletion of the database, failed branches included.'),
    archive: z
      .strictObject({
        incarnation: z.int().min(1).describe('The number of the volume that is archived.'),
        archived: z.string().max(17).describe('All WAL up to this position is in the archive.'),
        archivedAt: timestamp.describe('When the archive last contained all WAL written up to then.'),
        timeline: z.int().min(1).optional().describe('The Postgres timeline that is archived.'),
      })
      .optional()
      .describe('How far the durable tier has archived. Absent: nothing is archived.'),
    scheduledBackupAt: timestamp.optional().describe('When the last scheduled backup was due.'),
    operation: z
      .strictObject({
        taskId: z.string().max(64).describe('The name of the Task that records the operation.'),
        name: operationName.describe('What the operation does.'),
        hash: z.string().max(64).describe('The hash of the spec that the operation applies.'),
        startedAt: timestamp.describe('When the operation began.'),
        deadlineAt: timestamp.describe('When the operation is stopped as failed.'),
      })
      .optional()
      .describe('The operation that runs now.'),
  }),
  rules: [
    { rule: 'has(oldSelf.spec.dataSource) == has(self.spec.dataSource)', message: 'dataSource is immutable' },
    { rule: 'has(oldSelf.spec.import) == has(self.spec.import)', message: 'import is immutable' },
    {
      rule: '!has(self.spec.import) || !has(self.spec.dataSource)',
      message: 'import and dataSource exclude each other',
    },
    {
      rule: "self.metadata.name.matches('^[a-z][a-z0-9]{0,49}$')",
      message: 'metadata.name must begin with a lower-case letter and contain at most 50 lower-case letters and digits',
    },
  ],
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Ready')].reason",
      priority: 1,
    },
    {
      name: 'Progressing',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Progressing')].reason",
      priority: 1,
    },
    { name: 'Version', type: 'string', jsonPath: '.spec.pgVersion' },
    { name: 'Size', type: 'string', jsonPath: '.spec.size.name' },
    { name: 'Region', type: 'string', jsonPath: '.spec.region', priority: 1 },
    { name: 'DataBytes', type: 'integer', jsonPath: '.status.storageUsedBytes', priority: 1 },
    { name: 'Operation', type: 'string', jsonPath: '.status.operation.name', priority: 1 },
    { name: 'Since', type: 'date', jsonPath: '.status.operation.startedAt', priority: 1 },
    { name: 'Host', type: 'string', jsonPath: '.status.endpoint.host', priority: 1 },
    { name: 'Port', type: 'integer', jsonPath: '.status.endpoint.port' },
    { name: 'Branches', type: 'integer', jsonPath: '.status.branchCount', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type ManagedDatabase = ObjectOfKind<typeof managedDatabase>
export type ManagedDatabaseSpec = ManagedDatabase['spec']
export type ManagedDatabaseStatus = NonNullable<ManagedDatabase['status']>

/** The reason of `Ready` after the operator has started to delete a database. */
export const teardownReason = 'Deleting'

/**
 * Whether the operator has started to delete the database. Until then a requested deletion waits for everything that
 * blocks it. The operator writes this to the status before it deletes anything.
 */
export const isTeardownBegun = ({ metadata, status }: Pick<ManagedDatabase, 'metadata' | 'status'>): boolean =>
  metadata.deletionTimestamp !== undefined &&
  status?.phase === 'deleting' &&
  status.conditions?.find(({ type }) => type === 'Ready')?.reason === teardownReason

/** Whether the database must still be created from its Backup. */
export const awaitsData = ({ metadata, spec, status }: ManagedDatabase): boolean =>
  spec.dataSource !== undefined && status?.volume === undefined && metadata.deletionTimestamp === undefined

/** Whether the database's import has not ended, so that no client may connect. */
export const awaitsImport = ({ spec, status }: Pick<ManagedDatabase, 'spec' | 'status'>): boolean =>
  spec.import !== undefined && status?.import?.phase !== 'completed'
