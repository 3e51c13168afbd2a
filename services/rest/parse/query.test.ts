import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { parseQuery, queryParameters } from './query.ts'
import { maximumSelected } from './select.ts'

const read = (query: string) => parseQuery(query, false)

describe('a query string', () => {
  test('selects everything if it is empty', () => {
    expect(read('')).toEqual({
      select: [
        { kind: 'field', field: { name: '*', path: [] }, alias: undefined, cast: undefined, aggregate: undefined },
      ],
      ...{ filters: [], logic: [], order: [], limits: [], offsets: [], parameters: [] },
      ...{ columns: undefined, onConflict: undefined, canonical: '' },
    })
  })

  test.each<[string, [string, string | undefined][]]>([
    [
      'a=b&c=d',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    ['a', [['a', undefined]]],
    ['a=', [['a', '']]],
    ['a=b=c', [['a', 'b=c']]],
    ['=b', [['', 'b']]],
    ['&&a=1&', [['a', '1']]],
    ['a+b=c%20d%2B', [['a b', 'c d+']]],
    ['%C3%A4=%F0%9F%98%80', [['ä', '😀']]],
    ['a=%FF%ED%A0%80', [['a', '\uFFFD\uFFFD\uFFFD\uFFFD']]],
    ['a=%E4b+c%', [['a', '\uFFFDb c%']]],
    ['a=%zz', [['a', '%zz']]],
    ['a=%2500', [['a', '%00']]],
    ['__proto__=1', [['__proto__', '1']]],
  ])('%s is decoded', (query, parameters) => {
    expect(queryParameters(query)).toEqual(parameters)
  })

  test('has named parameters in any order', () => {
    const canonical = (query: string) => parseQuery(query, true).canonical
    expect(canonical('b=2&a=1&c&b=1')).toBe('a=1&b=2&b=1&c=')
    expect(canonical("a=!'()*+ä")).toBe('a=%21%27%28%29%2A%20%C3%A4')
  })

  test('selects everything by default', () => {
    expect(read('select=').select).toEqual(read('').select)
    expect(read('select=a,b))').select).toHaveLength(2)
  })

  test('has whole numbers as limits, and ignores other values', () => {
    expect(read('limit=25&offset=-12&limit=1.5&a.limit=x&offset=1234567890123456')).toMatchObject({
      limits: [
        { path: [], value: 25 },
        { path: [], value: undefined },
        { path: ['a'], value: undefined },
      ],
      offsets: [
        { path: [], value: -12 },
        { path: [], value: 1_234_567_890_123_456 },
      ],
    })
  })

  test.each([
    ['order=a.up', 'order', '"asc", "desc", "nullsfirst" or "nullslast"'],
    ['order=a.asc.up', 'order', '"nullsfirst" or "nullslast"'],
    ['order=a->b(c)', 'order', '"->>", "->", delimiter (.), "," or end of input'],
    ['a=up', 'filter', ''],
  ])('reports what the parser expected: %s', (query, name, expected) => {
    const { message, details } = refusal(() => read(query))
    expect(message).toMatch(new RegExp(`parse ${name} `))
    expect(details).toContain(expected)
    if (expected.startsWith('"nulls')) expect(details).not.toContain('"asc"')
  })

  test.each(['a=%00', '%00=a', 'a=\0', 'select="%00"', 'a=%%00'])('cannot contain NUL, as %j does', query => {
    expect(refusal(() => read(query))).toMatchObject({ code: 'RST100', status: 400 })
  })

  test('has a parameter limit', () => {
    expect(queryParameters(Array(1_000).fill('a=1').join('&'))).toHaveLength(1_000)
    expect(refusal(() => read(Array(1_001).fill('a=eq.1').join('&'))).code).toBe('RST100')
  })

  test('has filters for its resource and for embedded resources', () => {
    expect(read('a=eq.1&b.c.d->e=not.is.null&"b.c"=gt.2').filters).toEqual([
      {
        path: [],
        value: { field: { name: 'a', path: [] }, negated: false, operation: expect.objectContaining({ value: '1' }) },
      },
      {
        path: ['b', 'c'],
        value: {
          field: { name: 'd', path: [{ arrow: '->', key: 'e' }] },
          negated: true,
          operation: { kind: 'is', value: 'null' },
        },
      },
      {
        path: [],
        value: { field: { name: 'b.c', path: [] }, negated: false, operation: expect.objectContaining({ value: '2' }) },
      },
    ])
  })

  test.each<[string, string[], string, boolean]>([
    ['and', [], 'and', false],
    ['or', [], 'or', false],
    ['not.and', [], 'and', true],
    ['not.or', [], 'or', true],
    ['a.and', ['a'], 'and', false],
    ['a.b.or', ['a', 'b'], 'or', false],
    ['a.not.and', ['a'], 'and', true],
    ['a.b.not.or', ['a', 'b'], 'or', true],
    ['"a.b".not.or', ['a.b'], 'or', true],
  ])('has the logic of %s', (key, path, operator, negated) => {
    expect(read(`${key}=(x.eq.1)`).logic).toMatchObject([{ path, value: { kind: 'group', operator, negated } }])
  })

  test.each(['android=eq.1', 'a.floor=eq.1', 'border=eq.1', 'unlimit=eq.1'])('%s is a filter', query => {
    expect(read(query)).toMatchObject({ filters: [{}], logic: [], order: [], limits: [] })
  })

  test('sorts by as many terms as Postgres accepts, and refuses more', () => {
    const terms = (count: number) => Array.from({ length: count }, () => 'a').join()
    expect(read(`order=${terms(maximumSelected)}`).order[0]?.value).toHaveLength(maximumSelected)
    expect(read(`order=${terms(maximumSelected)}&r.order=a`).order).toHaveLength(2)
    expect(refusal(() => read(`order=${terms(maximumSelected + 1)}`))).toMatchObject({
      ...{ status: 400, code: 'RST100', details: `expecting at most ${maximumSelected} terms of an order` },
    })
  })

  test.each<[string, object]>([
    ['a', { direction: undefined, nulls: undefined }],
    ['a.asc', { direction: 'asc', nulls: undefined }],
    ['a.desc', { direction: 'desc', nulls: undefined }],
    ['a.nullsfirst', { direction: undefined, nulls: 'first' }],
    ['a.desc.nullslast', { direction: 'desc', nulls: 'last' }],
    [
      'a->b->>0.desc',
      {
        direction: 'desc',
        field: {
          name: 'a',
          path: [
            { arrow: '->', key: 'b' },
            { arrow: '->>', key: 0 },
          ],
        },
      },
    ],
    ['r(a)', { relation: 'r' }],
    ['r(a->b).desc.nullsfirst', { relation: 'r', direction: 'desc', nulls: 'first' }],
    ['"a.desc".asc', { field: { name: 'a.desc', path: [] }, direction: 'asc' }],
  ])('has the order %s', (term, expected) => {
    const plain = { field: { name: 'a', path: [] }, relation: undefined }
    const full = expect.objectContaining({
      ...(term.startsWith('a->') || term.startsWith('r(a->') ? {} : plain),
      ...expected,
    })
    expect(read(`order=${encodeURIComponent(term)}`).order).toEqual([{ path: [], value: [full] }])
    expect(read(`x.y.order=b,${encodeURIComponent(term)}`).order).toEqual([
      { path: ['x', 'y'], value: [expect.anything(), full] },
    ])
  })

  test.each([
    ['', 1],
    ['a,', 3],
    ['a.up', 3],
    ['a.asc.desc', 7],
    ['a.nullsfirst.asc', 13],
    ['r(a', 2],
    ['r(s(a))', 2],
  ])('has no order %j: RST100 at column %i', (term, column) => {
    expect(refusal(() => read(`order=${term}`)).message).toBe(
      `"failed to parse order (${term})" (line 1, column ${column})`,
    )
  })

  test('has limits and offsets', () => {
    const query = 'limit=5&offset=-1&a.limit=0&a.b.offset=7'
    expect(read(query)).toMatchObject({
      limits: [
        { path: [], value: 5 },
        { path: ['a'], value: 0 },
      ],
      offsets: [
        { path: [], value: -1 },
        { path: ['a', 'b'], value: 7 },
      ],
    })
  })

  test('has columns and a conflict target', () => {
    expect(read('columns=a,"b,c"&on_conflict=d,e')).toMatchObject({ columns: ['a', 'b,c'], onConflict: ['d', 'e'] })
    for (const wrong of ['columns=', 'columns=a,', 'on_conflict=', 'on_conflict=!']) {
      expect(refusal(() => read(wrong)).code).toBe('RST100')
    }
  })

  test('of a function has arguments; a value that parses as a filter is a filter', () => {
    expect(parseQuery('a=1&b=eq.2&a=not+a+filter&limit=1', true)).toMatchObject({
      parameters: [
        ['a', '1'],
        ['a', 'not a filter'],
      ],
      filters: [{ value: { field: { name: 'b' } } }],
      limits: [{ value: 1 }],
    })
    expect(refusal(() => read('a=1')).code).toBe('RST100')
  })

  test.each([
    ['b=eq.2&a=eq.1', 'a=eq.1&b=eq.2'],
    ['a=eq.2&a=eq.1', 'a=eq.2&a=eq.1'],
    ['select=a,b&a=in.(1,%22x+y%22)', 'a=in.%281%2C%22x%20y%22%29&select=a%2Cb'],
    ['a=eq.%C3%A4!', 'a=eq.%C3%A4%21'],
  ])('%s becomes %s', (query, canonical) => {
    expect(read(query).canonical).toBe(canonical)
  })

  test('in canonical form has the same meaning, whatever the order of its parameters', () => {
    const name = fc.string({ unit: 'grapheme', minLength: 1 }).filter(text => !text.includes('\0'))
    const parameters = fc.uniqueArray(fc.tuple(name, name), { selector: ([key]) => key })
    const encode = (list: readonly [string, string][]) =>
      list.map(pair => pair.map(encodeURIComponent).join('=')).join('&')
    fc.assert(
      fc.property(parameters, list => {
        const query = encode(
          list.map(([key, value]): [string, string] => [`"${key.replace(/["\\]/g, '\\$&')}"`, value]),
        )
        const { canonical } = parseQuery(query, true)
        expect(parseQuery(query.split('&').reverse().join('&'), true).canonical).toBe(canonical)
        expect(queryParameters(canonical).sort()).toEqual(queryParameters(query).sort())
        expect(canonical).toMatch(/^[A-Za-z0-9\-._~%=&]*$/)
      }),
    )
  })
})
