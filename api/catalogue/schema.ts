/** The catalogue: sizes, regions, Postgres versions; and the caller's own address. */
import { z } from 'zod'
import { sizeStatuses } from '../../crds/index.ts'
import { idText, queryList, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

const pricing = { price_amount: 1500, currency: 'eur', billing_interval: 'month' }

export const sizeShape = output(
  'Size',
  z
    .strictObject({
      id: idText.describe('The id of this version of the size, a UUID.'),
      name: z.string().describe('The name of the size, the same in every version.'),
      version: z.int().describe('The version of the size, from 1. A changed size is a new version.'),
      display_name: z.string().describe('A display name.'),
      qos_class: z
        .enum(['burstable', 'guaranteed'])
        .describe('`guaranteed`: requests and limits are equal. `burstable`: limits are higher.'),
      cpu_request: z.string().describe('The guaranteed CPU, as a Kubernetes quantity.'),
      cpu_limit: z.string().describe('The CPU limit, as a Kubernetes quantity.'),
      memory_request: z.string().describe('The guaranteed memory, as a Kubernetes quantity.'),
      memory_limit: z.string().describe('The memory limit, as a Kubernetes quantity.'),
      storage_size: z.string().describe('The size of the volume, as a Kubernetes quantity.'),
      temporary_data_size: z.string().describe('The limit of temporary data, as a Kubernetes quantity.'),
      shared_memory_size: z.string().describe('The size of /dev/shm, as a Kubernetes quantity.'),
      connections: z.int().describe('How many concurrent connections applications can open.'),
      postgres_settings: z.record(z.string(), z.string()).describe('Settings of postgresql.conf.'),
      status: z
        .enum(sizeStatuses)
        .describe(
          '`active`: available. `deprecated` and `retired`: existing databases keep the size; new databases cannot use it.',
        ),
      created_at: time.describe('When this version was created.'),
      deprecated_at: time.nullable().optional().describe('When it was deprecated; null while it is active.'),
      retired_at: time.nullable().optional().describe('When it was retired; null until then.'),
      pricing: output(
        'SizePricing',
        z
          .strictObject({
            price_amount: z
              .int()
              .meta({ format: 'int64' })
              .describe('The price for one billing interval, in the smallest unit of the currency.'),
            currency: z.string().describe('The currency, as ISO 4217 in lower case.'),
            billing_interval: z.string().describe('The billing interval of the price, for example month.'),
          })
          .meta({ description: 'The price of a size.', example: pricing }),
      ).optional(),
    })
    .meta({
      description: 'One version of a size.',
      example: {
        id: '0198c0de-0000-7000-8000-000000000004',
        name: 'small',
        version: 1,
        display_name: 'Small',
        qos_class: 'burstable',
        cpu_request: '250m',
        cpu_limit: '1',
        memory_request: '512Mi',
        memory_limit: '1Gi',
        storage_size: '10Gi',
        temporary_data_size: '2Gi',
        shared_memory_size: '256Mi',
        connections: 50,
        postgres_settings: { work_mem: '4MB' },
        status: 'active',
        created_at: '2026-01-31T12:00:00.000Z',
        deprecated_at: null,
        retired_at: null,
        pricing,
      },
    }),
)
export type SizeShapeOut = z.output<typeof sizeShape>

export const sizeQuery = z.strictObject({
  include: queryList(z.literal('pricing')).optional().describe('`pricing` adds the price to each size that has one.'),
})

export const regionShape = output(
  'ManagedRegion',
  z
    .strictObject({ region: z.string().describe('The name of the region.') })
    .meta({ description: 'A region where databases can be created.', example: { region: 'local' } }),
)

export const pgVersionShape = output(
  'ManagedPGVersion',
  z
    .strictObject({
      version: z.string().describe('The major version, as accepted by pg_version.'),
      default: z.boolean().describe('`true` for the version of a database created without pg_version.'),
      pgvector: z.boolean().describe('`true` where `CREATE EXTENSION vector` works in a database of this version.'),
    })
    .meta({
      description: 'A major version of Postgres.',
      example: { version: '18', default: true, pgvector: true },
    }),
)

export const clientAddressShape = output(
  'ClientIPAddress',
  z.strictObject({ ip_address: z.string().describe('An IP address.') }).meta({
    description: 'The address that the API observed for the request.',
    example: { ip_address: '203.0.113.7' },
  }),
)
