/**
 * Size: one version of a size, named `<name>-v<version>`. A version is immutable. To change a size, create an object
 * with the next version.
 */
import { z } from 'zod'
import { quantity, timestamp } from './fields.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'

export const sizeStatuses = ['active', 'deprecated', 'retired'] as const

/**
 * Settings that a size must not set. They affect durability, access, loaded code, or data that other parts of Espalier
 * read. `include` and similar words are directives of the file, not settings.
 */
export const settingsNotForSizes = [
  'allow_alter_system',
  'allow_in_place_tablespaces',
  'allow_system_table_mods',
  'authentication_timeout',
  'config_file',
  'createrole_self_grant',
  'data_checksums',
  'data_directory',
  'data_sync_retry',
  'db_user_namespace',
  'dynamic_library_path',
  'dynamic_shared_memory_type',
  'extension_control_path',
  'external_pid_file',
  'fsync',
  'full_page_writes',
  'hba_file',
  'ident_file',
  'jit_provider',
  'lc_messages',
  'listen_addresses',
  'local_preload_libraries',
  'lo_compat_privileges',
  'log_destination',
  'log_line_prefix',
  'log_timezone',
  'logging_collector',
  'max_connections',
  'max_slot_wal_keep_size',
  'max_wal_senders',
  'password_encryption',
  'port',
  'reserved_connections',
  'restart_after_crash',
  'restore_command',
  'send_abort_for_crash',
  'send_abort_for_kill',
  'session_preload_libraries',
  'session_replication_role',
  'shared_preload_libraries',
  'summarize_wal',
  'superuser_reserved_connections',
  'synchronous_commit',
  'synchronous_standby_names',
  'wal_level',
  'wal_summary_keep_time',
  'wal_sync_method',
  'zero_damaged_pages',
] as const
export const settingPrefixesNotForSizes = [
  'archive_',
  'bonjour',
  'gss_',
  'ignore_',
  'include',
  'krb_',
  'oauth_',
  'pg_stat_statements.',
  'plperl',
  'pltcl',
  'primary_',
  'recovery_',
  'ssl',
  'unix_socket_',
] as const

/** Whether a size may set this setting. Equals the CEL rule of the schema. */
export const isSettingForSizes = (name: string): boolean =>
  !settingsNotForSizes.some(refused => refused === name) &&
  !settingPrefixesNotForSizes.some(prefix => name.startsWith(prefix))

export const size = declareKind({
  kind: 'Size',
  description: 'One version of a size. Its resources never change.',
  plural: 'sizes',
  shortNames: ['sz'],
  scope: 'Cluster',
  spec: z.strictObject({
    id: z.string().max(36).describe('The id of this version of the size in the API, a UUID.').meta(immutable('id')),
    name: z
      .string()
      .max(50)
      .regex(/^[a-z][a-z0-9-]{0,49}$/)
      .describe('The name of the size, the same for all its versions. Immutable.')
      .meta(immutable('name')),
    version: z.int().min(1).describe('The version of the size. Immutable.').meta(immutable('version')),
    displayName: z.string().min(1).max(100).describe('The display name of the size.'),
    shape: z
      .strictObject({
        qosClass: z
          .enum(['burstable', 'guaranteed'])
          .describe('The quality of service of the pod. `guaranteed` requires equal requests and limits.'),
        cpuRequest: quantity.describe('The CPU request, for example 500m.'),
        cpuLimit: quantity.describe('The CPU limit of Postgres, for example 2.'),
        memoryRequest: quantity.describe('The memory request, for example 1Gi.'),
        memoryLimit: quantity.describe('The memory limit of Postgres, for example 1Gi.'),
        storageSize: quantity.describe('The initial size of the volume, for example 10Gi.'),
        temporaryDataSize: quantity.describe('The highest disk usage of temporary files of queries.'),
        sharedMemorySize: quantity.describe('The memory that parallel queries share. It counts against memoryLimit.'),
        connections: z
          .int()
          .min(1)
          .max(10000)
          .describe('The highest number of simultaneous connections of applications.'),
        postgresSettings: z
          .record(z.string().regex(/^[a-z_][a-z0-9_.]{0,62}$/), z.string().max(200))
          .describe('Settings of postgresql.conf. max_connections is derived from connections and ignored here.')
          .meta({
            // Postgres accepts names in any case. So an upper-case name must not pass the list. The API server limits
            // the cost of a rule by the size of its input.
            maxProperties: 100,
            'x-kubernetes-validations': [
              {
                rule: "self.all(key, key.matches('^[a-z_][a-z0-9_.]{0,62}$'))",
                message: 'the name of a setting contains at most 63 lower-case letters, digits, underscores and dots',
              },
              {
                rule: `self.all(key, !(key in [${settingsNotForSizes.map(name => `'${name}'`).join(', ')}]) && !key.matches('^(${settingPrefixesNotForSizes.join('|')})'))`,
                message: 'a size cannot set parameters for durability, authentication, addresses, logs or loaded code',
              },
            ],
          }),
      })
      .describe('The resources of a database of this version. Immutable.')
      .meta(immutable('shape')),
    status: z
      .enum(sizeStatuses)
      .default('active')
      .describe('Whether new databases can use it: active and deprecated sizes can be used, retired ones cannot.'),
    deprecatedAt: timestamp.optional().describe('When the size was deprecated. Required unless status is active.'),
    retiredAt: timestamp.optional().describe('When the size was retired. Required if status is retired.'),
    pricing: z
      .strictObject({
        priceAmount: z
          .int()
          .min(0)
          .meta({ format: 'int64' })
          .describe('The price for one billing interval, in the smallest unit of the currency.'),
        currency: z
          .string()
          .regex(/^[a-z]{3}$/)
          .describe('The currency, as three lower-case letters of ISO 4217.'),
        billingInterval: z
          .string()
          .min(1)
          .max(20)
          .describe('The billing interval of the price, for example hour or month.'),
      })
      .optional()
      .describe('The price. Omitted: the API shows none.'),
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
    { name: 'CPU', type: 'string', jsonPath: '.spec.shape.cpuLimit', priority: 1 },
    { name: 'Class', type: 'string', jsonPath: '.spec.shape.qosClass', priority: 1 },
    { name: 'Status', type: 'string', jsonPath: '.spec.status' },
  ],
})
export type Size = ObjectOfKind<typeof size>
export type SizeShape = Size['spec']['shape']
