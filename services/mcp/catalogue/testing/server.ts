/** Starts a Postgres for one test file, and the catalogue reader with the server's own setup. */
import { startPostgres, type TestPostgres } from '../../../testing/postgres.ts'
import type { DatabaseSettings, McpSettings } from '../../configuration/types.ts'
import type { Outcome } from '../../core/call.ts'
import type { ToolResult } from '../../core/tool.ts'
import { createEntries, type DatabaseEntries } from '../../database/entries.ts'
import { createDatabaseAccess, type Databases } from '../../database/index.ts'
import { databaseOf } from '../../testing/calls.ts'
import { type Catalogue, createCatalogue } from '../index.ts'

export type CatalogueTest = {
  readonly postgres: TestPostgres
  readonly access: Databases
  readonly catalogue: Catalogue
  readonly limits: McpSettings['limits']
  database(changed?: Partial<DatabaseSettings>): DatabaseSettings
  entries(changed?: Partial<DatabaseSettings>): DatabaseEntries
  stop(): Promise<void>
}

/** Enough bytes for catalogues of ten thousand tables. */
const maximumBytes = 16_000_000

export const startCatalogueTest = async (
  settings: Record<string, string> = {},
  now: () => number = Date.now,
): Promise<CatalogueTest> => catalogueTestOf(await startPostgres('18', settings), now)

/** The catalogue reader stops together with its Postgres. */
export function catalogueTestOf(postgres: TestPostgres, now: () => number = Date.now): CatalogueTest {
  const access = createDatabaseAccess({ maximumBytes, audit: () => {}, warn: () => {} })
  const database = (changed: Partial<DatabaseSettings> = {}) => databaseOf(postgres, changed)
  return {
    postgres,
    access,
    catalogue: createCatalogue(access, now),
    limits: { resultTokens: 10_000, resultBytes: 16_000_000, requestBytes: 10_000_000 },
    database,
    entries: (changed = {}) => createEntries(() => [database(changed)]),
    async stop() {
      access.close()
      await postgres.stop()
    },
  }
}

/** All text of a tool result, and whether it is an error. */
export function answerOf(outcome: Outcome<ToolResult>): { text: string; isError: boolean } {
  if (outcome.kind !== 'result') throw new Error(`the tool asks for ${Object.keys(outcome.requests).join(', ')}`)
  const { content, isError = false } = outcome.result
  return { text: content.map(one => (one.type === 'text' ? one.text : '')).join('\n'), isError }
}
