/**
 * Branch: a copy of a database, with an address and credentials of its own. Everything about it is fixed at creation
 * but `deletionRequestedAt`, which is set once; a deleted branch stays as a tombstone for 30 days.
 */
import { z } from 'zod'
import {
  conditions,
  displayName,
  duration,
  ipAllowlist,
  observedGeneration,
  ofDatabase,
  options,
  pgVersion,
  sourceBranch,
  timestamp,
} from './fields.ts'
import { instanceStatus, pinnedSize } from './instance.ts'
import { declareKind, immutable, immutableOnceSet, type ObjectOfKind } from './kind.ts'
import { storage } from './managed-database.ts'
import { serviceConfigs, serviceStatuses } from './services.ts'

export const branchPhases = ['creating', 'available', 'failed', 'deleting', 'deleted'] as const
export type BranchPhase = (typeof branchPhases)[number]

/** The reason of what has failed because a version did not run its kind. */
export const notAvailable = 'NotAvailable'

const highestDepth = 5

/** How deep an installation lets branches of branches go. */
export const branchDepth = z
  .int()
  .min(1)
  .max(highestDepth)
  .default(highestDepth)
  .describe('1: branches of databases only; 2: branches of those as well; and so on')

/** Fields that can be left out, and cannot be given later. */
const fixedIfAbsent = ['sourceBranch', 'storage', 'displayName', 'expiresAt'] as const

export const branch = declareKind({
  kind: 'Branch',
  description: 'A copy of a database or of another branch, with an address and credentials of its own.',
  plural: 'branches',
  shortNames: ['br'],
  scope: 'Namespaced',
  spec: z.strictObject({
    databaseName: ofDatabase.databaseName
      .describe('The database that the data come from, at any depth.')
      .meta(immutable('databaseName')),
    databaseId: ofDatabase.databaseId.meta(immutableOnceSet('databaseId')),
    sourceBranch: sourceBranch
      .optional()
      .describe('The branch that is branched. Omitted: the database itself is.')
      .meta(immutable('sourceBranch')),
    depth: z
      .int()
      .min(1)
      .max(highestDepth)
      .default(1)
      .describe('1 for a branch of the database, one more than its source for a branch of a branch.')
      .meta(immutable('depth')),
    region: z.string().min(1).max(63).describe("The source's.").meta(immutable('region')),
    size: pinnedSize.describe("The source's.").meta(immutable('size')),
    pgVersion: pgVersion.describe("The source's.").meta(immutable('pgVersion')),
    storage: storage.optional().describe('How the volume grows.').meta(immutable('storage')),
    displayName: displayName.optional().meta(immutable('displayName')),
    ipAllowlist: ipAllowlist
      .default({ rules: [] })
      .describe('Who may reach the Postgres endpoint. Without rules nobody may.')
      .meta(immutable('ipAllowlist')),
    services: serviceConfigs
      .default([])
      .describe('What runs beside the branch. Tokens and users of the source are not copied.')
      .meta({
        ...serviceConfigs.meta(),
        ...immutable('services'),
      }),
    options: options.default([]).meta(immutable('options')),
    expiresAt: timestamp
      .optional()
      .describe('When its deletion is requested by itself. Omitted: never.')
      .meta(immutable('expiresAt')),
    deletionRequestedAt: timestamp
      .optional()
      .describe('Set it to delete the branch and keep its record for 30 days. Billing stops here.')
      .meta({
        'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'deletionRequestedAt is set once' }],
      }),
  }),
  status: z.strictObject({
    phase: z.enum(branchPhases).optional().describe('The state of the branch, in one word.'),
    observedGeneration: observedGeneration.optional(),
    conditions: conditions.optional(),
    connectableAt: timestamp.optional().describe('When the branch was first connectable. Billing starts here.'),
    creationDuration: duration
      .optional()
      .describe('The time from the creation of the Branch to connectableAt, for example 8s.'),
    deletedAt: timestamp.optional().describe('When nothing of it was left. The record stays for 30 days.'),
    source: z
      .strictObject({
        backupName: z.string().max(253).describe('The Backup that the volume is made from, until it is.'),
        snapshotName: z.string().max(253).describe('The VolumeSnapshot that the volume is made from.'),
        cutAt: timestamp.optional().describe('The instant of which the data are.'),
        lsn: z.string().max(20).describe('All that was committed in the source up to here is in it.'),
        systemIdentifier: z.string().max(32).describe("Of the source's data, Postgres's own number."),
        id: z.string().max(36).describe('Of the database or branch that the data are of.'),
        sizeBytes: z.int().min(0).meta({ format: 'int64' }).optional().describe('What the volume takes at least.'),
        recordedAt: timestamp.describe('When this was recorded.'),
      })
      .optional()
      .describe('What was copied, once it is cut. It stays the same from then on.'),
    ...instanceStatus,
    services: serviceStatuses.optional().describe('The state of its services.'),
    operation: z
      .strictObject({
        taskId: z.string().max(64).describe('The name of the Task that records the operation.'),
        name: z.enum(['create-branch', 'delete-branch']).describe('What the operation does.'),
        startedAt: timestamp.describe('When the operation began.'),
      })
      .optional()
      .describe('The operation that runs now.'),
  }),
  rules: [
    ...fixedIfAbsent.map(field => ({
      rule: `has(oldSelf.spec.${field}) == has(self.spec.${field})`,
      message: `${field} is immutable`,
    })),
    {
      rule: '!has(oldSelf.spec.deletionRequestedAt) || has(self.spec.deletionRequestedAt)',
      message: 'deletionRequestedAt is set once',
    },
    {
      rule: 'has(self.spec.sourceBranch) == (self.spec.depth > 1)',
      message: 'depth is 1 without a sourceBranch, and more with one',
    },
  ],
  columns: [
    { name: 'Database', type: 'string', jsonPath: '.spec.databaseName' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Ready')].reason",
      priority: 1,
    },
    { name: 'Size', type: 'string', jsonPath: '.spec.size.name', priority: 1 },
    { name: 'DataBytes', type: 'integer', jsonPath: '.status.storageUsedBytes', priority: 1 },
    { name: 'CreatedIn', type: 'string', jsonPath: '.status.creationDuration', priority: 1 },
    { name: 'Port', type: 'integer', jsonPath: '.status.endpoint.port' },
    { name: 'Source', type: 'string', jsonPath: '.spec.sourceBranch.name', priority: 1 },
    { name: 'Connectable', type: 'date', jsonPath: '.status.connectableAt', priority: 1 },
    { name: 'Expires', type: 'string', jsonPath: '.spec.expiresAt', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Branch = ObjectOfKind<typeof branch>

/** What a client sees: from the moment its deletion is requested a branch is going. */
export function branchPhase({ metadata, spec, status }: Branch): BranchPhase {
  if (status?.phase === 'deleted') return 'deleted'
  if (spec.deletionRequestedAt !== undefined || metadata.deletionTimestamp !== undefined) return 'deleting'
  return status?.phase ?? 'creating'
}

/** Whether nothing ever came of a branch, nor will. */
export const isFailedCreation = ({ status }: Branch): boolean =>
  status?.phase === 'failed' && status.connectableAt === undefined

/**
 * Whether a database must not be deleted, without force, while this branch exists. A failed branch blocks as well, until somebody has
 * seen and deleted it. Deleted branches, and those whose deletion is requested, do not.
 */
export const blocksDeletion = (branch: Branch): boolean => {
  const phase = branchPhase(branch)
  return phase !== 'deleting' && phase !== 'deleted'
}

/** How far the clocks of a cluster's API servers may be apart, in ms. */
const clockSkewMs = 5_000

/** Whether a branch was created before the deletion of its database was requested. Both times have whole seconds, and may be of two servers. */
export const isCreatedBefore = ({ metadata }: Pick<Branch, 'metadata'>, deletionTimestamp: string): boolean =>
  !(Date.parse(metadata.creationTimestamp ?? '') > Date.parse(deletionTimestamp) + clockSkewMs)

/** Whether a branch counts, for limits: until its deletion is requested. */
export const isLiveBranch = (branch: Branch): boolean => {
  const phase = branchPhase(branch)
  return phase !== 'deleting' && phase !== 'deleted' && !isFailedCreation(branch)
}
