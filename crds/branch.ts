/**
 * Branch: a copy of a database, with its own address and credentials. All fields are immutable except two: `target` can
 * be replaced by another one, and `deletionRequestedAt` can be set once. The record of a deleted branch is kept for 30
 * days.
 */
import { z } from 'zod'
import { branchMove, branchSource, isMoveRequested } from './branch-move.ts'
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
import { restoreTarget } from './restore.ts'
import { serviceConfigs, serviceStatuses } from './services.ts'

export const branchPhases = ['creating', 'available', 'failed', 'deleting', 'deleted'] as const
export type BranchPhase = (typeof branchPhases)[number]

/** The reason of an object that failed because this version does not support its kind. */
export const notAvailable = 'NotAvailable'

const highestDepth = 5

/** How many levels of branches an installation allows. */
export const branchDepth = z
  .int()
  .min(1)
  .max(highestDepth)
  .default(highestDepth)
  .describe('1: branches of databases only; 2: also branches of those; and so on')

/** Optional fields that cannot be added later. */
const fixedIfAbsent = ['sourceBranch', 'target', 'storage', 'displayName', 'expiresAt'] as const

export const branch = declareKind({
  kind: 'Branch',
  description: 'A copy of a database or of another branch, with its own address and credentials.',
  plural: 'branches',
  shortNames: ['br'],
  scope: 'Namespaced',
  spec: z.strictObject({
    databaseName: ofDatabase.databaseName
      .describe('The database that the data originate from, at any depth.')
      .meta(immutable('databaseName')),
    databaseId: ofDatabase.databaseId.meta(immutableOnceSet('databaseId')),
    sourceBranch: sourceBranch
      .optional()
      .describe('The branch to copy. Omitted: the database itself.')
      .meta(immutable('sourceBranch')),
    target: restoreTarget
      .optional()
      .describe(
        'The point in time of the database, or its durable Backup, to create the branch from. The data are read from the archive. Another target moves the branch: its data, with all writes on the branch, are replaced by those of the new target. Omitted: the current data are copied.',
      ),
    depth: z
      .int()
      .min(1)
      .max(highestDepth)
      .default(1)
      .describe('1 for a branch of the database; one more than the source for a branch of a branch.')
      .meta(immutable('depth')),
    region: z.string().min(1).max(63).describe("The source's.").meta(immutable('region')),
    size: pinnedSize.describe("The source's.").meta(immutable('size')),
    pgVersion: pgVersion.describe("The source's.").meta(immutable('pgVersion')),
    storage: storage.optional().describe('How the volume grows.').meta(immutable('storage')),
    displayName: displayName.optional().meta(immutable('displayName')),
    ipAllowlist: ipAllowlist
      .default({ rules: [] })
      .describe('Which addresses may reach the Postgres endpoint. Without rules, none.')
      .meta(immutable('ipAllowlist')),
    services: serviceConfigs
      .default([])
      .describe('The services of the branch. Tokens and users of the source are not copied.')
      .meta({
        ...serviceConfigs.meta(),
        ...immutable('services'),
      }),
    options: options.default([]).meta(immutable('options')),
    expiresAt: timestamp
      .optional()
      .describe('When the branch is deleted automatically. Omitted: never.')
      .meta(immutable('expiresAt')),
    deletionRequestedAt: timestamp
      .optional()
      .describe('Set it to delete the branch and keep its record for 30 days. Billing stops at this time.')
      .meta({
        'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'deletionRequestedAt can be set only once' }],
      }),
  }),
  status: z.strictObject({
    phase: z.enum(branchPhases).optional().describe('The state of the branch, in one word.'),
    observedGeneration: observedGeneration.optional(),
    conditions: conditions.optional(),
    connectableAt: timestamp
      .optional()
      .describe('When the branch first accepted connections. Billing starts at this time.'),
    creationDuration: duration
      .optional()
      .describe('The time from the creation of the Branch to connectableAt, for example 8s.'),
    deletedAt: timestamp
      .optional()
      .describe('When everything of the branch was deleted. The record remains for 30 days.'),
    source: branchSource
      .optional()
      .describe('What was copied, set when the snapshot is ready. Only a move to another target changes it.'),
    move: branchMove.optional().describe('The last move to another target.'),
    ...instanceStatus,
    services: serviceStatuses.optional().describe('The state of its services.'),
    operation: z
      .strictObject({
        taskId: z.string().max(64).describe('The name of the Task that records the operation.'),
        name: z.enum(['create-branch', 'move-branch', 'delete-branch']).describe('What the operation does.'),
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
      message: 'deletionRequestedAt can be set only once',
    },
    {
      rule: '!has(self.spec.target) || !has(self.spec.sourceBranch)',
      message: 'target and sourceBranch exclude each other: only branches of a database are created from the archive',
    },
    {
      rule: 'has(self.spec.sourceBranch) == (self.spec.depth > 1)',
      message: 'depth must be 1 without a sourceBranch, and greater than 1 with one',
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

/**
 * The phase that a client sees. It is `deleting` as soon as a deletion is requested, and `creating` as soon as a move
 * is requested.
 */
export function branchPhase(branch: Pick<Branch, 'metadata' | 'spec' | 'status'>): BranchPhase {
  const { metadata, spec, status } = branch
  if (status?.phase === 'deleted') return 'deleted'
  if (spec.deletionRequestedAt !== undefined || metadata.deletionTimestamp !== undefined) return 'deleting'
  return isMoveRequested(branch) ? 'creating' : (status?.phase ?? 'creating')
}

/** Whether the creation failed and no client could ever connect. */
export const isFailedCreation = ({ status }: Branch): boolean =>
  status?.phase === 'failed' && status.connectableAt === undefined

/**
 * Whether this branch blocks the deletion of its database (without force). A failed branch blocks it until a user
 * deletes the branch. A deleted branch, and a branch whose deletion is requested, do not block it.
 */
export const blocksDeletion = (branch: Branch): boolean => {
  const phase = branchPhase(branch)
  return phase !== 'deleting' && phase !== 'deleted'
}

/** The highest clock skew between the API servers of a cluster, in ms. */
const clockSkewMs = 5_000

/**
 * Whether a branch was created before the deletion of its database was requested. Both times have whole seconds, and
 * may be from two API servers.
 */
export const isCreatedBefore = ({ metadata }: Pick<Branch, 'metadata'>, deletionTimestamp: string): boolean =>
  !(Date.parse(metadata.creationTimestamp ?? '') > Date.parse(deletionTimestamp) + clockSkewMs)

/** Whether a branch counts against limits: until its deletion is requested. */
export const isLiveBranch = (branch: Branch): boolean => {
  const phase = branchPhase(branch)
  return phase !== 'deleting' && phase !== 'deleted' && !isFailedCreation(branch)
}
