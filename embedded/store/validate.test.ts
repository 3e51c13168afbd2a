/** Structural schemas: which values are refused, with which messages. */
import { describe, expect, test } from 'vitest'
import { withDefaults } from './defaults.ts'
import { StoreError } from './errors.ts'
import { freeze, type JsonValue, share } from './json.ts'
import { compileSchema } from './schema.ts'
import { unknownFields, validate } from './validate.ts'

const problemsOf = (schema: object, value: JsonValue, old?: JsonValue): string[] => {
  const node = compileSchema({ type: 'object', properties: { x: schema } }, '')
  const problems =
    old === undefined ? validate(node, { x: value }) : validate(node, { x: share(old, value) }, { x: old })
  return problems.map(({ text }) => text)
}

describe('a schema refuses', () => {
  const cases: [string, object, JsonValue, string[]][] = [
    [
      'text for a number',
      { type: 'integer' },
      '1',
      ['x: Invalid value: "string": x in body must be of type integer: "string"'],
    ],
    [
      'a fraction for an integer',
      { type: 'integer' },
      1.5,
      ['x: Invalid value: "number": x in body must be of type integer: "number"'],
    ],
    [
      'an object for a list',
      { type: 'array' },
      {},
      ['x: Invalid value: "object": x in body must be of type array: "object"'],
    ],
    ['null', { type: 'string' }, null, ['x: Invalid value: "null": x in body must be of type string: "null"']],
    [
      'a boolean for int-or-string',
      { 'x-kubernetes-int-or-string': true },
      true,
      ['x: Invalid value: "boolean": x in body must be of type integer,string: "boolean"'],
    ],
    [
      'a value that the enum does not contain',
      { type: 'string', enum: ['16', '17'] },
      '15',
      ['x: Unsupported value: "15": supported values: "16", "17"'],
    ],
    [
      'a number below the minimum',
      { type: 'integer', minimum: 1 },
      0,
      ['x: Invalid value: 0: x in body should be greater than or equal to 1'],
    ],
    [
      'a number above the maximum',
      { type: 'number', maximum: 1 },
      1.5,
      ['x: Invalid value: 1.5: x in body should be less than or equal to 1'],
    ],
    [
      'text below the minimum length',
      { type: 'string', minLength: 2 },
      'a',
      ['x: Invalid value: "a": x in body should be at least 2 chars long'],
    ],
    [
      'text above the maximum length, counted in characters',
      { type: 'string', maxLength: 2 },
      '🐘🐘🐘',
      ['x: Too long: may not be more than 2 bytes'],
    ],
    [
      'text that does not match the pattern',
      { type: 'string', pattern: '^a+$' },
      'b',
      ['x: Invalid value: "b": x in body should match \'^a+$\''],
    ],
    [
      'a 30th of February',
      { type: 'string', format: 'date-time' },
      '2026-02-30T00:00:00Z',
      ['x: Invalid value: "2026-02-30T00:00:00Z": x in body must be of type date-time: "2026-02-30T00:00:00Z"'],
    ],
    [
      'a time without a zone',
      { type: 'string', format: 'date-time' },
      '2026-01-01T00:00:00',
      ['x: Invalid value: "2026-01-01T00:00:00": x in body must be of type date-time: "2026-01-01T00:00:00"'],
    ],
    ['too many items', { type: 'array', maxItems: 1 }, [1, 2], ['x: Too many: 2: must have at most 1 items']],
    ['too few items', { type: 'array', minItems: 1 }, [], ['x: Invalid value: x in body should have at least 1 items']],
    [
      'too many properties',
      { type: 'object', maxProperties: 0, additionalProperties: { type: 'string' } },
      { a: '' },
      ['x: Too many: 1: must have at most 0 items'],
    ],
    [
      'a wrong value in a map',
      { type: 'object', additionalProperties: { type: 'string' } },
      { a: 1 },
      ['x.a: Invalid value: "integer": x.a in body must be of type string: "integer"'],
    ],
    [
      'a duplicate in a set',
      { type: 'array', 'x-kubernetes-list-type': 'set' },
      ['a', 'b', 'a'],
      ['x[2]: Duplicate value: "a"'],
    ],
    [
      'a duplicate key in a map list',
      { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] },
      [{ k: 'a' }, { k: 'a', v: 1 }],
      ['x[1]: Duplicate value: {"k":"a"}'],
    ],
    [
      'a missing and a wrong field at once, and does not run the rules that need both fields',
      {
        type: 'object',
        required: ['a', 'b'],
        properties: { a: { type: 'string' }, b: { type: 'integer' } },
        'x-kubernetes-validations': [{ rule: 'self.a == string(self.b)', message: 'alike' }],
      },
      { b: 'x' },
      ['x.a: Required value', 'x.b: Invalid value: "string": x.b in body must be of type integer: "string"'],
    ],
  ]
  for (const [what, schema, value, expected] of cases) {
    test(what, () => expect(problemsOf(schema, value)).toEqual(expected))
  }
})

test('a valid value is accepted', () => {
  expect(problemsOf({ type: 'string', nullable: true, enum: ['a'] }, null)).toEqual([])
  expect(problemsOf({ type: 'string', maxLength: 2, minLength: 2 }, '🐘🐘')).toEqual([])
  expect(problemsOf({ type: 'number' }, 1)).toEqual([])
  expect(problemsOf({ 'x-kubernetes-int-or-string': true }, '10%')).toEqual([])
  for (const time of ['2024-02-29T23:59:59.123456Z', '2026-01-01T00:00:00+02:00']) {
    expect(problemsOf({ type: 'string', format: 'date-time' }, time)).toEqual([])
  }
})

describe('rules', () => {
  const ruled = (type: string, rule: string, more: object = {}) => ({
    type,
    ...more,
    'x-kubernetes-validations': [{ rule, message: 'broken' }],
  })

  test('can use integers, maps, lists, text and conditionals', () => {
    expect(problemsOf(ruled('integer', "string(self) == '7'"), 7)).toEqual([])
    expect(problemsOf(ruled('integer', 'self % 2 == 1'), 7)).toEqual([])
    expect(problemsOf(ruled('string', "self.startsWith('a') && self.matches('^a[0-9]$')"), 'a1')).toEqual([])
    expect(
      problemsOf(ruled('array', 'size(self) > 1 && self.exists(i, i > 2)', { items: { type: 'integer' } }), [1, 3]),
    ).toEqual([])
    const map = { additionalProperties: { type: 'string' } }
    expect(problemsOf(ruled('object', "self.all(k, !(k in ['b']))", map), { a: '1' })).toEqual([])
    expect(problemsOf(ruled('object', "self.all(k, !(k in ['b']))", map), { b: '1' })).toEqual([
      'x: Invalid value: broken',
    ])
    const pair = { properties: { a: { type: 'string' }, b: { type: 'string' } } }
    expect(problemsOf(ruled('object', 'has(self.a) ? has(self.b) : !has(self.b)', pair), { a: '' })).toHaveLength(1)
  })

  test("report a scalar's value, and the field that they name", () => {
    expect(problemsOf(ruled('string', "self == 'a'"), 'b')).toEqual(['x: Invalid value: "b": broken'])
    const schema = {
      type: 'object',
      properties: { a: { type: 'string' } },
      'x-kubernetes-validations': [
        { rule: 'has(self.a)', message: 'say a', fieldPath: '.a', reason: 'FieldValueRequired' },
      ],
    }
    expect(problemsOf(schema, {})).toEqual(['x.a: Required value: say a'])
  })

  test('that fail to evaluate refuse the value, with the reason', () => {
    expect(problemsOf(ruled('object', 'self.a == 1', { 'x-kubernetes-preserve-unknown-fields': true }), {})).toEqual([
      expect.stringContaining('evaluating rule: broken'),
    ])
  })

  test('with oldSelf run only if there is an old value', () => {
    const immutable = ruled('string', 'self == oldSelf')
    expect(problemsOf(immutable, 'b')).toEqual([])
    expect(problemsOf(immutable, 'a', 'a')).toEqual([])
    expect(problemsOf(immutable, 'b', 'a')).toEqual(['x: Invalid value: "b": broken'])
  })

  test('with oldSelf find a map-list item by its keys, and find no item in other lists', () => {
    const item = { type: 'object', properties: { k: { type: 'string' }, v: ruled('string', 'self == oldSelf') } }
    const mapList = { type: 'array', items: item, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] }
    const before = freeze<JsonValue>([
      { k: 'a', v: '1' },
      { k: 'b', v: '2' },
    ])
    expect(
      problemsOf(
        mapList,
        [
          { k: 'b', v: '2' },
          { k: 'c', v: '9' },
        ],
        before,
      ),
    ).toEqual([])
    expect(problemsOf(mapList, [{ k: 'b', v: '3' }], before)).toEqual(['x[0].v: Invalid value: "3": broken'])
    expect(problemsOf({ type: 'array', items: item }, [{ k: 'a', v: '3' }], before)).toEqual([])
  })
})

test('a write checks only the values that it changes', () => {
  const schema = {
    type: 'object',
    properties: { old: { type: 'string', maxLength: 1 }, other: { type: 'string', maxLength: 1 } },
  }
  const before = freeze<JsonValue>({ old: 'too long', other: '' })
  expect(problemsOf(schema, { old: 'too long', other: 'a' }, before)).toEqual([])
  expect(problemsOf(schema, { old: 'still too long', other: '' }, before)).toEqual([
    'x.old: Too long: may not be more than 1 bytes',
  ])
})

test('only rules with oldSelf check an unchanged value', () => {
  const rules = [
    { rule: "self == 'a'", message: 'new rule' },
    { rule: "oldSelf != 'b'", message: 'cannot leave b' },
  ]
  const properties = { s: { type: 'string', 'x-kubernetes-validations': rules }, other: { type: 'string' } }
  const before = freeze<JsonValue>({ s: 'b', other: '' })
  expect(problemsOf({ type: 'object', properties }, { s: 'b', other: 'x' }, before)).toEqual([
    'x.s: Invalid value: "b": cannot leave b',
  ])
})

test('unknown fields are reported at any depth, except where the schema preserves them', () => {
  const node = compileSchema(
    {
      type: 'object',
      properties: {
        list: { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } },
        map: { type: 'object', additionalProperties: { type: 'object', properties: {} } },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      },
    },
    '',
  )
  const value: JsonValue = { list: [{ a: '' }, { b: '' }], map: { k: { c: 1 } }, free: { d: { e: 1 } }, f: 1 }
  expect(unknownFields(node, value)).toEqual(['list[1].b', 'map.k.c', 'f'])
})

test('defaults are set in every object that exists, also in items and map values', () => {
  const inside = { type: 'object', properties: { n: { type: 'integer', default: 1 } } }
  const node = compileSchema(
    {
      type: 'object',
      properties: {
        given: inside,
        absent: inside,
        made: { ...inside, default: {} },
        list: { type: 'array', items: inside },
        map: { type: 'object', additionalProperties: inside },
        text: { type: 'string', default: 'x' },
      },
    },
    '',
  )
  expect(withDefaults(node, { given: {}, list: [{}, { n: 2 }], map: { k: {} }, text: null })).toEqual({
    given: { n: 1 },
    made: { n: 1 },
    list: [{ n: 1 }, { n: 2 }],
    map: { k: { n: 1 } },
    text: 'x',
  })
})

test('a schema that cannot be enforced is refused when the store opens', () => {
  const refusal = (schema: object): StoreError => {
    try {
      compileSchema({ type: 'object', properties: { x: schema } }, '')
    } catch (error) {
      if (error instanceof StoreError) return error
    }
    throw new Error('the schema was accepted')
  }
  expect(refusal({ oneOf: [] }).message).toContain('x: the embedded store cannot enforce the schema keyword oneOf')
  expect(refusal({ type: 'string', pattern: '(' }).message).toContain('does not compile')
  const rule = refusal({ type: 'string', 'x-kubernetes-validations': [{ rule: 'self ==', message: '' }] })
  expect(rule.message).toContain('x: the rule "self ==" does not compile')
  const unknown = refusal({ type: 'string', 'x-kubernetes-validations': [{ rule: 'other == self', message: '' }] })
  expect(unknown.reason).toBe('definition')
  const optional = { rule: 'self == oldSelf', message: '', optionalOldSelf: true }
  expect(refusal({ type: 'string', 'x-kubernetes-validations': [optional] }).message).toContain(
    'x: the embedded store does not support the rule keyword optionalOldSelf',
  )
})
