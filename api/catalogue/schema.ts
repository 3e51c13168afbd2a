/** What is on offer: sizes, regions, Postgres versions; and the caller's own address. */
import { z } from 'zod'
import { sizeStatuses } from '../../crds/index.ts'
import { time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

export const sizeShape = output(
  'Size',
  z.strictObject({
    id: z.string(),
    name: z.string().describe('stable across versions'),
    version: z.int(),
    display_name: z.string(),
    qos_class: z.enum(['burstable', 'guaranteed']),
    cpu_request: z.string(),
    cpu_limit: z.string(),
    memory_request: z.string(),
    memory_limit: z.string(),
    storage_size: z.string(),
    temporary_data_size: z.string(),
    shared_memory_size: z.string(),
    connections: z.int().describe('concurrent connections delivered to application roles'),
    postgres_settings: z.record(z.string(), z.string()),
    status: z.enum(sizeStatuses),
    created_at: time,
    deprecated_at: time.nullable().optional(),
    retired_at: time.nullable().optional(),
    pricing: output(
      'SizePricing',
      z.strictObject({
        price_amount: z.int().meta({ format: 'int64' }).describe('in the smallest unit of the currency'),
        currency: z.string().describe('ISO 4217, lower case'),
        billing_interval: z.string(),
      }),
    ).optional(),
  }),
)
export type SizeShapeOut = z.output<typeof sizeShape>

export const sizeQuery = z.strictObject({
  include: z.literal('pricing').optional().describe('`pricing` adds the price of each size that has one'),
})

export const regionShape = output(
  'ManagedRegion',
  z.strictObject({ region: z.string() }).meta({ example: { region: 'local' } }),
)

export const pgVersionShape = output(
  'ManagedPGVersion',
  z
    .strictObject({ version: z.string(), default: z.boolean().describe('true for exactly one') })
    .meta({ example: { version: '18', default: true } }),
)

export const clientAddressShape = output(
  'ClientIPAddress',
  z.strictObject({ ip_address: z.string() }).meta({ example: { ip_address: '203.0.113.7' } }),
)
