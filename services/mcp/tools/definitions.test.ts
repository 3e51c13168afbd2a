/** The tools as clients see them: each schema as released, and the number of tokens of the list. */
import { readFileSync } from 'node:fs'
import { encode } from 'gpt-tokenizer'
import { expect, test } from 'vitest'
import { createCatalogue } from '../catalogue/index.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { createCatalogue as createStatements } from '../database/catalogue.ts'
import { createEntries } from '../database/entries.ts'
import { createDatabaseAccess } from '../database/index.ts'
import { prompts } from '../prompts/index.ts'
import { createResources } from '../resources/index.ts'
import { callContext, databaseOf } from '../testing/calls.ts'
import { adviseIndexes } from './advise-indexes.ts'
import { authenticateUser } from './authenticate-user.ts'
import { checkHealth } from './check-health.ts'
import { createConfirmations } from './confirmation.ts'
import { countRows } from './count-rows.ts'
import { createCursors } from './cursor.ts'
import { executeExplain } from './execute-explain.ts'
import { generateEmbedding } from './generate-embedding.ts'
import { getSchemaInfo } from './get-schema-info.ts'
import { queryDatabase } from './query-database.ts'
import { readResource } from './read-resource.ts'
import { searchKnowledgebase } from './search-knowledgebase.ts'
import { similaritySearch } from './similarity-search.ts'
import { topQueries } from './top-queries.ts'

const access: DatabaseAccess = { read: () => Promise.reject(new Error('nothing is read to be listed')) }
const entries = createEntries(() => [])
const catalogue = createCatalogue(access, Date.now)
const limits = { resultTokens: 10_000, resultBytes: 1, requestBytes: 1 }
const resources = createResources({ entries, access, catalogue, settings: { limits, disabled: new Set() } })
const tools = [
  getSchemaInfo({ entries, access, catalogue, limits }),
  readResource({ resources: [resources], limits }),
  checkHealth({ entries, access, limits }),
  topQueries({ entries, access, limits }),
  adviseIndexes({ entries, access, catalogue, statements: createStatements(access, () => {}), limits }),
]
const costOf = (value: unknown) => encode(JSON.stringify(value)).length

test('lists every tool as released, key by key', () => {
  const databases = createDatabaseAccess({ maximumBytes: 1, audit: () => {}, warn: () => {} })
  const parts = { entries, databases, catalogue, limits }
  const key = new Uint8Array(32)
  const query = (more: typeof parts) =>
    queryDatabase(more, createConfirmations(key, Date.now), createCursors(key, Date.now))
  const writable = createEntries(() => [databaseOf({ port: 1 }, { allowWrites: true })])
  const all = [
    query(parts),
    query({ ...parts, entries: writable }),
    executeExplain(parts),
    countRows(parts),
    similaritySearch({ entries, access, embedder: undefined, limits }),
    generateEmbedding(undefined, limits),
    searchKnowledgebase(undefined, limits),
    authenticateUser({ login: async () => ({ kind: 'refused' }) }),
    ...tools,
  ]
  const released: unknown = JSON.parse(readFileSync(new URL('./testing/definitions.json', import.meta.url), 'utf8'))
  expect(JSON.parse(JSON.stringify(all.map(({ definition }) => definition)))).toEqual(released)
})

test('the list of tools has at most 1,000 tokens', () => {
  expect(costOf(tools.map(({ definition }) => definition))).toBeLessThanOrEqual(1_000)
})

test('resources and prompts have at most 1,000 tokens together', () => {
  const { caller } = callContext()
  const listed = [resources.list(caller), resources.templates(caller), prompts.map(({ definition }) => definition)]
  expect(listed.map(list => list.length)).toEqual([6, 4, 4])
  expect(costOf(listed)).toBeLessThanOrEqual(1_000)
})

test('tools that run no statements need only mcp:read, and report that no database is available', async () => {
  for (const tool of tools) {
    expect(tool.definition.annotations).toEqual({ readOnlyHint: true, openWorldHint: false })
    expect(tool.scopeOf({})).toBe('mcp:read')
    const outcome = await tool.call(
      tool.definition.name === 'read_resource' ? { uri: 'pg://schemas' } : {},
      callContext(),
    )
    expect(outcome).toMatchObject({ kind: 'result', result: { isError: true } })
    expect(JSON.stringify(outcome)).toContain('No database is available to this caller.')
  }
})
