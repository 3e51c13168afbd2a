/**
 * Branch: a copy of a database, with an address and credentials of its own. Everything about it is fixed at creation
 * but `deletionRequestedAt`, which is set once; a deleted branch stays as a tombstone for 30 days.
 */
// @ts-nocheck

import { z } from 'zod'
import { conditions, displayName, ipAllowlist, options, pgVersion, timestamp } from './fields.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'
import { endpoint, pinnedSize } from './managed-database.ts'
import { serviceConfigs, serviceStatuses } from './services.ts'

export const branchPhases = ['creating', 'available', 'failed', 'deleting', 'deleted'] as const

/** The reason of what has failed because this version does not run its kind. */
export const notAvailable = 'NotAvailable'

export const branch = declareKind({
  kind: 'Branch',
  description:
    'A copy of a database, with an address and credentials of its own. None is made yet: see its conditions.',
  plural: 'branches',
  shortNames: ['br'],
  scope: 'Namespaced',
  spec: z.strictObject({
    databaseName: z.string().max(63).meta(immutable('databaseName')),
    databaseId: z.string().max(36).meta(immutable('databaseId')),
    depth: z.int().min(1).max(1).default(1).meta(immutable('depth')),
    region: z.string().min(1).max(63).meta(immutable('region')),
    size: pinnedSize.meta(immutable('size')),
    pgVersion: pgVersion.meta(immutable('pgVersion')),
    displayName: displayName.optional().meta(immutable('displayName')),
    ipAllowlist: ipAllowlist.default({ rules: [] }).meta(immutable('ipAllowlist')),
    services: serviceConfigs.default([]).meta({
      ...serviceConfigs.meta(),
      ...immutable('services'),
    }),
    options: options.default([]).meta(immutable('options')),
    deletionRequestedAt: timestamp.optional().meta({
      'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'deletionRequestedAt is set once' }],
    }),
  }),
  status: z.strictObject({
    phase: z.enum(branchPhases).optional(),
    observedGeneration: z.int().min(0).optional(),
    conditions: conditions.optional(),
    connectableAt: timestamp.optional().describe('When the branch was first connectable. Billing starts here.'),
    endpoint: endpoint.optional(),
    domain: z.string().max(253).optional(),
    services: serviceStatuses.optional(),
    storageUsedBytes: z.int().min(0).meta({ format: 'int64' }).optional(),
  }),
  rules: [
    {
      rule: 'has(oldSelf.spec.displayName) == has(self.spec.displayName)',
      message: 'displayName is immutable',
    },
    {
      rule: '!has(oldSelf.spec.deletionRequestedAt) || has(self.spec.deletionRequestedAt)',
      message: 'deletionRequestedAt is set once',
    },
  ],
  columns: [
    { name: 'Database', type: 'string', jsonPath: '.spec.databaseName' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Port', type: 'integer', jsonPath: '.status.endpoint.port' },
    { name: 'Connectable', type: 'date', jsonPath: '.status.connectableAt', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Branch = ObjectOfKind<typeof branch>

/** Whether nothing ever came of a branch, nor will. */
const isNotRun = ({ status }: Branch): boolean =>
  status?.phase === 'failed' &&
  status.conditions?.some(({ type, reason }) => type === 'Ready' && reason === notAvailable) === true

/** Whether a branch counts, for limits and for the deletion of its database: until its deletion is asked for. */
export const isLiveBranch = (branch: Branch): boolean =>
  branch.spec.deletionRequestedAt === undefined && !isNotRun(branch)
