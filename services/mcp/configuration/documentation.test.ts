import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ConfigurationError } from '../../configuration/errors.ts'
import { readMcpSettings } from './index.ts'

/** Other parts of the page are about other files. */
const [text = ''] = /^## Configuration\n[\s\S]*?(?=^## )/m.exec(readFileSync('docs/mcp.md', 'utf8')) ?? []
/** In the tables of keys: the first cell, and the variables of the second. */
const rows = [...text.matchAll(/^\| (`[^|]*) \| ([^|]*) \|/gm)].map(([, keys = '', places = '']) => ({
  keys: [...keys.matchAll(/`([^`]+)`/g)].map(([, key = '']) => key),
  variables: [...places.matchAll(/`([A-Z][A-Z_<>]*)`/g)].map(([, variable = '']) => variable),
}))
const general = rows.filter(
  ({ keys: [key = ''] }) =>
    key.includes('.') || ['data_dir', 'secret', 'log_level', 'custom_definitions_path'].includes(key),
)
const ofDatabases = rows.filter(row => !general.includes(row) && row.variables.length > 0)

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

/** No kind of value takes it. */
const wrong = '\u0000'
const nested = (key: string) => key.split('.').reduceRight((inner, part) => `{${part}: ${inner}}`, '"\\0"')

test('every key that is documented is there', () => {
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

test('every variable that is documented is read', () => {
  const unread = ['LLM_OPENAI_API_KEY', 'EMBEDDING_OPENAI_API_KEY', 'DB_PASSWORD']
  const variables = [
    ...general.flatMap(row => row.variables).map(example),
    ...ofDatabases.flatMap(row => row.variables).map(variable => `DB_${variable}`),
  ]
  expect(variables.length).toBeGreaterThan(50)
  for (const variable of variables) {
    // Of a secret without a rule every text is right.
    if (unread.includes(variable)) continue
    expect(problems('', { [`ESPALIER_${variable}`]: wrong })).toContain(`environment, ESPALIER_${variable}`)
  }
})

test('every key that is taken is documented', () => {
  const source = ['index', 'http', 'providers', 'databases'].map(name =>
    readFileSync(`services/mcp/configuration/${name}.ts`, 'utf8'),
  )
  const taken = source.flatMap(one => [...one.matchAll(/take\(\s*'([a-z][a-z_.]*)'/g)].map(([, key = '']) => key))
  const documented = rows.flatMap(row => row.keys)
  expect(taken.length).toBeGreaterThan(15)
  expect(taken.filter(key => !documented.includes(key))).toEqual([])
})

test('the example is right', () => {
  const [, block = ''] = /its place and its rule\.\n\n((?: {4}.*\n)+)/.exec(text) ?? []
  expect(block).toContain('databases:')
  expect(problems(block.replace('password_file: /run/secrets/sales', 'password: x').replaceAll(/^ {4}/gm, ''))).toBe('')
})
