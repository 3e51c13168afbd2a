/** The tools that a configuration lists, and their total number of tokens. */
import { encode } from 'gpt-tokenizer'
import { expect, test } from 'vitest'
import { createCatalogue } from '../catalogue/index.ts'
import type { EmbeddingSettings, McpSettings } from '../configuration/types.ts'
import { createEntries } from '../database/entries.ts'
import { createDatabaseAccess } from '../database/index.ts'
import { databaseOf } from '../testing/calls.ts'
import { createTools } from './index.ts'

const embedding: EmbeddingSettings = {
  provider: 'ollama',
  model: 'm',
  apiKey: undefined,
  baseUrl: undefined,
  timeoutMs: 1_000,
}
const bare: McpSettings = {
  http: undefined,
  databases: [],
  embedding: undefined,
  llm: [],
  knowledgebase: undefined,
  dataDirectory: '',
  disabled: new Set(),
  limits: { resultTokens: 10_000, resultBytes: 1_000_000, requestBytes: 1_000_000 },
  sealingKey: new Uint8Array(32),
  logLevel: 'silent',
  auditStatements: 'reads',
}

function toolsOf(changed: Partial<McpSettings>) {
  const databases = createDatabaseAccess({ maximumBytes: 1_000, audit: () => {}, warn: () => {} })
  const catalogue = createCatalogue(databases, Date.now)
  const settings = { ...bare, ...changed }
  const entries = createEntries(() => settings.databases)
  return createTools({
    settings,
    entries,
    databases,
    catalogue,
    resources: [],
    logins: undefined,
    now: Date.now,
  })
}
const listed = (changed: Partial<McpSettings>) =>
  toolsOf(changed).flatMap(({ isHidden, definition }) => (isHidden ? [] : [definition]))
const semantic = ['similarity_search', 'generate_embedding', 'search_knowledgebase']
const semanticOf = (changed: Partial<McpSettings>) =>
  listed(changed).flatMap(({ name }) => (semantic.includes(name) ? [name] : []))

test('tools that need a model are listed if a model is configured, and can always be called', () => {
  expect(semanticOf({})).toEqual([])
  expect(semanticOf({ embedding })).toEqual(['similarity_search', 'generate_embedding'])
  expect(semanticOf({ knowledgebase: { path: '/nowhere.db', embedding } })).toEqual(['search_knowledgebase'])
  expect(toolsOf({}).map(({ definition }) => definition.name)).toEqual(expect.arrayContaining(semantic))
})

test('all tools together have at most 4,000 tokens', () => {
  const all = listed({
    embedding,
    knowledgebase: { path: '/nowhere.db', embedding },
    databases: [databaseOf({ port: 5432 }, { allowWrites: true })],
  })
  expect(all.length).toBeGreaterThan(9)
  expect(encode(JSON.stringify(all)).length).toBeLessThanOrEqual(4_000)
})
