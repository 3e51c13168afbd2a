import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { maximumJsonDepth, type PayloadRequest, parsePayload } from './payload.ts'
import { refusal } from './testing.ts'

const read = (body: string | Buffer, contentType?: string, more: Partial<PayloadRequest> = {}) =>
  parsePayload({ body: Buffer.from(body), contentType, forFunction: false, keysAreNamed: false, ...more })
const refused = (body: string, contentType?: string, more: Partial<PayloadRequest> = {}) =>
  refusal(() => read(body, contentType, more))

describe('JSON', () => {
  test.each<[string, { isArray: boolean; keys: string[] }]>([
    ['{}', { isArray: false, keys: [] }],
    ['{"a":1,"b":{"c":2}}', { isArray: false, keys: ['a', 'b'] }],
    [' [ {"a":1} ]', { isArray: true, keys: ['a'] }],
    ['[{"a":1,"b":2},{"b":3,"a":4}]', { isArray: true, keys: ['a', 'b'] }],
    ['[]', { isArray: true, keys: [] }],
    ['[{}]', { isArray: true, keys: [] }],
    ['{"__proto__":1}', { isArray: false, keys: ['__proto__'] }],
  ])('%s is handed on as it was sent', (body, expected) => {
    for (const type of [undefined, 'application/json; charset=utf-8', 'application/vnd.pgrst.object+json']) {
      expect(read(body, type)).toEqual({ kind: 'json', json: Buffer.from(body), isCsv: false, ...expected })
    }
  })

  test.each(['5', 'null', '"a"', 'true'])('%s has no row for a relation, and may be for a parameter', body => {
    expect(read(body)).toMatchObject({ json: '[]', isArray: true, keys: [] })
    expect(read(body, undefined, { forFunction: true })).toMatchObject({ json: Buffer.from(body), keys: [] })
  })

  test.each(['', '{', '[1,', '{"a":1}}', 'nope', "{'a':1}", '[{"a":1},]'])('%j is RST102', body => {
    expect(refused(body)).toMatchObject({ code: 'RST102', status: 400, message: 'Empty or invalid json' })
  })

  test.each([
    '[1]',
    '[{"a":1},{"b":1}]',
    '[{"a":1},{"a":1,"b":2}]',
    '[{"a":1},null]',
    '[[]]',
    '[{"toString":1},{"a":1}]',
  ])('%s has rows that differ: RST102', body => {
    expect(refused(body)).toMatchObject({ code: 'RST102', message: 'All object keys must match' })
  })

  test('with columns is not looked into', () => {
    const named = { keysAreNamed: true }
    expect(read('[{"a":1},{"b":1}]', undefined, named)).toMatchObject({ isArray: true, keys: undefined })
    expect(read('\n\t {"a":1}', undefined, named)).toMatchObject({ isArray: false, keys: undefined })
  })

  test('that is absent is an empty object for a function', () => {
    expect(read('', undefined, { forFunction: true })).toMatchObject({ json: '{}', isArray: false, keys: [] })
  })

  test('nests only so deep, where brackets are no text', () => {
    const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    for (const keysAreNamed of [false, true]) {
      expect(read(nested(maximumJsonDepth), undefined, { keysAreNamed })).toMatchObject({ kind: 'json' })
      expect(refused(nested(maximumJsonDepth + 1), undefined, { keysAreNamed }).code).toBe('RST102')
      expect(refused('['.repeat(1_000_000), undefined, { keysAreNamed }).code).toBe('RST102')
      const quoted = JSON.stringify({ a: '\\"[{'.repeat(1_000), 'é"[': 1 })
      expect(read(quoted, undefined, { keysAreNamed })).toMatchObject({ kind: 'json' })
    }
  })

  test('is read as JSON.parse reads it, or refused', () => {
    fc.assert(
      fc.property(fc.array(fc.dictionary(fc.string(), fc.jsonValue())), rows => {
        const text = JSON.stringify(rows)
        const first = Object.keys(rows[0] ?? {})
          .sort()
          .join()
        if (rows.some(row => Object.keys(row).sort().join() !== first)) expect(refused(text).code).toBe('RST102')
        else expect(read(text)).toMatchObject({ isArray: true, keys: Object.keys(rows[0] ?? {}) })
      }),
    )
  })
})

describe('CSV', () => {
  const rows = (text: string): unknown => {
    const payload = read(text, 'text/csv')
    return payload.kind === 'json' ? JSON.parse(String(payload.json)) : payload
  }

  test.each<[string, unknown]>([
    ['a,b\n1,2', [{ a: '1', b: '2' }]],
    ['a,b\r\n1,2\r\n', [{ a: '1', b: '2' }]],
    ['a\r1\r', [{ a: '1' }]],
    [
      'a,b\n1,\n,2',
      [
        { a: '1', b: '' },
        { a: '', b: '2' },
      ],
    ],
    ['a,b\n1,', [{ a: '1', b: '' }]],
    ['a\n"x,y"', [{ a: 'x,y' }]],
    ['a\n"x\r\ny"\n', [{ a: 'x\r\ny' }]],
    ['a\n"x ""y"""', [{ a: 'x "y"' }]],
    ['a\n""', [{ a: '' }]],
    ['a\nx "y"', [{ a: 'x "y"' }]],
    ['"a,b"\n1', [{ 'a,b': '1' }]],
    ['a\nNULL', [{ a: null }]],
    ['a\nnull', [{ a: 'null' }]],
    ['a\n', []],
    ['a', []],
  ])('%j', (text, expected) => {
    expect(rows(text)).toEqual(expected)
  })

  test('has the keys of its head', () => {
    expect(read('a,b,a\n1,2,3', 'text/csv')).toMatchObject({ isArray: true, keys: ['a', 'b'] })
    expect(read('a,b', 'text/csv')).toMatchObject({ keys: ['a', 'b'], isCsv: true })
  })

  test.each([
    ['', 'Empty or invalid csv'],
    ['a,b\n1', 'All lines must have same number of fields'],
    ['a\n1,2', 'All lines must have same number of fields'],
    ['a\n"x', 'A quoted field of CSV does not end'],
    ['a\n"x""', 'A quoted field of CSV does not end'],
    ['a\n"x"y', 'A quoted field of CSV is followed by more than a comma'],
  ])('%j is RST102', (text, message) => {
    expect(refused(text, 'text/csv')).toMatchObject({ code: 'RST102', status: 400, message })
  })

  test('of any fields is read again', () => {
    const field = fc.string({ unit: fc.constantFrom('a', '"', ',', '\r', '\n', ' ', 'é') })
    const width = fc.integer({ min: 1, max: 4 })
    const table = width.chain(size => fc.array(fc.array(field, { minLength: size, maxLength: size })))
    fc.assert(
      fc.property(table, fc.constantFrom('\n', '\r\n'), fc.boolean(), (records, end, last) => {
        const head = (records[0] ?? ['']).map((_, index) => `c${index}`)
        const quoted = records.map(record => record.map(value => `"${value.replaceAll('"', '""')}"`).join())
        const text = [head.join(), ...quoted].join(end) + (last ? end : '')
        expect(rows(text)).toEqual(
          records.map(record => Object.fromEntries(record.map((value, index) => [`c${index}`, value]))),
        )
      }),
    )
  })

  test('of 10 MB in one field or in very many is read', () => {
    const large = 'x'.repeat(10_000_000)
    expect(read(`a\n"${large}"`, 'text/csv')).toMatchObject({ keys: ['a'] })
    expect(read(`a\n${large}`, 'text/csv')).toMatchObject({ keys: ['a'] })
    expect(read(`a\n"${'""'.repeat(1_000_000)}"`, 'text/csv')).toMatchObject({ keys: ['a'] })
    expect(refused(`a\n${'"""x,'.repeat(200_000)}`, 'text/csv').code).toBe('RST102')
    expect(refused(`${','.repeat(1_000_000)}\n1`, 'text/csv').code).toBe('RST102')
  })
})

describe('a form', () => {
  const type = 'application/x-www-form-urlencoded'

  test('is one object for a relation, and fields for a function', () => {
    expect(read('a=1&b=x+y&a=2', type)).toMatchObject({ json: '{"a":"2","b":"x y"}', isArray: false, keys: ['a', 'b'] })
    expect(read('a=1&b=x+y&a=2', type, { forFunction: true })).toEqual({
      kind: 'form',
      fields: [
        ['a', '1'],
        ['b', 'x y'],
        ['a', '2'],
      ],
    })
    expect(read('__proto__=1', type)).toMatchObject({ json: '{"__proto__":"1"}', keys: ['__proto__'] })
  })

  test('of too many fields is refused', () => {
    expect(refused('a&'.repeat(5_000_000), type).code).toBe('RST100')
  })
})

test.each([
  ['text/plain', 'text'],
  ['text/xml; charset=utf-8', 'xml'],
  ['application/octet-stream', 'bytea'],
])('%s is raw, and for functions only', (contentType, type) => {
  const bytes = Buffer.from([0, 255, 10])
  expect(read(bytes, contentType, { forFunction: true })).toEqual({ kind: 'raw', type, bytes })
  expect(refused('x', contentType)).toMatchObject({ code: 'RST107', status: 415 })
})

test('another type is RST107', () => {
  expect(refused('x', 'Image/PNG; a=b')).toMatchObject({ message: 'Content-Type not acceptable: image/png' })
  expect(refused('x', '', { forFunction: true }).code).toBe('RST107')
})
