import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { tryCommand } from './src/lib/try-it.ts'

/** The words that a shell gives to curl. */
function wordsOf(command: string | undefined): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const { stdout, status } = spawnSync('sh', ['-c', script], {
    encoding: 'utf8',
    env: { ESPALIER_MCP_TOKEN: 'a-token', ESPALIER_RAG_TOKEN: 'b-token' },
  })
  expect(status).toBe(0)
  return stdout.split('\0').slice(0, -1)
}
const hostile = `it's $(exit 3) "; \`id\` \\ #?&`

test('a request to REST has its path, query and body as they were entered', () => {
  const given = { method: 'PATCH', path: `/a b/${hostile}`, query: '?id=eq.1&name=like.*ä*', body: '{"a":\n "it\'s"}' }
  const words = wordsOf(tryCommand('rest', 'https://x/rest', { ...given, method: 'PATCH' }))
  const url = `https://x/rest/a%20b/${encodeURIComponent(hostile)}?id=eq.1&name=like.*%C3%A4*`
  expect(words).toEqual(['-s', '-g', '-X', 'PATCH', url, '-H', 'Content-Type: application/json', '-d', `{"a":"it's"}`])
  const read = { method: 'GET', path: 't', query: '', body: 'no JSON' } as const
  expect(wordsOf(tryCommand('rest', 'https://x', read))).toEqual(['-s', '-g', 'https://x/t'])
})

test('a call of a tool has its arguments, and the token of the environment', () => {
  const words = wordsOf(tryCommand('mcp', 'https://x/mcp', { tool: 'query', arguments: JSON.stringify({ hostile }) }))
  expect(words).toContain('Authorization: Bearer a-token')
  expect(JSON.parse(words.at(-1) ?? '')).toMatchObject({ params: { name: 'query', arguments: { hostile } } })
})

test('a question has its text, and asks for the sources', () => {
  const words = wordsOf(tryCommand('rag', 'https://x/rag', { pipeline: 'a/b', question: hostile }))
  expect(words.slice(0, 4)).toEqual(['-s', 'https://x/rag/v1/pipelines/a%2Fb', '-H', 'Authorization: Bearer b-token'])
  expect(JSON.parse(words.at(-1) ?? '')).toEqual({ query: hostile, include_sources: true })
})

test('half of a character does not fail', () => {
  const read = { method: 'GET', path: '\ud800', query: '\ud800', body: '' } as const
  expect(tryCommand('rest', 'https://x', read)).toContain('https://x/%EF%BF%BD?%EF%BF%BD')
})

test('what must be JSON and is not gives no command', () => {
  expect(tryCommand('rest', '', { method: 'POST', path: 't', query: '', body: '{' })).toBeUndefined()
  expect(tryCommand('mcp', '', { tool: 't', arguments: '{' })).toBeUndefined()
})
