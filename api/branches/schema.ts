/** Branches as the API gives them, and what a listing of them takes. */
import { z } from 'zod'
import { branchPhases, displayName } from '../../crds/index.ts'
import { allowlistShape } from '../databases/allowlist.ts'
import { connection, paging, queryBoolean, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'
import { serviceShape } from '../services/schema.ts'

export const branchShape = output(
  'Branch',
  z.strictObject({
    id: z.string(),
    database_id: z.string().describe('the root database, at any depth'),
    depth: z.int(),
    name: z.string(),
    region: z.string(),
    size: z.string(),
    status: z.enum(branchPhases),
    pg_version: z.string(),
    created_at: time,
    updated_at: time,
    ip_allowlist: allowlistShape,
    connectable_at: time.nullable().optional().describe('when first connectable; billing starts here'),
    deletion_requested_at: time.nullable().optional().describe('billing stops here'),
    connection: connection.optional(),
    display_name: displayName.nullable().optional(),
    domain: z.string().optional(),
    options: z.array(z.string()).optional(),
    parent_branch_id: z.string().nullable().optional(),
    port: z.int().optional(),
    services: z.array(serviceShape).optional(),
  }),
)
export type BranchShape = z.output<typeof branchShape>

export const listBranchesQuery = z.strictObject({
  include_deleted: queryBoolean(false).describe('true: deleted branches too, for 30 days'),
  ...paging(100, false),
})
