import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { maximumDepth } from './field.ts'
import { filterValue, logicTree } from './filter.ts'
import { parse } from './parser.ts'
import { isValues, type Operation, plainOperators, quantifiableOperators, searchOperators } from './types.ts'

const read = (text: string) => parse('filter', text, filterValue)
const tree = (text: string) => parse('logic tree', text, logicTree)
const operation = (text: string): Operation => read(text).operation

describe('a filter', () => {
  test.each(quantifiableOperators)('compares by %s, also with any and all', operator => {
    const compare = { kind: 'compare', operator, value: '{1,2}' }
    expect(operation(`${operator}.{1,2}`)).toEqual({ ...compare, quantifier: undefined })
    expect(operation(`${operator}(any).{1,2}`)).toEqual({ ...compare, quantifier: 'any' })
    expect(operation(`${operator}(all).{1,2}`)).toEqual({ ...compare, quantifier: 'all' })
  })

  test.each(plainOperators)('compares by %s, without a quantifier', operator => {
    expect(operation(`${operator}.a.b`)).toEqual({ kind: 'plain', operator, value: 'a.b' })
    expect(refusal(() => read(`${operator}(any).1`)).code).toBe('RST100')
  })

  test.each(searchOperators)('searches by %s, in a language', operator => {
    const search = { kind: 'search', operator, value: 'cat & (rat)' }
    expect(operation(`${operator}.cat & (rat)`)).toEqual({ ...search, language: undefined })
    expect(operation(`${operator}(english).cat & (rat)`)).toEqual({ ...search, language: 'english' })
    for (const wrong of ['()', "(it's)", '(a', '(a;b)', '( )', '(-)', '( - )', '(0)', '(13)'])
      expect(refusal(() => read(`${operator}${wrong}.x`)).code).toBe('RST100')
  })

  test.each(isValues)('is %s, in upper or lower case', value => {
    expect(operation(`is.${value}`)).toEqual({ kind: 'is', value })
    expect(operation(`is.${value.toUpperCase()}`)).toEqual({ kind: 'is', value })
  })

  test('is distinct, and negated', () => {
    expect(read('isdistinct.5')).toEqual({ negated: false, operation: { kind: 'isdistinct', value: '5' } })
    expect(read('not.isdistinct.5')).toEqual({ negated: true, operation: { kind: 'isdistinct', value: '5' } })
    expect(read('not.eq.not.eq.5')).toMatchObject({ negated: true, operation: { value: 'not.eq.5' } })
  })

  test('uses all remaining text as its value', () => {
    for (const value of ['', ' a ', 'a,b)', '"a"', 'a\nb', ',', '\u2028']) {
      expect(operation(`eq.${value}`)).toMatchObject({ value })
    }
  })

  test.each<[string, string[]]>([
    ['()', []],
    ['(1)', ['1']],
    ['(1,2,3)', ['1', '2', '3']],
    ['(a b,c.d)', ['a b', 'c.d']],
    ['("a,b","c)d")', ['a,b', 'c)d']],
    [String.raw`("a\"b","c\\d","e\f")`, ['a"b', 'c\\d', 'ef']],
    ['("a"b,c)', ['"a"b', 'c']],
    ['(a"b,c")', ['a"b', 'c"']],
    ['(,)', ['', '']],
    ['("")', []],
    ['("",a)', ['', 'a']],
    ['(null)', ['null']],
  ])('is in the list %s', (list, values) => {
    expect(operation(`in.${list}`)).toEqual({ kind: 'in', values })
  })

  test('is in any list of quoted values', () => {
    const values = fc.array(fc.string({ unit: 'binary' }), { minLength: 2 })
    fc.assert(
      fc.property(values, list => {
        const quoted = list.map(value => `"${value.replace(/["\\]/g, '\\$&')}"`)
        expect(operation(`in.(${quoted.join(',')})`)).toEqual({ kind: 'in', values: list })
      }),
    )
  })

  test.each([
    ['', 1],
    ['5', 1],
    ['eq', 3],
    ['eq5', 3],
    ['EQ.5', 1],
    ['eqx.5', 3],
    ['eq(some).5', 4],
    ['not', 4],
    ['not.', 5],
    ['not.not.eq.5', 5],
    ['not.5', 5],
    ['is.nope', 6],
    ['is.', 4],
    ['in.1', 4],
    ['in.(1', 6],
    ['in.("a', 7],
    ['constructor.5', 1],
  ])('that is %j is RST100 at column %i', (text, column) => {
    const { code, message } = refusal(() => read(text))
    expect(code).toBe('RST100')
    expect(message).toBe(`"failed to parse filter (${text})" (line 1, column ${column})`)
  })
})

test('what follows a whole value is not read', () => {
  expect(operation('is.nullx')).toEqual({ kind: 'is', value: 'null' })
  expect(operation('in.(1)x')).toEqual({ kind: 'in', values: ['1'] })
  expect(tree('and(a.eq.1)) or so')).toMatchObject({ kind: 'group' })
})

describe('text after a complete value is not read', () => {
  const equals = (name: string, value: string, negated = false) => ({
    kind: 'filter',
    filter: {
      field: { name, path: [] },
      negated,
      operation: { kind: 'compare', operator: 'eq', quantifier: undefined, value },
    },
  })
  const group = (operator: 'and' | 'or', members: unknown[], negated = false) => ({
    kind: 'group',
    operator,
    negated,
    members,
  })

  test.each([
    ['and(a.eq.1)', group('and', [equals('a', '1')])],
    ['or(a.eq.1,b.eq.2)', group('or', [equals('a', '1'), equals('b', '2')])],
    ['or( a.eq.1, b.eq.2)', group('or', [equals('a', '1'), equals('b', '2')])],
    ['not.and(a.not.eq.1)', group('and', [equals('a', '1', true)], true)],
    [
      'and(or(a.eq.1),not.or(b.eq.2))',
      group('and', [group('or', [equals('a', '1')]), group('or', [equals('b', '2')], true)]),
    ],
    ['and(a.eq."x,y)z")', group('and', [equals('a', 'x,y)z')])],
    ['and(a.eq."x"y)', group('and', [equals('a', '"x"y')])],
    ['and(a.eq.{1,2},b.eq.3)', group('and', [equals('a', '{1,2}'), equals('b', '3')])],
    ['and(a.eq.)', group('and', [equals('a', '')])],
    ['and("a.b".eq.1)', group('and', [equals('a.b', '1')])],
    ['and(and.eq.1)', group('and', [equals('and', '1')])],
    ['and(order.eq.1)', group('and', [equals('order', '1')])],
  ])('%s', (text, expected) => {
    expect(tree(text)).toEqual(expected)
  })

  test('has every kind of filter', () => {
    const filters = 'a->b->>c.in.(1,"2"),d.is.null,e.fts(german).x,f.like(any).{a*},g.isdistinct.1,h.cs.{1,2}'
    expect(tree(`or(${filters})`)).toMatchObject({
      members: [
        {
          filter: {
            field: { name: 'a', path: [{ key: 'b' }, { key: 'c' }] },
            operation: { kind: 'in', values: ['1', '2'] },
          },
        },
        { filter: { operation: { kind: 'is', value: 'null' } } },
        { filter: { operation: { kind: 'search', language: 'german', value: 'x' } } },
        { filter: { operation: { kind: 'compare', quantifier: 'any', value: '{a*}' } } },
        { filter: { operation: { kind: 'isdistinct', value: '1' } } },
        { filter: { operation: { kind: 'plain', value: '{1,2}' } } },
      ],
    })
  })

  test.each([
    ['and()', 5],
    ['and(', 5],
    ['and(a)', 6],
    ['and(a.eq.1', 11],
    ['and(a.eq.1,)', 12],
    ['and(a.xx.1)', 7],
    ['and((a.eq.1))', 5],
    ['and(ä.xx.1)', 7],
  ])('%s is RST100 at column %i', (text, column) => {
    const { code, message } = refusal(() => tree(text))
    expect(code).toBe('RST100')
    expect(message).toMatch(new RegExp(`\\(line 1, column ${column}\\)$`))
  })

  test('has a nesting limit', () => {
    const nested = (depth: number) => `${'and('.repeat(depth)}a.eq.1${')'.repeat(depth)}`
    expect(tree(nested(maximumDepth))).toMatchObject({ kind: 'group' })
    expect(refusal(() => tree(nested(maximumDepth + 1))).code).toBe('RST100')
    expect(refusal(() => tree('and('.repeat(100_000))).code).toBe('RST100')
  })
})
