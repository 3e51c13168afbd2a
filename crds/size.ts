/**
 * Size: one version of one size. Its shape never changes: a new shape is a new object at the next version
 * (seed 000, Size). Named `<name>-v<version>`.
 */
import { z } from 'zod'
import { quantity, timestamp } from './fields.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'

export const sizeStatuses = ['active', 'deprecated', 'retired'] as const

/** Settings a size can never set: they decide whether data survives and who may come in. */
export const settingsNotForSizes = [
  'fsync',
  'full_page_writes',
  'synchronous_commit',
  'data_checksums',
  'max_connections',
  'superuser_reserved_connections',
  'reserved_connections',
  'listen_addresses',
  'port',
  'hba_file',
  'ident_file',
  'data_directory',
  'config_file',
  'external_pid_file',
  'unix_socket_directories',
  'password_encryption',
  'shared_preload_libraries',
  'archive_command',
  'restore_command',
  'logging_collector',
  'log_destination',
] as const

export const size = declareKind({
  kind: 'Size',
  plural: 'sizes',
  shortNames: ['sz'],
  scope: 'Cluster',
  spec: z.strictObject({
    id: z.string().max(36).describe('UUID, the id of this row in the API').meta(immutable('id')),
    name: z
      .string()
      .max(50)
      .regex(/^[a-z][a-z0-9-]{0,49}$/)
      .meta(immutable('name')),
    version: z.int().min(1).meta(immutable('version')),
    displayName: z.string().min(1).max(100),
    shape: z
      .strictObject({
        qosClass: z.enum(['burstable', 'guaranteed']),
        cpuRequest: quantity,
        cpuLimit: quantity,
        memoryRequest: quantity,
        memoryLimit: quantity,
        storageSize: quantity,
        temporaryDataSize: quantity,
        sharedMemorySize: quantity,
        connections: z.int().min(1).max(10000).describe('concurrent connections delivered to application roles'),
        postgresSettings: z
          .record(z.string().regex(/^[a-z_][a-z0-9_.]{0,62}$/), z.string().max(200))
          .describe('settings of postgresql.conf; max_connections is derived, never taken from here')
          .meta({
            // Postgres takes names in any case, so a name in capitals must not slip past the list. The API server
            // bounds what a rule may cost by the size of what it runs over.
            maxProperties: 100,
            'x-kubernetes-validations': [
              {
                rule: "self.all(key, key.matches('^[a-z_][a-z0-9_.]{0,62}$'))",
                message: 'the name of a setting holds at most 63 lower-case letters, digits, underscores and dots',
              },
              {
                rule: `self.all(key, !(key in [${settingsNotForSizes.map(name => `'${name}'`).join(', ')}]) && !key.startsWith('ssl'))`,
                message: 'a size cannot set what decides over durability, authentication or addresses',
              },
            ],
          }),
      })
      .meta(immutable('shape')),
    status: z.enum(sizeStatuses).default('active'),
    deprecatedAt: timestamp.optional(),
    retiredAt: timestamp.optional(),
    pricing: z
      .strictObject({
        priceAmount: z.int().min(0).meta({ format: 'int64' }).describe('in the smallest unit of the currency'),
        currency: z.string().regex(/^[a-z]{3}$/),
        billingInterval: z.string().min(1).max(20),
      })
      .optional(),
  }),
  status: z.strictObject({}),
  rules: [
    {
      rule: "self.metadata.name.startsWith(self.spec.name + '-v') && self.metadata.name.substring(size(self.spec.name) + 2) == string(self.spec.version)",
      message: 'metadata.name must be <name>-v<version>',
    },
    {
      rule: "has(self.spec.deprecatedAt) == (self.spec.status != 'active')",
      message: 'deprecatedAt is set if and only if status is deprecated or retired',
    },
    {
      rule: "has(self.spec.retiredAt) == (self.spec.status == 'retired')",
      message: 'retiredAt is set if and only if status is retired',
    },
  ],
  columns: [
    { name: 'Size', type: 'string', jsonPath: '.spec.name' },
    { name: 'Version', type: 'integer', jsonPath: '.spec.version' },
    { name: 'Memory', type: 'string', jsonPath: '.spec.shape.memoryLimit' },
    { name: 'Storage', type: 'string', jsonPath: '.spec.shape.storageSize' },
    { name: 'Connections', type: 'integer', jsonPath: '.spec.shape.connections' },
    { name: 'Status', type: 'string', jsonPath: '.spec.status' },
  ],
})
export type Size = ObjectOfKind<typeof size>
export type SizeShape = Size['spec']['shape']
