import { expect, test } from 'vitest'
import { checkFilterTexts } from './filter-text.ts'

test('names every filter that is not exactly one condition', async () => {
  const text = 'a = 1 LIMIT 1'
  const table = { schema: undefined, name: 'docs', textColumn: 'c', vectorColumn: 'v', idColumn: 'id' }
  const tables = [{ ...table, filter: { kind: 'sql' as const, text } }]
  const all = checkFilterTexts([{ tables: [] }, { tables: [...tables, ...tables] }])
  await expect(all).rejects.toThrow(/^pipelines\[1\]\.tables\[0\]\.filter .*\npipelines\[1\]\.tables\[1\]\.filter /s)
})
