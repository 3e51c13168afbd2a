import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { maximumDepth } from './field.ts'
import { parse } from './parser.ts'
import { maximumSelected, select } from './select.ts'
import type { SelectField, SelectItem, SelectRelation } from './types.ts'

const read = (text: string): SelectItem[] => parse('select parameter', text, select)
const plain = { kind: 'field', alias: undefined, cast: undefined, aggregate: undefined } as const
const column = (name: string, more: Partial<SelectField> = {}): SelectField => ({
  ...plain,
  field: { name, path: [] },
  ...more,
})
const relation = (name: string, select: SelectItem[], more: Partial<SelectRelation> = {}): SelectRelation => ({
  ...{ kind: 'relation', name, select, alias: undefined, hint: undefined, join: undefined, spread: false },
  ...more,
})

describe('select has', () => {
  test.each<[string, SelectItem[]]>([
    ['', []],
    ['*', [column('*')]],
    ['a,b', [column('a'), column('b')]],
    [' a b , c ', [column('a b'), column('c')]],
    ['ünï_$1-x', [column('ünï_$1-x')]],
    ['"a,b.c:d"', [column('a,b.c:d')]],
    [String.raw`"a\"b\\c"`, [column('a"b\\c')]],
    ['x:a', [column('a', { alias: 'x' })]],
    ['"x y":a', [column('a', { alias: 'x y' })]],
    ['a::text', [column('a', { cast: 'text' })]],
    ['a::double precision', [column('a', { cast: 'double precision' })]],
    ['a::int[]', [column('a', { cast: 'int[]' })]],
    ['x:a::text', [column('a', { alias: 'x', cast: 'text' })]],
    ['count()', [column('*', { aggregate: { name: 'count', cast: undefined } })]],
    ['n:count()::text', [column('*', { alias: 'n', aggregate: { name: 'count', cast: 'text' } })]],
    ...(['sum', 'avg', 'count', 'max', 'min'] as const).map((name): [string, SelectItem[]] => [
      `a.${name}()`,
      [column('a', { aggregate: { name, cast: undefined } })],
    ]),
    ['x:a::int.sum()::text', [column('a', { alias: 'x', cast: 'int', aggregate: { name: 'sum', cast: 'text' } })]],
    ['r()', [relation('r', [])]],
    ['r(*)', [relation('r', [column('*')])]],
    ['x:r(a),b', [relation('r', [column('a')], { alias: 'x' }), column('b')]],
    ['r!hint(a)', [relation('r', [column('a')], { hint: 'hint' })]],
    ['r!inner(a)', [relation('r', [column('a')], { join: 'inner' })]],
    ['r!left(a)', [relation('r', [column('a')], { join: 'left' })]],
    ['r!hint!inner(a)', [relation('r', [column('a')], { hint: 'hint', join: 'inner' })]],
    ['r!inner!hint(a)', [relation('r', [column('a')], { hint: 'hint', join: 'inner' })]],
    ['r!"a hint"(a)', [relation('r', [column('a')], { hint: 'a hint' })]],
    ['...r(a)', [relation('r', [column('a')], { spread: true })]],
    ['r(s(...t(a)))', [relation('r', [relation('s', [relation('t', [column('a')], { spread: true })])])]],
  ])('%j', (text, expected) => {
    expect(read(text)).toEqual(expected)
  })

  test.each<[string, SelectField['field']['path']]>([
    ['->b', [{ arrow: '->', key: 'b' }]],
    ['->>b', [{ arrow: '->>', key: 'b' }]],
    ['->0', [{ arrow: '->', key: 0 }]],
    ['->-1', [{ arrow: '->', key: -1 }]],
    [
      '->b->0->>c',
      [
        { arrow: '->', key: 'b' },
        { arrow: '->', key: 0 },
        { arrow: '->>', key: 'c' },
      ],
    ],
    ['->0x', [{ arrow: '->', key: '0x' }]],
    ['->"0"', [{ arrow: '->', key: '0' }]],
    ['->"b.c,d"', [{ arrow: '->', key: 'b.c,d' }]],
    [
      '->a-b->c',
      [
        { arrow: '->', key: 'a-b' },
        { arrow: '->', key: 'c' },
      ],
    ],
    ['->99999999999', [{ arrow: '->', key: '99999999999' }]],
    ["->it's; /*", [{ arrow: '->', key: "it's; /*" }]],
  ])('the path %s into a JSON value', (path, expected) => {
    expect(read(`a${path}`)).toEqual([column('a', { field: { name: 'a', path: expected } })])
    expect(read(`x:a${path}::text,b`)[0]).toMatchObject({ alias: 'x', field: { path: expected }, cast: 'text' })
  })
})

describe('syntax errors are RST100 with their position', () => {
  test.each([
    ['a,', 3, 'end of input'],
    ['a,,b', 3, '","'],
    ['a:', 3, 'end of input'],
    ['a::', 4, 'end of input'],
    ['a.', 3, 'end of input'],
    ['a.total()', 3, '"t"'],
    ['a.sum', 6, 'end of input'],
    ['a->', 4, 'end of input'],
    ['a->>)', 5, '")"'],
    ['a-', 3, 'end of input'],
    ['r(', 3, 'end of input'],
    ['r(a', 4, 'end of input'],
    ['r!', 2, "'!'"],
    ['r!x', 2, "'!'"],
    ['r!x!y!z(a)', 2, "'!'"],
    ['"a', 3, 'end of input'],
    ['"a\tb\nc', 7, 'end of input'],
    ['ä😀', 2, "'\\128512'"],
    ['a;drop', 2, "';'"],
    ["a'b", 2, "'\\''"],
  ])('%j: column %i', (text, position, unexpected) => {
    const { code, status, message, details } = refusal(() => read(text))
    expect({ code, status }).toEqual({ code: 'RST100', status: 400 })
    expect(message).toBe(`"failed to parse select parameter (${text})" (line 1, column ${position})`)
    expect(details).toMatch(`unexpected ${unexpected} expecting `)
  })

  test('more columns of a relation than Postgres supports', () => {
    const many = (count: number) => Array.from({ length: count }, () => 'a').join()
    expect(read(many(maximumSelected))).toHaveLength(maximumSelected)
    expect(read(`${many(maximumSelected - 1)},r(${many(maximumSelected)})`)).toHaveLength(maximumSelected)
    for (const text of [many(maximumSelected + 1), '*,'.repeat(100_000), `r(${many(maximumSelected + 1)})`]) {
      expect(refusal(() => read(text))).toMatchObject({
        ...{ status: 400, code: 'RST100', details: `expecting at most ${maximumSelected} columns of a relation` },
      })
    }
  })

  test('nesting and paths deeper than the limit', () => {
    const nested = (depth: number) => `${'r('.repeat(depth)}a${')'.repeat(depth)}`
    expect(read(nested(maximumDepth))).toHaveLength(1)
    expect(refusal(() => read(nested(maximumDepth + 1))).code).toBe('RST100')
    expect(refusal(() => read('r('.repeat(100_000))).code).toBe('RST100')
    expect(read(`a${'->b'.repeat(maximumDepth)}`)).toHaveLength(1)
    expect(refusal(() => read(`a${'->b'.repeat(maximumDepth + 1)}`)).code).toBe('RST100')
  })
})

test('the parser reads any quoted names unchanged', () => {
  const quote = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`
  const name = fc.string({ unit: 'binary', minLength: 1 })
  fc.assert(
    fc.property(name, name, name, name, (alias, own, hint, key) => {
      expect(read(`${quote(alias)}:${quote(own)}->${quote(key)}`)).toEqual([
        column(own, { alias, field: { name: own, path: [{ arrow: '->', key }] } }),
      ])
      const embedded = `${quote(alias)}:${quote(own)}!${quote(hint)}(${quote(key)})`
      if (hint !== 'inner' && hint !== 'left')
        expect(read(embedded)).toEqual([relation(own, [column(key)], { alias, hint })])
    }),
  )
})
