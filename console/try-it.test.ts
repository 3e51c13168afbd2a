import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { tryCommand, tryRequest } from './src/lib/try-it.ts'

/** Returns the arguments that a shell passes to curl. */
function curlArguments(command: string | undefined): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const { stdout, status } = spawnSync('sh', ['-c', script], {
    encoding: 'utf8',
    env: { ESPALIER_MCP_TOKEN: 'a-token', ESPALIER_RAG_TOKEN: 'b-token', ESPALIER_REST_TOKEN: 'c-token' },
  })
  expect(status).toBe(0)
  return stdout.split('\0').slice(0, -1)
}
const hostile = `it's $(exit 3) "; \`id\` \\ #?&`

test('a REST command contains the entered path, query and body', () => {
  const entered = {
    method: 'PATCH',
    path: `/a b/${hostile}`,
    query: '?id=eq.1&name=like.*ä*',
    body: '{"a":\n "it\'s"}',
    token: '',
  }
  const args = curlArguments(tryCommand('rest', 'https://x/rest', { ...entered, method: 'PATCH' }))
  const url = `https://x/rest/a%20b/${encodeURIComponent(hostile)}?id=eq.1&name=like.*%C3%A4*`
  expect(args).toEqual(['-s', '-g', '-X', 'PATCH', url, '-H', 'Content-Type: application/json', '-d', `{"a":"it's"}`])
  const read = { method: 'GET', path: 't', query: '', body: 'no JSON', token: '' } as const
  expect(curlArguments(tryCommand('rest', 'https://x', read))).toEqual(['-s', '-g', 'https://x/t'])
})

test('a tool command contains the arguments, and the token from the environment', () => {
  const args = curlArguments(
    tryCommand('mcp', 'https://x/mcp', { tool: 'query', arguments: JSON.stringify({ hostile }) }),
  )
  expect(args).toContain('Authorization: Bearer a-token')
  expect(JSON.parse(args.at(-1) ?? '')).toMatchObject({ params: { name: 'query', arguments: { hostile } } })
})

test('a question command contains the question, and requests the sources', () => {
  const args = curlArguments(tryCommand('rag', 'https://x/rag', { pipeline: 'a/b', question: hostile }))
  expect(args.slice(0, 4)).toEqual(['-s', 'https://x/rag/v1/pipelines/a%2Fb', '-H', 'Authorization: Bearer b-token'])
  expect(JSON.parse(args.at(-1) ?? '')).toEqual({ query: hostile, include_sources: true })
})

test('an unpaired surrogate becomes U+FFFD', () => {
  const read = { method: 'GET', path: '\ud800', query: '\ud800', body: '', token: '' } as const
  expect(tryCommand('rest', 'https://x', read)).toContain('https://x/%EF%BF%BD?%EF%BF%BD')
})

test('invalid JSON, or tool arguments that are not an object, give no command and no request', () => {
  expect(tryCommand('rest', '', { method: 'POST', path: 't', query: '', body: '{', token: '' })).toBeUndefined()
  expect(tryRequest('rest', { method: 'POST', path: 't', query: '', body: '{', token: '' })).toBeUndefined()
  for (const text of ['{', '[]', '1', 'null', '"{}"']) {
    expect(tryCommand('mcp', '', { tool: 't', arguments: text })).toBeUndefined()
    expect(tryRequest('mcp', { tool: 't', arguments: text })).toBeUndefined()
  }
})

test('the API request contains the JWT, and the command reads it from the environment', () => {
  const entered = { method: 'GET', path: 't', query: '', body: '', token: 'x.y.z' } as const
  expect(curlArguments(tryCommand('rest', 'https://x', entered))).toContain('Authorization: Bearer c-token')
  expect(tryRequest('rest', entered)?.body).toEqual({ method: 'GET', path: 't', query: '', token: 'x.y.z' })
})

test('the API request equals the command, and both keep all digits of numbers', () => {
  const entered = { path: `/a b/${hostile}`, query: '?id=eq.1&name=like.*ä*', token: '' }
  const body = ' {"id": 12345678901234567890,\n"a": 1.0}'
  const encoded = { path: `a%20b/${encodeURIComponent(hostile)}`, query: 'id=eq.1&name=like.*%C3%A4*' }
  const write = { ...entered, method: 'POST', body } as const
  const sent = '{"id":12345678901234567890,"a":1.0}'
  expect(tryRequest('rest', write)).toEqual({ type: 'rest', body: { method: 'POST', ...encoded, body: sent } })
  expect(curlArguments(tryCommand('rest', '', write)).at(-1)).toBe(sent)
  expect(tryRequest('rest', { ...write, method: 'DELETE' })?.body).toEqual({ method: 'DELETE', ...encoded })
  expect(tryRequest('mcp', { tool: ' t ', arguments: ' ' })?.body).toEqual({ tool: 't', arguments: {} })
  expect(tryRequest('rag', { pipeline: 'docs', question: 'Why?' })?.body).toEqual({ pipeline: 'docs', query: 'Why?' })
})
