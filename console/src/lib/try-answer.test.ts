import { describe, expect, test } from 'vitest'
import { formatJson } from './format-json.ts'
import { hintOf, type ServiceAnswer, viewOf } from './try-answer.ts'

const answer = (body: unknown, more: Partial<ServiceAnswer> = {}): ServiceAnswer => ({
  ...{ status: 200, content_type: 'application/json', truncated: false, milliseconds: 3 },
  body: typeof body === 'string' ? body : JSON.stringify(body),
  ...more,
})

describe('JSON', () => {
  test('is formatted like the output of JSON.stringify', () => {
    const value = { a: [1, { b: [] }, {}], 'c:d,e{': '\\"}],\n', f: null, g: [[true]], h: '' }
    const text = JSON.stringify(value)
    expect(formatJson(text, '  ')).toBe(JSON.stringify(value, null, 2))
    expect(formatJson(JSON.stringify(value, null, 2), '')).toBe(text)
    for (const one of ['1', '"a"', '[]', '{}', ' null ']) expect(formatJson(one, '  ')).toBe(one.trim())
  })

  test('keeps the digits of numbers', () => {
    expect(formatJson('[12345678901234567890,1.0,1E5]', '  ')).toBe('[\n  12345678901234567890,\n  1.0,\n  1E5\n]')
  })

  test('is undefined for invalid JSON, and the unchanged text if it is nested too deeply', () => {
    for (const text of ['', '{', 'a', '[1,]']) expect(formatJson(text, '  ')).toBeUndefined()
    const deep = '['.repeat(100_000) + ']'.repeat(100_000)
    expect(formatJson(deep, '  ')).toBe(deep)
    expect(formatJson(` ${deep}\n`, '')).toBe(deep)
  })
})

test('shows the body of an answer that is nested too deeply', () => {
  const deep = '['.repeat(20_000) + ']'.repeat(20_000)
  const tool = `{"content":[{"type":"x","of":${deep}}]}`
  expect(viewOf('mcp', answer(tool))).toEqual({ kind: 'body', text: tool })
  const rag = `{"answer":"a","sources":[{"id":${deep}}]}`
  expect(viewOf('rag', answer(rag))).toEqual({ kind: 'body', text: rag })
})

describe('the answer of rest', () => {
  test('is its body, formatted if it is JSON', () => {
    expect(viewOf('rest', answer([{ id: 1 }]))).toEqual({ kind: 'body', text: '[\n  {\n    "id": 1\n  }\n]' })
    expect(viewOf('rest', answer('<b>no JSON'))).toEqual({ kind: 'body', text: '<b>no JSON' })
    expect(viewOf('rest', answer('[1', { truncated: true }))).toEqual({ kind: 'body', text: '[1' })
    // A table can have columns with these names.
    expect(viewOf('rest', answer({ answer: 'a', content: [] })).kind).toBe('body')
  })
})

describe('the answer of mcp', () => {
  test('is the parts of the result, each as text', () => {
    const content = [{ type: 'text', text: '[1]' }, { type: 'image', data: 'AA==', mimeType: 'image/png' }, 'odd']
    expect(viewOf('mcp', answer({ content, isError: true, structuredContent: { a: 1 } }))).toEqual({
      kind: 'tool',
      isError: true,
      parts: [
        { label: 'text', text: '[\n  1\n]' },
        { label: 'image', text: JSON.stringify(content[1], null, 2) },
        { label: '', text: 'odd' },
        { label: 'structuredContent', text: '{\n  "a": 1\n}' },
      ],
    })
    expect(viewOf('mcp', answer({ content: [] }))).toEqual({ kind: 'tool', isError: false, parts: [] })
  })

  test('is the error message of a refused call', () => {
    const error = { code: -32602, message: 'unknown tool' }
    expect(viewOf('mcp', answer({ error }))).toEqual({ kind: 'fault', message: 'unknown tool' })
    const detailed = { ...error, message: 'Invalid params', data: { problem: 'unknown tool "t"' } }
    const message = 'Invalid params: unknown tool "t"'
    expect(viewOf('mcp', answer({ error: detailed }))).toEqual({ kind: 'fault', message })
  })
})

test('the answer of rag has its sources, even with unexpected types', () => {
  const sources = [{ id: 7, score: 0.51234, content: '<a href="javascript:hit()">' }, { id: null }, 'odd']
  expect(viewOf('rag', answer({ answer: 'Because.', sources }))).toEqual({
    kind: 'answer',
    text: 'Because.',
    sources: [
      { id: '7', score: '0.512', content: '<a href="javascript:hit()">' },
      { id: '""', score: '', content: '""' },
    ],
  })
  expect(viewOf('rag', answer({ error: { message: 'no' } })).kind).toBe('body')
})

test.each(['null', '1', '"a"', '[]', '{}', '', '{"content":1}', '{"answer":1}', '{"error":1}'])(
  'every type shows the body of the answer %j',
  body => {
    for (const type of ['mcp', 'rest', 'rag'] as const) expect(viewOf(type, answer(body)).kind).toBe('body')
  },
)

test.each([
  ['rest', 401, '', 'restToken'],
  ['rest', 400, '{"code":"42501","message":"permission denied for table t"}', 'restGrant'],
  ['rest', 200, '[{"code":"42501"}]', undefined],
  ['rest', 404, '', 'restPath'],
  ['mcp', 401, '', 'mcpToken'],
  ['rag', 404, '', 'ragPipeline'],
  ['rag', 502, '', 'failed'],
  ['rest', 400, '{"code":"22P02"}', undefined],
  ['mcp', 200, '', undefined],
] as const)('the hint of %s for status %i and body %j is %s', (type, status, body, hint) => {
  expect(hintOf(type, answer(body, { status }))).toBe(hint)
})
