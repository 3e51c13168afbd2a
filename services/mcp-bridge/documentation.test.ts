/** The key tables in docs/mcp.md match the bridge's declaration. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { keysOf } from '../configuration/declaration.ts'
import { keys } from './configuration.ts'
import { usualRedirectUris } from './oauth/redirect.ts'

const [text = ''] = /^### Keys\n[\s\S]*/m.exec(readFileSync('docs/mcp.md', 'utf8')) ?? []
const codesIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

type Documented = { readonly initial: string; readonly meaning: string }

/**
 * The documented keys and defaults. If a name begins with a dot, it belongs to the same table as the first key in its
 * row.
 */
function documented(header: string, prefix: string): [string, Documented][] {
  const [, after = ''] = text.split(`${header}\n|---|---|---|\n`)
  return [...(after.split('\n\n')[0] ?? '').matchAll(/^\| (.*?) \|(.*?)\|(.*)\|$/gm)].flatMap(
    ([, names = '', defaults = '', meaning = '']) => {
      const [first = '', ...others] = codesIn(names)
      const table = first.slice(0, first.lastIndexOf('.'))
      const initials = defaults.trim().replaceAll('`', '').split(', ')
      return [first, ...others.map(name => (name.startsWith('.') ? table + name : name))].map(
        (name, at): [string, Documented] => [prefix + name, { initial: initials[at] ?? '', meaning }],
      )
    },
  )
}

const rows = new Map([
  ...documented('| key | default | meaning |', ''),
  ...documented('| key of `oauth_server` | default | meaning |', 'oauth_server.'),
])
/** Tables whose keys are documented in the table's own row. */
const tables = ['builtin.branding', 'builtin.users', 'clients', 'federated'].map(name => `oauth_server.${name}`)
const tableOf = (name: string) => tables.find(table => name.startsWith(`${table}.`))

test('every key of the bridge is documented with its default', () => {
  const declared = keysOf(keys).filter(({ name }) => name !== 'oauth_server.enabled')
  for (const { name, key } of declared) {
    const table = tableOf(name)
    if (table !== undefined) {
      expect(codesIn(rows.get(table)?.meaning ?? '')).toContain(name.slice(table.length + 1))
      continue
    }
    const initial = name === 'oauth_server.allowed_redirect_uris' ? undefined : key.default
    expect([name, rows.get(name)?.initial]).toEqual([
      name,
      initial === undefined ? expect.any(String) : String(initial),
    ])
  }
  const names = [...declared.map(({ name }) => name), ...tables]
  expect([...rows.keys()].filter(name => !names.includes(name))).toEqual([])
})

test('the documented redirects are the defaults', () => {
  const [, list = ''] = /\nallowed_redirect_uris:\n((?: {2}- .*\n)+)/.exec(text) ?? []
  expect([...list.matchAll(/- (.*)/g)].map(([, uri]) => uri)).toEqual(usualRedirectUris)
})
