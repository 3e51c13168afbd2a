/** Databases as the API takes and gives them. */
import { z } from 'zod'
import { databaseName, databasePhases, defaultPgVersion, displayName, options, pgVersion } from '../../crds/index.ts'
import { connection, createdRange, id, paging, queryBoolean, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'
import { newServiceInputs, serviceInputs, serviceShape } from '../services/schema.ts'
import { allowlistInput, allowlistShape } from './allowlist.ts'

export const databaseShape = output(
  'ManagedDatabase',
  z
    .strictObject({
      id: z.string(),
      region: z.string(),
      name: z.string(),
      size: z.string().describe('the size in force; another one that was asked for comes into force by and by'),
      status: z.enum(databasePhases),
      created_at: time,
      updated_at: time,
      ip_allowlist: allowlistShape,
      branch_count: z.int().optional().describe('live branches; one counts until its deletion is requested'),
      branch_limit: z.int().nullable().optional().describe('live branches at most; null: unlimited'),
      connection: connection.optional(),
      deletion_protection: z.boolean().optional(),
      display_name: displayName.nullable().optional(),
      domain: z.string().optional(),
      options: z.array(z.string()).optional(),
      pg_version: z.string().optional(),
      port: z.int().optional().describe('externally reachable Postgres port'),
      services: z.array(serviceShape).optional(),
      storage_used: z.int().optional().meta({ format: 'int64' }).describe('bytes'),
    })
    .meta({
      example: {
        id: '0198c0de-0000-7000-8000-000000000001',
        region: 'local',
        name: 'shop',
        size: 'small',
        status: 'available',
        created_at: '2026-01-31T12:00:00Z',
        updated_at: '2026-01-31T12:00:09.120Z',
        ip_allowlist: { rules: [{ cidr: '203.0.113.7/32' }], state: 'restricted' },
        branch_count: 0,
        branch_limit: null,
        deletion_protection: false,
        display_name: 'Web shop',
        domain: 'shop-0198c0de.espalier.localhost',
        options: [],
        pg_version: '18',
        port: 15432,
        services: [],
      },
    }),
)
export type DatabaseShape = z.output<typeof databaseShape>

export const createDatabaseInput = input(
  'CreateManagedDatabaseInput',
  z
    .strictObject({
      name: databaseName.describe('unique in the account'),
      region: z.string().min(1).max(63),
      size: z.string().min(1).max(50).describe('the name of an active size'),
      display_name: displayName.nullable().optional(),
      ip_allowlist: allowlistInput.optional().describe('omitted: the database is created closed'),
      options: options.optional(),
      pg_version: pgVersion.optional().describe(`fixed for the life of the database; omitted: ${defaultPgVersion}`),
      services: newServiceInputs.optional(),
    })
    .meta({
      example: { name: 'shop', region: 'local', size: 'small', ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } },
    }),
)
export type CreateDatabaseInput = z.output<typeof createDatabaseInput>

export const updateDatabaseInput = input(
  'UpdateManagedDatabaseInput',
  z
    .strictObject({
      deletion_protection: z.boolean().optional(),
      display_name: displayName.nullable().optional().describe('null removes it'),
      ip_allowlist: allowlistInput.optional().describe('replaces the rules; none closes the endpoint'),
      options: options.optional(),
      services: serviceInputs.optional().describe('replaces the list of services'),
    })
    .meta({ example: { ip_allowlist: { rules: [{ cidr: '203.0.113.0/24', label: 'office' }] } } }),
)
export type UpdateDatabaseInput = z.output<typeof updateDatabaseInput>

export const resizeDatabaseInput = input(
  'ResizeManagedDatabaseInput',
  z
    .strictObject({
      size: z.string().min(1).max(50).describe('the name of an active size with at least as much storage'),
    })
    .meta({ example: { size: 'large' } }),
)
export type ResizeDatabaseInput = z.output<typeof resizeDatabaseInput>

export const listDatabasesQuery = z.strictObject({
  region: z.string().min(1).max(63).optional().describe('only databases of this region'),
  ...createdRange,
  ...paging(1000, false),
})
export type ListDatabasesQuery = z.output<typeof listDatabasesQuery>

export const deleteDatabaseQuery = z.strictObject({
  force: queryBoolean(false).describe('true: delete its branches first; their data cannot be recovered'),
})

export const branchParameters = z.strictObject({
  id: id.describe('UUID of the database'),
  branch_id: id.describe('UUID'),
})
