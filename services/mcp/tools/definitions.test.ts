/** What the tools and resources that tell of a database cost a model before any of them is called. */
import { encode } from 'gpt-tokenizer'
import { expect, test } from 'vitest'
import { createCatalogue } from '../catalogue/index.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { createCatalogue as createStatements } from '../database/catalogue.ts'
import { createEntries } from '../database/entries.ts'
import { prompts } from '../prompts/index.ts'
import { createResources } from '../resources/index.ts'
import { callContext } from '../testing/calls.ts'
import { adviseIndexes } from './advise-indexes.ts'
import { checkHealth } from './check-health.ts'
import { getSchemaInfo } from './get-schema-info.ts'
import { readResource } from './read-resource.ts'
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

test('the tools take at most 1,000 tokens to be listed', () => {
  expect(costOf(tools.map(({ definition }) => definition))).toBeLessThanOrEqual(1_000)
})

test('resources and prompts take at most 1,000 together', () => {
  const { caller } = callContext()
  const listed = [resources.list(caller), resources.templates(caller), prompts.map(({ definition }) => definition)]
  expect(listed.map(list => list.length)).toEqual([6, 4, 4])
  expect(costOf(listed)).toBeLessThanOrEqual(1_000)
})

test('all of them read only, need no more than the scope for it, and say so without a database', async () => {
  for (const tool of tools) {
    expect(tool.definition.annotations).toEqual({ readOnlyHint: true, openWorldHint: false })
    expect(tool.scopeOf({})).toBe('mcp:read')
    const outcome = await tool.call(
      tool.definition.name === 'read_resource' ? { uri: 'pg://schemas' } : {},
      callContext(),
    )
    expect(outcome).toMatchObject({ kind: 'result', result: { isError: true } })
    expect(JSON.stringify(outcome)).toContain('No database is open to this caller.')
  }
})
