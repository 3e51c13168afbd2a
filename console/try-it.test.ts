import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { tryCommand, tryRequest } from './src/lib/try-it.ts'

/** The words that a shell gives to curl. */
function wordsOf(command: string | undefined): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const { stdout, status } = spawnSync('sh', ['-c', script], {
    encoding: 'utf8',
    env: { ESPALIER_MCP_TOKEN: 'a-token', ESPALIER_RAG_TOKEN: 'b-token', ESPALIER_REST_TOKEN: 'c-token' },
  })
  expect(status).toBe(0)
  return stdout.split('\0').slice(0, -1)
}
const hostile = `it's $(exit 3) "; \`id\` \\ #?&`

test('a request to REST has its path, query and body as they were entered', () => {
  const given = {
    method: 'PATCH',
    path: `/a b/${hostile}`,
    query: '?id=eq.1&name=like.*ä*',
    body: '{"a":\n "it\'s"}',
    token: '',
  }
  const words = wordsOf(tryCommand('rest', 'https://x/rest', { ...given, method: 'PATCH' }))
  const url = `https://x/rest/a%20b/${encodeURIComponent(hostile)}?id=eq.1&name=like.*%C3%A4*`
  expect(words).toEqual(['-s', '-g', '-X', 'PATCH', url, '-H', 'Content-Type: application/json', '-d', `{"a":"it's"}`])
  const read = { method: 'GET', path: 't', query: '', body: 'no JSON', token: '' } as const
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
  const read = { method: 'GET', path: '\ud800', query: '\ud800', body: '', token: '' } as const
  expect(tryCommand('rest', 'https://x', read)).toContain('https://x/%EF%BF%BD?%EF%BF%BD')
})

test('what must be JSON and is not gives no command', () => {
  expect(tryCommand('rest', '', { method: 'POST', path: 't', query: '', body: '{', token: '' })).toBeUndefined()
  expect(tryRequest('rest', { method: 'POST', path: 't', query: '', body: '{', token: '' })).toBeUndefined()
  for (const text of ['{', '[]', '1', 'null', '"{}"']) {
    expect(tryCommand('mcp', '', { tool: 't', arguments: text })).toBeUndefined()
    expect(tryRequest('mcp', { tool: 't', arguments: text })).toBeUndefined()
  }
})

test('a JWT is sent by the API, and read from the environment by the command', () => {
  const given = { method: 'GET', path: 't', query: '', body: '', token: 'x.y.z' } as const
  expect(wordsOf(tryCommand('rest', 'https://x', given))).toContain('Authorization: Bearer c-token')
  expect(tryRequest('rest', given)?.body).toEqual({ method: 'GET', path: 't', query: '', token: 'x.y.z' })
})

test('the API gets the same request as the command, with the digits of numbers', () => {
  const given = { path: `/a b/${hostile}`, query: '?id=eq.1&name=like.*ä*', token: '' }
  const body = ' {"id": 12345678901234567890,\n"a": 1.0}'
  const encoded = { path: `a%20b/${encodeURIComponent(hostile)}`, query: 'id=eq.1&name=like.*%C3%A4*' }
  const write = { ...given, method: 'POST', body } as const
  const sent = '{"id":12345678901234567890,"a":1.0}'
  expect(tryRequest('rest', write)).toEqual({ type: 'rest', body: { method: 'POST', ...encoded, body: sent } })
  expect(wordsOf(tryCommand('rest', '', write)).at(-1)).toBe(sent)
  expect(tryRequest('rest', { ...write, method: 'DELETE' })?.body).toEqual({ method: 'DELETE', ...encoded })
  expect(tryRequest('mcp', { tool: ' t ', arguments: ' ' })?.body).toEqual({ tool: 't', arguments: {} })
  expect(tryRequest('rag', { pipeline: 'docs', question: 'Why?' })?.body).toEqual({ pipeline: 'docs', query: 'Why?' })
})
