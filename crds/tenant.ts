/**
 * Tenant: the plan and limits of one account, and its revoked members. It owns the namespace `espalier-t-<hash of the
 * tenant id>`, which contains all of the tenant's resources.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { conditions, observedGeneration, text, timestamp } from './fields.ts'
import { declareKind, group, immutable, type ObjectOfKind } from './kind.ts'

/** The id of an account or of one of its members, as the issuer of tokens names it. */
export const tenantId = text(200, 1)
export const memberId = text(200, 1)

export const tenant = declareKind({
  kind: 'Tenant',
  description: 'An account: its plan, its limits, and the namespace that contains its databases.',
  plural: 'tenants',
  shortNames: ['tnt'],
  scope: 'Cluster',
  spec: z.strictObject({
    tenantId: tenantId.describe('The id of the account, as in tokens. Immutable.').meta(immutable('tenantId')),
    plan: z
      .strictObject({
        name: z.string().min(1).max(50).describe('The name of the plan. `developer` has no on-demand backups.'),
        expiresAt: timestamp.optional().describe('When the plan expires. Omitted: never.'),
      })
      .default({ name: 'standard' })
      .describe('The limits of the account.'),
    limits: z
      .strictObject({
        databases: z.int().min(0).max(10000).default(1000).describe('The highest number of databases.'),
        branchesPerDatabase: z
          .int()
          .min(0)
          .max(1000)
          .optional()
          .describe('The highest number of live branches per database. Omitted: unlimited.'),
      })
      .default({ databases: 1000 })
      .describe('The limits of the account.'),
    revokedMembers: z.array(memberId).max(1000).default([]).describe('The subjects whose tokens are refused.'),
  }),
  status: z.strictObject({
    phase: z.enum(['pending', 'ready']).optional().describe('`ready` once the namespace and its limits exist.'),
    namespace: z.string().max(63).optional().describe('The namespace of its databases.'),
    branches: z
      .strictObject({
        limit: z.int().min(0).max(1000).optional().describe('The limit. Absent: unlimited.'),
        since: timestamp.optional().describe('When the limit last changed.'),
      })
      .optional()
      .describe('The branch limit that users see, and when it changed.'),
    observedGeneration: observedGeneration.optional(),
    conditions: conditions.optional(),
  }),
  rules: [],
  columns: [
    { name: 'Tenant', type: 'string', jsonPath: '.spec.tenantId' },
    { name: 'Plan', type: 'string', jsonPath: '.spec.plan.name' },
    { name: 'Namespace', type: 'string', jsonPath: '.status.namespace' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Ready')].reason",
      priority: 1,
    },
    { name: 'Databases', type: 'integer', jsonPath: '.spec.limits.databases', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Tenant = ObjectOfKind<typeof tenant>

/** The ResourceQuota that enforces a tenant's `limits.databases`, and the resource that it counts. */
export const databasesQuota = { name: 'espalier-limits', counted: `count/manageddatabases.${group}` } as const

/**
 * 20 hexadecimal characters of SHA-256 of the tenant id. It names the tenant's objects, whatever characters the id has.
 */
export function tenantHash(tenantId: string): string {
  return createHash('sha256').update(tenantId).digest('hex').slice(0, 20)
}
/** The name of the Tenant object with this id. */
export const tenantName = (tenantId: string): string => `t-${tenantHash(tenantId)}`
/** The namespace that contains everything of this tenant. */
export const tenantNamespace = (tenantId: string): string => `espalier-t-${tenantHash(tenantId)}`
