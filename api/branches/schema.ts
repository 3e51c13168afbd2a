/** Branches as the API gives them, and what a listing of them takes. */
import { z } from 'zod'
import { branchPhases, displayName } from '../../crds/index.ts'
import { allowlistInput, allowlistShape } from '../databases/allowlist.ts'
import { connection, id, idText, inputTime, paging, queryBoolean, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'
import { plainText } from '../schemas/plain-text.ts'
import { serviceShape } from '../services/schema.ts'

export const branchShape = output(
  'Branch',
  z
    .strictObject({
      id: idText.describe('The id of the branch, a UUID.'),
      database_id: idText.describe('The id of the database that the branch comes from, at any depth.'),
      depth: z.int().describe('1 for a branch of the database, 2 for a branch of that branch, and so on.'),
      name: z.string().describe('The name, assigned by the server. It is also the first label of the host name.'),
      region: z.string().describe('The region that the branch is in.'),
      size: z.string().describe('The size, copied from the source when the branch was created.'),
      status: z
        .enum(branchPhases)
        .describe(
          '`creating`: not connectable yet. `available`: it serves. `failed`: it could not be made, or has not served for a minute. `deleting`: its deletion is running. `deleted`: it is gone, and listed for 30 days.',
        ),
      pg_version: z.string().describe('The major version of Postgres.'),
      created_at: time.describe('When the branch was created.'),
      updated_at: time.describe('When the branch last changed.'),
      ip_allowlist: allowlistShape.describe('Who may reach the Postgres endpoint. Fixed at creation.'),
      connectable_at: time
        .nullable()
        .optional()
        .describe('When the branch was first connectable. Billing starts here. Absent before.'),
      deletion_requested_at: time
        .nullable()
        .optional()
        .describe('When the deletion was requested. Billing stops here, and the slot is free. Absent before.'),
      connection: connection.optional(),
      display_name: displayName.nullable().optional().describe('A name for people, at most 25 characters.'),
      domain: z.string().optional().describe('The host name of the branch.'),
      options: z.array(z.string()).optional().describe("The source's options."),
      parent_branch_id: idText
        .nullable()
        .optional()
        .describe('The id of the branch that this is a branch of. Absent for a branch of the database.'),
      expires_at: time.nullable().optional().describe('When the branch is deleted by itself. Absent: never.'),
      lsn: z
        .string()
        .optional()
        .describe('All that was committed in the source up to this position of its log is in the branch.'),
      port: z.int().optional().describe('The port of Postgres, as clients reach it.'),
      services: z.array(serviceShape).optional().describe('The services, copied from the source.'),
    })
    .meta({
      description: 'A copy of a database, with an address and passwords of its own.',
      example: {
        id: '0198c0de-0000-7000-8000-000000000003',
        database_id: '0198c0de-0000-7000-8000-000000000001',
        depth: 1,
        name: 'shop-00000003',
        region: 'local',
        size: 'small',
        status: 'available',
        pg_version: '18',
        created_at: '2026-01-31T12:00:00.000Z',
        updated_at: '2026-01-31T12:00:04.250Z',
        ip_allowlist: { rules: [{ cidr: '203.0.113.7/32' }], state: 'restricted' },
        connectable_at: '2026-01-31T12:00:04.250Z',
        display_name: 'Preview',
        domain: 'shop-00000003.espalier.localhost',
        options: [],
        port: 15433,
        services: [],
      },
    }),
)
export type BranchShape = z.output<typeof branchShape>

export const createBranchInput = input(
  'CreateBranchRequest',
  z
    .strictObject({
      display_name: plainText(displayName).optional(),
      ip_allowlist: allowlistInput
        .optional()
        .describe(
          "Who may reach the Postgres endpoint. Omitted: the source's rules are copied. An empty list closes the endpoint.",
        ),
      source_branch_id: id.optional().describe('The branch to copy. Omitted: the database itself is copied.'),
      expires_at: inputTime.optional().describe('When to delete the branch. Omitted: it stays until it is deleted.'),
    })
    .meta({
      description: 'A branch to create. The body can be left out.',
      example: { display_name: 'Preview', ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } },
    }),
)
export type CreateBranchInput = z.output<typeof createBranchInput>

export const listBranchesQuery = z.strictObject({
  include_deleted: queryBoolean(false).describe('`true` lists deleted branches too. They are kept for 30 days.'),
  ...paging(100, false),
})
