/** The import of a new database from another Postgres: the fields of the spec and of the status. */
import { z } from 'zod'
import { timestamp } from './fields.ts'

/** The component label of a source Secret that the API created. A user's own Secret does not have it. */
export const importSourceComponent = 'import-source'
/** The Secret key of the URI. */
export const importSourceField = 'uri'

export const importSpec = z.strictObject({
  secretName: z
    .string()
    .min(1)
    .max(253)
    .describe(
      'The name of a Secret in the same namespace. Its key `uri` is the source: `postgresql://user:password@host:port/database`.',
    ),
})

const count = z.int().min(0).meta({ format: 'int64' })

export const importPhases = ['pending', 'running', 'waiting', 'completed', 'failed'] as const

export const importStatus = z.strictObject({
  phase: z
    .enum(importPhases)
    .describe(
      '`pending`: not started. `running`: an attempt runs. `waiting`: an attempt failed, and the next one starts at `retryAt`. `completed`, `failed`: ended.',
    ),
  attempt: z.int().min(0).describe('The number of the attempt. Each attempt starts with an empty database.'),
  startedAt: timestamp.describe('When the attempt started.'),
  progressedAt: timestamp.optional().describe('When the attempt last made progress, or ended.'),
  retryAt: timestamp.optional().describe('When the next attempt starts.'),
  finishedAt: timestamp.optional().describe('When the import ended.'),
  step: z
    .string()
    .max(20)
    .optional()
    .describe('The current step of the attempt: checking, schema, data, counting or indexes.'),
  beat: count.optional().describe('A number that changes whenever the attempt makes progress.'),
  tablesDone: count.optional().describe('How many tables the step has completed.'),
  tables: count.optional().describe('The total number of tables.'),
  bytesDone: count.optional().describe('How many bytes were copied, in text form.'),
  bytes: count
    .optional()
    .describe('The size of the tables in bytes: on the source, and after the import in this database.'),
  rows: count.optional().describe('The number of rows in all tables, counted on both sides.'),
  sourceVersion: z.string().max(100).optional().describe('The Postgres version of the source.'),
  leftOut: z.array(z.string().max(100)).max(20).optional().describe('What was not imported, such as event triggers.'),
  reason: z.string().max(63).optional().describe('Why the last attempt failed, in one word.'),
  message: z.string().max(1000).optional().describe('Why the last attempt failed.'),
})
export type ImportStatus = z.output<typeof importStatus>
