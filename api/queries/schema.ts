/** The statistics of statements. */
import { z } from 'zod'
import { queryLimit, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

const orders = ['total_time', 'mean_time', 'calls', 'rows'] as const

export const queriesQuery = z.strictObject({
  order: z.enum(orders).default('total_time').describe('What the first ones have most of.'),
  limit: queryLimit(100, 20).describe('The most statements to return. A limit above 100 is reduced to 100.'),
})
export type QueriesQuery = z.output<typeof queriesQuery>

const statement = output(
  'StatementStatistics',
  z
    .strictObject({
      id: z.string().describe("Postgres's number for the statement, which is the same for any constants."),
      role: z.string().describe('The role that ran it.'),
      text: z
        .string()
        .describe(
          'The statement, with parameters in place of constants. At most 2,000 characters, fewer if most are control characters.',
        ),
      is_cut: z.boolean().describe('Whether the statement is longer than `text`. Such a text has no plan.'),
      calls: z.number().describe('How often it ran.'),
      total_ms: z.number().describe('The time of all its runs, in milliseconds.'),
      mean_ms: z.number().describe('The mean time of a run, in milliseconds.'),
      max_ms: z.number().describe('The longest time of a run, in milliseconds.'),
      share: z.number().describe('Its share of the time of all statements of the database, from 0 to 1.'),
      rows: z.number().describe('The rows that it returned or changed in total.'),
      blocks_hit: z.number().describe('Blocks that were in the memory of Postgres.'),
      blocks_read: z.number().describe('Blocks that were read from the operating system.'),
      temporary_blocks: z.number().describe('Blocks of temporary files that were read or written.'),
      wal_bytes: z.number().describe('The WAL that it wrote, in bytes.'),
    })
    .meta({
      description: 'The statistics of one statement of one role.',
      example: {
        id: '-5872134567890123456',
        role: 'app',
        text: 'SELECT * FROM orders WHERE customer = $1',
        is_cut: false,
        calls: 1200,
        total_ms: 5400.5,
        mean_ms: 4.5,
        max_ms: 80.25,
        share: 0.42,
        rows: 3600,
        blocks_hit: 9000,
        blocks_read: 12,
        temporary_blocks: 0,
        wal_bytes: 0,
      },
    }),
)

export const queriesShape = output(
  'QueryStatistics',
  z
    .strictObject({
      since: time.optional().describe('When Postgres began to count, if known.'),
      queries: z.array(statement).describe('The statements, ordered as requested.'),
    })
    .meta({
      description: 'The statements of a database with the most time, calls or rows.',
      example: { since: '2026-01-31T12:00:00Z', queries: [] },
    }),
)
