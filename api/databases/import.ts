/**
 * `source` of a new database: another Postgres to import from. Its URI is a secret: no response, Task or resource
 * contains it.
 */
import { z } from 'zod'
import { type ImportStatus, importPhases, importSourceName } from '../../crds/index.ts'
import { longestSourceUri, parseSourceUri } from '../../values/source-uri.ts'
import { badRequest } from '../errors.ts'
import { time } from '../schemas/common.ts'

export const sourceInput = z
  .strictObject({
    uri: z
      .string()
      .min(1)
      .max(longestSourceUri)
      .meta({ writeOnly: true, pattern: '^postgres(ql)?://' })
      .describe(
        'The URI of the source: `postgresql://user:password@host:port/database?sslmode=require`. `sslmode`: `disable`, `require` (the default), `verify-ca` or `verify-full`. The role must be able to read everything.',
      ),
  })
  .describe(
    'Another Postgres to import data from: version 10 or later, at most the version of the database. The database is `available` once all data are imported. Cannot be combined with `source_backup_id`. See docs/import.md.',
  )

const count = z.int().meta({ format: 'int64' })

export const importShape = z
  .strictObject({
    status: z
      .enum(importPhases)
      .describe(
        '`pending`; `running`; `waiting`: an attempt failed, and another one follows; `completed`; `failed`: create the database again.',
      ),
    attempt: z.int().describe('The number of the attempt. Each attempt starts with an empty database.'),
    started_at: time.describe('When the attempt started.'),
    finished_at: time.optional().describe('When the import ended.'),
    step: z.string().optional().describe('The step of the attempt: checking, schema, data, counting or indexes.'),
    tables_done: count.optional().describe('The number of tables that the step has completed.'),
    tables: count.optional().describe('The total number of tables.'),
    bytes_done: count.optional().describe("The number of bytes copied, in COPY's text format."),
    bytes: count
      .optional()
      .describe('The size of the tables in bytes: on the source, and on this database after the import.'),
    rows: count.optional().describe('The rows of all tables. They were counted on both sides and are equal.'),
    source_version: z.string().optional().describe('The Postgres version of the source.'),
    left_out: z.array(z.string()).optional().describe('Objects that were not imported, such as event triggers.'),
    error: z.string().optional().describe('Why the last attempt failed.'),
  })
  .describe('The import of the database from another Postgres, if it was created with a `source`.')

export const renderImport = (status: ImportStatus): z.output<typeof importShape> => {
  const { phase, attempt, startedAt, finishedAt, step, tablesDone, tables, bytesDone, bytes, rows } = status
  const { sourceVersion, leftOut, reason, message } = status
  const fields = {
    ...{ finished_at: finishedAt, step, tables_done: tablesDone, tables, bytes_done: bytesDone, bytes, rows },
    ...{ source_version: sourceVersion, left_out: leftOut, error: reason && `${reason}: ${message}` },
  }
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
  return { status: phase, attempt, started_at: startedAt, ...present }
}

/** Returns the times of the import's changes, for `updated_at`. */
export const timesOfImport = (status: ImportStatus | undefined): (string | undefined)[] => [
  status?.startedAt,
  status?.progressedAt,
  status?.finishedAt,
]

type CreateInput = { source?: { uri: string } | undefined; source_backup_id?: string | undefined }

export type NewImport = { secretName: string; uri: string }

/** @throws ApiError 400 with the field and the rule, but no part of the URI */
export function importOfNew({ source, source_backup_id: backup }: CreateInput, id: string): NewImport | undefined {
  if (source === undefined) return undefined
  if (backup !== undefined) throw badRequest('source: cannot be combined with source_backup_id')
  try {
    parseSourceUri(source.uri)
  } catch (error) {
    throw badRequest(`source.uri: ${error instanceof Error ? error.message : 'must be a Postgres URI'}`)
  }
  return { secretName: importSourceName(id), uri: source.uri }
}
