/**
 * ManagedDatabase: one Postgres database with its address, its allowlist and its services. Its name is
 * `metadata.name`, so the API server itself keeps it unique in a tenant's namespace.
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
import { instanceStatus, pinnedSize } from './instance.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'
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

/** The tenant-visible operations; a Task's name is one of these. */
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
  'delete-branch',
] as const
export const operationName = z.enum(operationNames)
export type OperationName = (typeof operationNames)[number]

/** When and how far the volume grows by itself. */
export const autogrow = z.strictObject({
  atPercent: z.int().min(50).max(90).default(80).describe('How full the volume is when it grows, in per cent.'),
  stepPercent: z.int().min(5).max(100).default(20).describe('How much it grows each time, in per cent of what it has.'),
  maxSize: quantity.describe('The most that it grows to by itself.'),
})
export type Autogrow = z.output<typeof autogrow>

export const storage = z.strictObject({
  autogrow: autogrow.optional().describe('Lets the volume grow by itself as it fills. Omitted: it does not.'),
})

/** How many previous volumes a status lists. A restore is refused long before (operator/restore/plan.ts). */
export const mostPreviousListed = 64

/** A volume that served until a restore replaced it, and that is kept until nothing needs it. */
const previousVolume = z.strictObject({
  incarnation: z.int().min(1).describe('The number of the volume.'),
  claim: z.string().max(253).describe('The PersistentVolumeClaim.'),
  uid: z.string().max(64).describe('The uid of the claim. The annotation espalier.dev/discard-previous names it.'),
  replacedAt: timestamp.optional().describe('When the restored volume replaced it. Omitted: unknown.'),
  restore: z.string().max(253).optional().describe('The Restore that replaced it.'),
  restoreUid: z.string().max(64).optional().describe('The uid of that Restore.'),
  restoredAt: timestamp.optional().describe('When that Restore completed. Omitted: it has not, or nobody knows.'),
  backup: z.string().max(253).optional().describe('The prerestore Backup of this volume.'),
  backupUid: z.string().max(64).optional().describe('The uid of that Backup.'),
  discard: z.boolean().optional().describe('The Restore asked for its deletion.'),
  bytes: z
    .int()
    .min(0)
    .meta({ format: 'int64' })
    .optional()
    .describe('The size of its data when it was replaced; where that is not known, the size of the volume.'),
  keptUntil: timestamp.optional().describe('When it is deleted. Omitted: not before somebody agrees.'),
  reason: z.string().max(63).optional().describe('Why it is kept, in one word.'),
  message: z.string().max(1000).optional().describe('Why it is kept, and what deletes it.'),
})
export type PreviousVolume = z.output<typeof previousVolume>

export const credentials = z.strictObject({
  secrets: z
    .boolean()
    .default(false)
    .describe(
      '`true` keeps the Secrets NAME-app, NAME-admin and NAME-app-read-only beside the database, each with the address and the password of a role, readable for every client that may read Secrets there.',
    ),
})

export const managedDatabase = declareKind({
  kind: 'ManagedDatabase',
  description: 'One Postgres database with its address, its allowlist and its services.',
  plural: 'manageddatabases',
  shortNames: ['mdb'],
  scope: 'Namespaced',
  spec: z.strictObject({
    region: z.string().min(1).max(63).describe('The name of a Region. It can never change.').meta(immutable('region')),
    size: pinnedSize.describe(
      'A Size by name and version. Another size restarts Postgres. Volumes grow and never shrink.',
    ),
    pgVersion: pgVersion.describe('The major version of Postgres. It can never change.').meta(immutable('pgVersion')),
    instances: z.int().min(1).max(1).default(1).describe('How many Postgres instances to run: 1 for now.'),
    storage: storage.optional().describe('How the volume grows.'),
    displayName: displayName.optional(),
    ipAllowlist: ipAllowlist
      .default({ rules: [] })
      .describe('Who may reach the Postgres endpoint. Without rules nobody may.'),
    services: serviceConfigs
      .default([])
      .describe('What runs beside the database, at most one of each type. See the condition ServicesReady.'),
    credentials: credentials
      .optional()
      .describe('How clients inside the cluster get the passwords. Omitted: by the API alone.'),
    options: options.default([]),
    deletionProtection: z.boolean().default(false).describe('`true` refuses the deletion of the database.'),
    backup: backupPolicy
      .default({ durable: false })
      .describe('When backups are taken, and how long they are kept. See the condition BackupsReady.'),
    suspended: z.boolean().default(false).describe('`true` stops the database and keeps its volume.'),
    dataSource: z
      .strictObject({ backupName: z.string().min(1).max(253).describe('The name of the Backup.') })
      .optional()
      .describe(
        'The Backup, in the same namespace, that its data are made of. Omitted: it begins empty. It can never change.',
      )
      .meta(immutable('dataSource')),
    deletion: z
      .strictObject({
        keepBackups: z.boolean().default(false).describe('`true` keeps the backups when the database is deleted.'),
      })
      .default({ keepBackups: false })
      .describe('What deleting the database leaves behind. Without `keepBackups` its backups go with it.'),
  }),
  status: z.strictObject({
    phase: z.enum(databasePhases).optional().describe('What the database is doing, in one word.'),
    observedGeneration: observedGeneration.optional(),
    seenSpec: z
      .strictObject({
        digest: z.string().max(64).describe('A digest of the fields of the spec that the API shows.'),
        updatedAt: timestamp.optional().describe('When the API last wrote the database, as of that digest.'),
      })
      .optional()
      .describe('A digest of what users see of the spec, and what the API said of its last write then.'),
    conditions: conditions
      .optional()
      .describe('Ready says whether it serves. Progressing says what holds a change up.'),
    appliedHash: z.string().max(64).optional().describe('The hash of what was asked, as far as it is in force.'),
    appliedDigests: z
      .strictObject({
        hash: z.string().max(64).describe('The appliedHash that these digests belong to.'),
        members: z.record(z.string().max(63), z.string().max(64)).describe('A digest of each member, by its name.'),
      })
      .optional()
      .describe('What appliedHash is made of, member by member. It tells what a change changes.'),
    ...instanceStatus,
    services: serviceStatuses.optional().describe('The state of its services.'),
    branchCount: z.int().min(0).optional().describe('The number of live branches.'),
    previous: z
      .array(previousVolume)
      .max(mostPreviousListed)
      .optional()
      .describe('The volumes that served before restores, oldest first.'),
    blockingBranches: z
      .int()
      .min(0)
      .optional()
      .describe('The number of branches for which a deletion of the database is refused, failed ones included.'),
    scheduledBackupAt: timestamp.optional().describe('When the last scheduled backup that was taken was due.'),
    operation: z
      .strictObject({
        taskId: z.string().max(64).describe('The name of the Task that records the operation.'),
        name: operationName.describe('What the operation does.'),
        hash: z.string().max(64).describe('The hash of the spec that the operation applies.'),
        startedAt: timestamp.describe('When the operation began.'),
        deadlineAt: timestamp.describe('When the operation is given up.'),
      })
      .optional()
      .describe('The operation that runs now.'),
  }),
  rules: [
    { rule: 'has(oldSelf.spec.dataSource) == has(self.spec.dataSource)', message: 'dataSource is immutable' },
    {
      rule: "self.metadata.name.matches('^[a-z][a-z0-9]{0,49}$')",
      message: 'metadata.name must begin with a lower-case letter and hold at most 50 lower-case letters and digits',
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

/** The reason of `Ready` from the moment on at which the operator deletes a database. */
export const teardownReason = 'Deleting'

/**
 * Whether the operator has begun to delete the database. Until then a deletion that was requested waits while something blocks it.
 * The operator writes this to the status before it deletes anything.
 */
export const isTeardownBegun = ({ metadata, status }: Pick<ManagedDatabase, 'metadata' | 'status'>): boolean =>
  metadata.deletionTimestamp !== undefined &&
  status?.phase === 'deleting' &&
  status.conditions?.find(({ type }) => type === 'Ready')?.reason === teardownReason

/** Whether a database is still to be made of the backup that it names. */
export const awaitsData = ({ metadata, spec, status }: ManagedDatabase): boolean =>
  spec.dataSource !== undefined && status?.volume === undefined && metadata.deletionTimestamp === undefined
