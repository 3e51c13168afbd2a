import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { cpuTimeOf } from '../../testing/cpu-time.ts'
import { ArgumentsError } from '../core/arguments.ts'
import { argumentsCheck } from './arguments.ts'

function errorOf(schema: JsonObject, args: JsonObject): ArgumentsError | undefined {
  try {
    argumentsCheck({ type: 'object', ...schema } as JsonSchema)(args)
    return undefined
  } catch (error) {
    if (error instanceof ArgumentsError) return error
    throw error
  }
}

const query: JsonObject = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  properties: {
    query: { type: 'string', minLength: 1, maxLength: 5 },
    limit: { type: 'integer', minimum: 1 },
    format: { enum: ['text', 'json'] },
    names: { type: 'array', items: { type: 'string', format: 'idn-hostname' }, uniqueItems: true },
    nested: { type: 'object', properties: { deep: { type: 'boolean' } }, additionalProperties: false },
  },
  required: ['query'],
  additionalProperties: false,
}

describe('an error of arguments names the argument and the rule', () => {
  test.each<[JsonObject, string | undefined, boolean?]>([
    [{ query: '😀'.repeat(5), limit: 1, format: 'json', names: ['a', 'b'], nested: { deep: true } }, undefined],
    [{}, 'query is required', true],
    [{ query: 1 }, 'query must be string', true],
    [{ query: '' }, 'query must NOT have fewer than 1 characters', false],
    [{ query: '😀'.repeat(6) }, 'query must NOT have more than 5 characters', false],
    [{ query: 'x', limit: 0 }, 'limit must be >= 1', false],
    [{ query: 'x', limit: '5' }, 'limit must be integer', true],
    [{ query: 'x', format: 'xml' }, 'format must be one of "text","json"', false],
    [{ query: 'x', names: ['a', 1] }, 'names[1] must be string', true],
    [{ query: 'x', names: ['a', 'a'] }, 'names must NOT have duplicate items (items ## 1 and 0 are identical)', false],
    [{ query: 'x', nested: { deep: 1 } }, 'nested.deep must be boolean', true],
    [{ query: 'x', nested: { other: 1 } }, 'nested.other is unknown', true],
  ])('%j: %s', (args, problem, isShape) => {
    const error = errorOf(query, args)
    expect([error?.message, error?.isShape]).toEqual([problem, isShape])
  })

  test('with the errors of each branch if no branch matches', () => {
    const error = errorOf({ anyOf: [{ required: ['a'] }, { required: ['b'] }] }, {})
    expect(error?.message).toBe('a is required; b is required; the arguments must match a schema in anyOf')
    expect(error?.isShape).toBe(false)
  })
})

test.each<[string, JsonObject, JsonObject]>([
  ['the name of a prototype property', { required: ['constructor'] }, {}],
  [
    'a reference to an anchor',
    { $defs: { n: { $anchor: 'n', type: 'integer' } }, properties: { a: { $ref: '#n' } } },
    { a: 'x' },
  ],
  ['a reference to itself', { properties: { a: { $ref: '#' } }, additionalProperties: false }, { a: { a: { b: 1 } } }],
  // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
  ['a condition', { if: { required: ['a'] }, then: { required: ['b'] } }, { a: 1 }],
  ['an exclusion', { not: { required: ['a'] } }, { a: 1 }],
])('%s is checked', (_, schema, args) => {
  expect(errorOf(schema, args)).toBeInstanceOf(ArgumentsError)
})

const list = (keywords: JsonObject): JsonObject => ({ properties: { a: { type: 'array', ...keywords } } })

test.each<[string, JsonObject, JsonObject[string], boolean]>([
  [
    'members in another order',
    { uniqueItems: true },
    [
      { a: 1, b: [2] },
      { b: [2], a: 1 },
    ],
    false,
  ],
  ['0 and -0', { uniqueItems: true }, [0, -0], false],
  ['a name of a prototype property', { uniqueItems: true, items: { type: 'string' } }, ['valueOf', 'valueOf'], false],
  [
    'values of other types',
    { uniqueItems: true },
    [1, '1', '#1', true, 'true', null, 'null', [], {}, '', [1], ['1']],
    true,
  ],
  ['infinity and null', { uniqueItems: true }, [Number.POSITIVE_INFINITY, null], true],
  ['a member that is nested', { uniqueItems: true }, [{ a: { b: 1 } }, { a: { b: 2 } }, { a: 'b' }], true],
  ['duplicates, if they are allowed', { uniqueItems: false }, [1, 1], true],
  ['an object that the enum contains', { items: { enum: ['x', { b: 1, a: [0] }] } }, [{ a: [-0], b: 1 }, 'x'], true],
  ['an object that the enum does not contain', { items: { enum: ['x', '{}', { a: 1 }] } }, [{ a: 1 }, {}], false],
  ['names of methods in an enum', { items: { enum: [{ valueOf: 1 }] } }, [{ valueOf: 1 }], true],
  ['a constant null', { items: { const: null } }, [null], true],
  ['a text that differs from the constant', { items: { const: 1 } }, ['1'], false],
  ['a constant array', { const: [{ a: 1, b: 2 }] }, [{ b: 2, a: 1 }], true],
  ['a value of an empty enum', { items: { enum: [] } }, ['x'], false],
])('equality in a list: %s', (_, keywords, a, isAccepted) => {
  expect(errorOf(list(keywords), { a }) === undefined).toBe(isAccepted)
})

describe('limits how long a check can block the server', () => {
  const objects = (count: number, of: (index: number) => JsonObject) => Array.from({ length: count }, (_, i) => of(i))

  test.each<[string, JsonObject, () => JsonObject[string]]>([
    ['objects that must be unique', { uniqueItems: true }, () => objects(32_000, i => ({ i }))],
    [
      'a large object and a large enum',
      { items: { enum: objects(1_000, i => ({ [i]: 1 })) } },
      () => [Object.fromEntries(Array.from({ length: 32_000 }, (_, i) => [`k${i}`, i]))],
    ],
  ])('%s takes linear time', (_, keywords, value) => {
    const a = value()
    expect(cpuTimeOf(() => errorOf(list(keywords), { a })) / 1_000).toBeLessThan(900)
  })

  test('does not match a slow pattern against a text that is too long', () => {
    const a = { maxLength: 20, pattern: '^(a+)+$' }
    expect(errorOf({ properties: { a } }, { a: `${'a'.repeat(40)}b` })?.message).toContain('20 characters')
  })

  const anyItself = { anyOf: [{ $ref: '#/$defs/n' }, { $ref: '#/$defs/n' }] }
  test.each<[string, JsonObject, JsonObject[string]]>([
    ['a slow pattern', { items: { pattern: '^(a+)+$' } }, [`${'a'.repeat(40)}b`]],
    [
      'branches that refer to themselves',
      { items: { $ref: '#/$defs/n' } },
      JSON.parse('['.repeat(40) + ']'.repeat(40)),
    ],
  ])('%s: refuses the arguments', (_, keywords, a) => {
    const n = { type: 'array', minItems: 1, items: anyItself }
    const check = argumentsCheck({ type: 'object', ...list(keywords), $defs: { n } } as JsonSchema, 20)
    expect(() => check({ a })).toThrow(
      new ArgumentsError('the arguments take longer than 20 ms to check: send fewer or shorter ones', false),
    )
    expect(() => check({ a: 1 })).toThrow('a must be array')
  })

  test('an error lists few problems, with short names', () => {
    const anyOf = Array.from({ length: 30 }, (_, i) => ({ required: [`a${i}`] }))
    expect(errorOf({ anyOf }, {})?.message).toMatch(/ a19 is required; the arguments must match a schema in anyOf$/)
    const unknown = errorOf({ additionalProperties: false }, { ['x'.repeat(10_000)]: 1 })?.message
    expect(unknown).toBe(`${'x'.repeat(199)}… is unknown`)
  })
})

// biome-ignore-start lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
test.each<[JsonObject]>([
  [{ if: { minLength: 1 } }],
  [{ then: { minLength: 1 } }],
  [{ else: { minLength: 1 } }],
  [{ enum: [] }],
  [{ minContains: 1 }],
  [{ contains: {}, minContains: 0 }],
  [{ properties: { ab: {} }, patternProperties: { '^a': {} } }],
])('accepts the schema %j, although a part of it has no effect', a => {
  expect(() => argumentsCheck({ type: 'object', properties: { a } } as JsonSchema)).not.toThrow()
})
// biome-ignore-end lint/suspicious/noThenProperty: the name of a keyword of JSON Schema

test('names of prototype properties are not arguments', () => {
  expect(errorOf({ properties: { toString: { type: 'string' } } }, {})).toBeUndefined()
})

test('two schemas can have the same $id', () => {
  const schema = (type: string): JsonObject => ({ $id: 'https://example.com/a', properties: { a: { type } } })
  expect(errorOf(schema('string'), { a: 'x' })).toBeUndefined()
  expect(errorOf(schema('integer'), { a: 1 })).toBeUndefined()
})

test.each([
  [{ properties: { a: { unknown: 1 } } }, 'unknown keyword: "unknown"'],
  [{ properties: { a: { type: 'text' } } }, 'schema is invalid'],
  [{ properties: { a: { $ref: 'https://example.com/b' } } }, "can't resolve reference"],
])('refuses the schema %j: %s', (schema, problem) => {
  expect(() => argumentsCheck({ type: 'object', ...schema } as JsonSchema)).toThrow(problem)
})
