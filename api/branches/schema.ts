/** Branches as the API returns them, and the parameters of their list. */
import { z } from 'zod'
import { branchPhases, displayName } from '../../crds/index.ts'
import { allowlistInput, allowlistShape } from '../databases/allowlist.ts'
import { targetFields } from '../databases/moment.ts'
import { attentionShape } from '../render/attention.ts'
import { connection, id, idText, inputTime, paging, queryBoolean, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'
import { plainText } from '../schemas/plain-text.ts'
import { serviceShape } from '../services/schema.ts'

export const branchShape = output(
  'Branch',
  z
    .strictObject({
      id: idText.describe('The id of the branch, a UUID.'),
      database_id: idText.describe('The id of the root database of the branch, at any depth.'),
      depth: z.int().describe('1 for a branch of the database, 2 for a branch of that branch, and so on.'),
      name: z.string().describe('The name, assigned by the server. It is also the first label of the host name.'),
      region: z.string().describe('The region of the branch.'),
      size: z.string().describe('The size, copied from the source when the branch was created.'),
      status: z
        .enum(branchPhases)
        .describe(
          '`creating`: not connectable yet, or moving to another target. `available`: it serves. `failed`: it could not be created, or has not served for a minute. `deleting`: its deletion is running. `deleted`: it is deleted, and listed for 30 days.',
        ),
      pg_version: z.string().describe('The major version of Postgres.'),
      created_at: time.describe('When the branch was created.'),
      updated_at: time.describe('When the branch last changed.'),
      ip_allowlist: allowlistShape.describe(
        'The addresses that may connect to the Postgres endpoint. Fixed at creation.',
      ),
      attention: attentionShape.optional(),
      connectable_at: time
        .nullable()
        .optional()
        .describe('When the branch was first connectable. Billing starts here. Absent until then.'),
      deletion_requested_at: time
        .nullable()
        .optional()
        .describe('When the deletion was requested. Billing stops here, and the slot is free. Absent until then.'),
      connection: connection.optional(),
      display_name: displayName.nullable().optional().describe('A display name, at most 25 characters.'),
      domain: z.string().optional().describe('The host name of the branch.'),
      options: z.array(z.string()).optional().describe("The source's options."),
      parent_branch_id: idText
        .nullable()
        .optional()
        .describe('The id of the parent branch. Absent for a branch of the database.'),
      expires_at: time.nullable().optional().describe('When the branch is deleted automatically. Absent: never.'),
      lsn: z
        .string()
        .optional()
        .describe("The position in the source's WAL up to which all commits are in the branch."),
      port: z.int().optional().describe('The externally reachable Postgres port.'),
      target_time: z
        .string()
        .optional()
        .describe('The time of the data, for a branch created from the archive at a time.'),
      target_lsn: z.string().optional().describe('The WAL position of the data, for a branch at a WAL position.'),
      target_name: z.string().optional().describe('The restore point of the data, for a branch at a restore point.'),
      services: z.array(serviceShape).optional().describe('The services, copied from the source.'),
    })
    .meta({
      description: 'A copy of a database, with its own address and passwords.',
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

const durableBackupId = id
  .optional()
  .describe('The id of a completed durable backup of the database. The branch has the data at the end of that backup.')

export const createBranchInput = input(
  'CreateBranchRequest',
  z
    .strictObject({
      display_name: plainText(displayName).optional(),
      ip_allowlist: allowlistInput
        .optional()
        .describe(
          "The addresses that may connect to the Postgres endpoint. Omitted: the source's rules are copied. An empty list closes the endpoint.",
        ),
      source_branch_id: id.optional().describe('The branch to copy. Omitted: the database itself is copied.'),
      ...targetFields,
      backup_id: durableBackupId,
      expires_at: inputTime.optional().describe('When to delete the branch. Omitted: never.'),
    })
    .meta({
      description:
        'A branch to create. The body is optional. Set at most one of `backup_id`, `target_time`, `target_lsn`, `target_name` and `source_branch_id`.',
      example: { display_name: 'Preview', ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } },
    }),
)
export const moveBranchInput = input(
  'MoveBranchRequest',
  z.strictObject({ ...targetFields, backup_id: durableBackupId }).meta({
    description: 'The new target: exactly one of `backup_id`, `target_time`, `target_lsn` and `target_name`.',
    example: { target_time: '2026-01-31T12:00:00Z' },
  }),
)
export type TargetInput = z.output<typeof moveBranchInput>

export type CreateBranchInput = z.output<typeof createBranchInput>

export const listBranchesQuery = z.strictObject({
  include_deleted: queryBoolean(false).describe('`true` lists deleted branches too. They are kept for 30 days.'),
  ...paging(100, false),
})
