import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { keysOf } from '../../configuration/declaration.ts'
import { ConfigurationError } from '../../configuration/errors.ts'
import { databases } from './databases.ts'
import { readMcpSettings, variablesOf } from './index.ts'
import { keys } from './keys.ts'

/** Other sections of the page document other files. */
const [text = ''] = /^## Configuration\n[\s\S]*?(?=^## )/m.exec(readFileSync('docs/mcp.md', 'utf8')) ?? []
/** The rows of the tables of keys: the first cell, the second cell with its variables, and the default. */
const rows = [...text.matchAll(/^\| (`[^|]*) \| ([^|]*) \|([^|]*)\|/gm)].map(
  ([, keys = '', sources = '', initial = '']) => ({
    keys: [...keys.matchAll(/`([^`]+)`/g)].map(([, key = '']) => key),
    places: sources,
    default: initial.trim(),
    variables: [...sources.matchAll(/`([A-Z][A-Z_<>]*)`/g)].map(([, variable = '']) => variable),
  }),
)
const general = rows.filter(
  ({ keys: [key = ''] }) =>
    key.includes('.') || ['data_dir', 'secret', 'log_level', 'custom_definitions_path'].includes(key),
)
const ofDatabases = rows.filter(row => !general.includes(row) && row.variables.length > 0)

/** The variable as the tables of databases write it: without its prefix. */
const variableOf = (variables: readonly string[]) => (variables.at(-1) ?? '').replace(/^DB_/, '')
const concrete = (name: string) => name.replaceAll('<provider>', 'openai').replaceAll('<PROVIDER>', 'OPENAI')
const example = (name: string) => concrete(name).replace('<name>', 'query_database').replace('<NAME>', 'QUERY_DATABASE')

function problems(file: string, environment: Record<string, string> = {}): string {
  try {
    readMcpSettings({
      file: { path: 'file', text: file },
      environment: { PGHOST: 'x', ...environment },
      flags: new Map(),
      readFile: () => '',
    })
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message
    throw error
  }
  return ''
}

/** A value that no type accepts. */
const wrong = '\u0000'
const nested = (key: string) => key.split('.').reduceRight((inner, part) => `{${part}: ${inner}}`, '"\\0"')

test('every documented key exists', () => {
  const keys = general
    .flatMap(row => row.keys)
    .filter(key => !key.endsWith('...'))
    .map(example)
  expect(keys.length).toBeGreaterThan(35)
  for (const key of keys) expect(problems(nested(key))).not.toContain('is not a key')
  const columns = ofDatabases.flatMap(row => row.keys)
  expect(columns.length).toBeGreaterThan(15)
  for (const column of columns) expect(problems(`databases: [{${column}: "\\0"}]`)).not.toContain('is not a key')
})

test('every documented variable is read', () => {
  const unread = ['LLM_OPENAI_API_KEY', 'EMBEDDING_OPENAI_API_KEY', 'DB_PASSWORD']
  const variables = [
    ...general.flatMap(row => row.variables).map(example),
    ...ofDatabases.flatMap(row => row.variables).map(variable => `DB_${variable}`),
  ]
  expect(variables.length).toBeGreaterThan(50)
  for (const variable of variables) {
    // A secret without a rule accepts any text.
    if (unread.includes(variable)) continue
    expect(problems('', { [`ESPALIER_${variable}`]: wrong })).toContain(`environment, ESPALIER_${variable}`)
  }
})

test('every key is documented with its variable, its flag and its default', () => {
  const ofFirst = keysOf(databases.keys(0)).map(({ name, key }) => ({ name, key, path: `databases[0].${name}` }))
  const all = [...keysOf(keys).map(({ name, key }) => ({ name, key, path: name })), ...ofFirst]
  for (const { name, key, path } of all) {
    const { flag, isFlagOnly, variables = variablesOf(path) } = key.extras
    if (isFlagOnly) {
      expect(text).toContain(`\`-${flag}\``)
      continue
    }
    const documented = name.startsWith('knowledgebase.embedding_')
      ? 'knowledgebase.embedding_...'
      : name.replace(/\.(voyage|openai|anthropic|gemini)_/, '.<provider>_')
    const [row, ...more] = rows.filter(one => one.keys.includes(documented))
    expect([name, row?.keys.length, more]).toEqual([name, expect.any(Number), []])
    if (documented === name)
      expect([name, row?.variables]).toEqual([name, expect.arrayContaining([variableOf(variables)])])
    if (flag !== undefined) expect([name, row?.places]).toEqual([name, expect.stringContaining(`\`-${flag}\``)])
    if (key.default !== undefined && key.default !== '' && documented === name)
      expect([name, row?.default]).toEqual([name, `\`${key.default}\``])
  }
  const names = [...all.map(({ name }) => name), 'knowledgebase.embedding_...']
  const isDeclared = (key: string) => /^builtins\./.test(key) || names.includes(key.replace('<provider>', 'openai'))
  expect(rows.flatMap(row => row.keys).filter(key => !isDeclared(key) && !/^[A-Z]/.test(key))).toEqual([])
})

test('the example is valid', () => {
  const [, block = ''] = /its place and its rule\.\n\n((?: {4}.*\n)+)/.exec(text) ?? []
  expect(block).toContain('databases:')
  expect(problems(block.replace('password_file: /run/secrets/sales', 'password: x').replaceAll(/^ {4}/gm, ''))).toBe('')
})
