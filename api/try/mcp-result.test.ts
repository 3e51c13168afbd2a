import { expect, test } from 'vitest'
import { resultOf } from './mcp-result.ts'

const result = { content: [{ type: 'text', text: 'a\n\nb' }], isError: false }
const response = JSON.stringify({ jsonrpc: '2.0', id: 'i', result })
const progress = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { data: 'x' } })
const other = JSON.stringify({ jsonrpc: '2.0', id: 'other', result: 'wrong' })

test.each([
  ['JSON', response],
  ['a stream', `event: message\ndata: ${response}\n\n`],
  ['a stream with other messages', `data: ${progress}\n\n: keepalive\n\ndata: ${other}\n\nid: 3\ndata:${response}\n\n`],
  ['a stream with CRLF', `event: message\r\ndata: ${response}\r\n\r\n`],
  [
    'an event of several lines with CRLF',
    `event: message\r\ndata: ${response.replace(',"result"', ',\r\ndata: "result"')}\r\n\r\n`,
  ],
  ['an event of several lines', `data: ${response.replace(',"result"', ',\ndata: "result"')}\n\n`],
])('the result is read from %s', (_, text) => {
  expect(JSON.parse(resultOf(text, 'i') ?? '')).toEqual(result)
})

test('an error of JSON-RPC is returned as such, also without an id', () => {
  const error = { code: -32602, message: 'unknown tool' }
  for (const id of ['i', null])
    expect(JSON.parse(resultOf(JSON.stringify({ jsonrpc: '2.0', id, error }), 'i') ?? '')).toEqual({ error })
})

test('a result that nests too deep is returned as the service sent it', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  expect(resultOf(`{"id":"i","result":${deep}}`, 'i')).toBeUndefined()
  expect(resultOf(`{"id":"i","error":${deep}}`, 'i')).toBeUndefined()
})

test.each(['', 'not JSON', '[]', 'null', other, '{"id":"i"}', 'data: {\n\n'])('%j has no result', text => {
  expect(resultOf(text, 'i')).toBeUndefined()
})
