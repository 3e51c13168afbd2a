/** Databases in requests and responses of the API. */
import { z } from 'zod'
import { databaseName, databasePhases, displayName, options, pgVersion } from '../../crds/index.ts'
import { attentionShape } from '../render/attention.ts'
import { connection, createdRange, id, idText, paging, queryBoolean, time } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'
import { plainText } from '../schemas/plain-text.ts'
import { newServiceInputs, serviceInputs, serviceShape } from '../services/schema.ts'
import { allowlistInput, allowlistShape } from './allowlist.ts'
import { backupPolicyInput, backupPolicyShape } from './backup-policy.ts'
import { credentialsInput, credentialsShape } from './connection-secrets.ts'
import { importShape, sourceInput } from './import.ts'
import { storageInput, storageShape } from './storage.ts'

const statusDescription =
  "`available`: it serves with the requested settings. `creating`, `modifying`, `restoring`, `suspending`, `resuming`, `deleting`: an operation is running. `suspended`: it is stopped and its data is kept. `degraded`: there is a problem, and Espalier keeps trying to fix it. `failed`: it needs a user's action. Its tasks show the reason."
const protectionDescription = '`true` refuses deletion of the database.'
const displayNameDescription = 'A display name, at most 25 characters.'
const optionsDescription = 'Your own strings, at most 32 of at most 64 characters. They have no effect.'
const servicesDescription = 'The services that run beside the database: at most one each of mcp, rest and rag.'

export const databaseShape = output(
  'ManagedDatabase',
  z
    .strictObject({
      id: idText.describe('The id of the database, a UUID.'),
      region: z.string().describe('The region of the database.'),
      name: z.string().describe('The name of the database, unique in the account.'),
      size: z.string().describe('The applied size. During a resize this is the old size until the new one is applied.'),
      status: z.enum(databasePhases).describe(statusDescription),
      created_at: time.describe('When the database was created.'),
      updated_at: time.describe('When the database last changed.'),
      ip_allowlist: allowlistShape.describe('The addresses that may connect to the Postgres endpoint.'),
      attention: attentionShape.optional(),
      backup: backupPolicyShape.optional(),
      branch_count: z
        .int()
        .optional()
        .describe('The number of live branches. A branch counts until its deletion is requested.'),
      branch_limit: z
        .int()
        .nullable()
        .optional()
        .describe('The maximum number of live branches; null means unlimited.'),
      connection: connection.optional(),
      credentials: credentialsShape.optional(),
      deletion_protection: z.boolean().optional().describe(protectionDescription),
      display_name: displayName.nullable().optional().describe(displayNameDescription),
      domain: z.string().optional().describe('The host name of the database. Its certificate is valid for this name.'),
      import: importShape.optional(),
      options: z.array(z.string()).optional().describe(optionsDescription),
      pg_version: z.string().optional().describe('The major version of Postgres.'),
      port: z.int().optional().describe('The externally reachable Postgres port.'),
      services: z.array(serviceShape).optional().describe('The services that run beside the database.'),
      storage: storageShape.optional(),
      storage_used: z
        .int()
        .optional()
        .meta({ format: 'int64' })
        .describe(
          'The size of the data in bytes, including previous volumes retained after restores (`GET /databases/{id}/previous`).',
        ),
    })
    .meta({
      description: 'A managed Postgres database.',
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
        domain: 'shop-00000001.espalier.localhost',
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
      name: databaseName.describe(
        'The name, unique in the account: a lower-case letter, then at most 49 lower-case letters and digits.',
      ),
      region: z.string().min(1).max(63).describe('The region of the new database.'),
      size: z.string().min(1).max(50).describe('The name of an active size.'),
      backup: backupPolicyInput.optional(),
      credentials: credentialsInput.optional(),
      display_name: plainText(displayName).nullable().optional().describe(displayNameDescription),
      ip_allowlist: allowlistInput
        .optional()
        .describe('The addresses that may connect to the Postgres endpoint. Omitted: none.'),
      options: options.optional().describe(optionsDescription),
      pg_version: pgVersion
        .optional()
        .describe('The major version of Postgres. It can never change. Omitted: the newest available.'),
      source_backup_id: id
        .optional()
        .describe(
          'The id of a completed backup to start from; its database may be deleted. A durable backup can be from any region. The Postgres version must be that of the backup. Omitted: the database starts empty.',
        ),
      source: sourceInput.optional(),
      storage: storageInput.optional(),
      services: newServiceInputs.optional().describe(servicesDescription),
    })
    .meta({
      description: 'A database to create.',
      example: { name: 'shop', region: 'local', size: 'small', ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } },
    }),
)
export type CreateDatabaseInput = z.output<typeof createDatabaseInput>

export const updateDatabaseInput = input(
  'UpdateManagedDatabaseInput',
  z
    .strictObject({
      backup: backupPolicyInput.optional(),
      credentials: credentialsInput.optional(),
      deletion_protection: z.boolean().optional().describe(protectionDescription),
      display_name: plainText(displayName).nullable().optional().describe(`${displayNameDescription} Null removes it.`),
      ip_allowlist: allowlistInput.optional().describe('Replaces the rules. An empty list closes the endpoint.'),
      options: options.optional().describe(`Replaces the options. ${optionsDescription}`),
      storage: storageInput.optional(),
      services: serviceInputs
        .optional()
        .describe(
          `Replaces the services: a service missing from the list is removed. An existing service is matched by its type and keeps omitted fields. ${servicesDescription}`,
        ),
    })
    .meta({
      description: 'The fields to change. Omitted fields are unchanged.',
      example: { ip_allowlist: { rules: [{ cidr: '203.0.113.0/24', label: 'office' }] } },
    }),
)
export type UpdateDatabaseInput = z.output<typeof updateDatabaseInput>

export const resizeDatabaseInput = input(
  'ResizeManagedDatabaseInput',
  z
    .strictObject({
      size: z.string().min(1).max(50).describe('The name of an active size with at least as much storage.'),
    })
    .meta({ description: 'The new size of the database.', example: { size: 'large' } }),
)
export type ResizeDatabaseInput = z.output<typeof resizeDatabaseInput>

export const listDatabasesQuery = z.strictObject({
  region: z.string().min(1).max(63).optional().describe('Only databases in this region.'),
  ...createdRange,
  ...paging(1000, false),
})
export type ListDatabasesQuery = z.output<typeof listDatabasesQuery>

export const deleteDatabaseQuery = z.strictObject({
  force: queryBoolean(false).describe('`true` deletes its branches first. Their data cannot be recovered.'),
  keep_backups: queryBoolean(false).describe(
    '`true` keeps its backups. New databases can be created from them with `source_backup_id`.',
  ),
  purge: queryBoolean(false).describe(
    '`true` deletes it permanently: it cannot be restored even with the durable tier. Cannot be combined with `keep_backups`.',
  ),
})
export type DeleteDatabaseQuery = z.output<typeof deleteDatabaseQuery>

export const branchParameters = z.strictObject({
  id: id.describe('The id of the database, a UUID.'),
  branch_id: id.describe('The id of the branch, a UUID.'),
})
