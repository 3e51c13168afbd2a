/** The tables of keys in docs/rag.md match the declaration. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type Declaration, keysOf } from '../../configuration/declaration.ts'
import { settingsOf } from '../testing/settings.ts'
import { database, keys, pipeline, table } from './keys.ts'

const text = readFileSync('docs/rag.md', 'utf8')
const codesIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

/**
 * The documented defaults by key. If a name begins with a dot, it belongs to the same table as the first key in its
 * row.
 */
function documented(header: string): ReadonlyMap<string, string> {
  const [, after = ''] = text.split(`| ${header} | default | meaning |\n|---|---|---|\n`)
  const rows = [...(after.split('\n\n')[0] ?? '').matchAll(/^\| (.*?) \|(.*?)\|(.*)\|$/gm)]
  return new Map(
    rows.flatMap(([, names = '', initial = '']) => {
      const [first = '', ...others] = codesIn(names)
      const prefix = first.slice(0, first.lastIndexOf('.'))
      const all = [first, ...others.map(name => (name.startsWith('.') ? prefix + name : name))]
      return all.map((name): [string, string] => [name, initial.trim().replaceAll('`', '')])
    }),
  )
}

test.each<[string, Declaration, readonly string[]]>([
  ['key', keys, ['pipelines', 'defaults.embedding_llm', 'defaults.rag_llm', 'defaults.api_keys']],
  ['key of a pipeline', pipeline, ['database', 'tables', 'api_keys', 'embedding_llm', 'rag_llm']],
  ['key of a database', database, []],
  ['key of a table', table, []],
  ['key of a model', keys.defaults.embedding_llm, []],
])('every %s is documented with its default', (header, declaration, tables) => {
  const rows = documented(header)
  // A key with its own section has a row for its table.
  const declared = keysOf(declaration).filter(({ name }) => !tables.some(one => name.startsWith(`${one}.`)))
  for (const { name, key } of declared) {
    const initial = rows.get(name)
    expect([name, initial]).toEqual([name, expect.any(String)])
    if (key.default !== undefined && key.default !== '')
      expect([name, initial]).toEqual([name, expect.stringContaining(String(key.default))])
  }
  const names = [...keysOf(declaration).map(({ name }) => name), ...tables]
  expect([...rows.keys()].filter(name => !names.includes(name))).toEqual([])
})

test('the example is valid', () => {
  const [, block = ''] = /## Start\n\n((?: {4}.*\n)+)/.exec(text) ?? []
  expect(settingsOf(block.replaceAll(/^ {4}/gm, '')).pipelines).toHaveLength(1)
})
