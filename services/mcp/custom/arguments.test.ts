import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
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

  test('with each branch where none of them fits', () => {
    const error = errorOf({ anyOf: [{ required: ['a'] }, { required: ['b'] }] }, {})
    expect(error?.message).toBe('a is required; b is required; the arguments must match a schema in anyOf')
    expect(error?.isShape).toBe(false)
  })
})

test.each<[string, JsonObject, JsonObject]>([
  ['the name of a prototype', { required: ['constructor'] }, {}],
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

test('names of prototypes are not arguments', () => {
  expect(errorOf({ properties: { toString: { type: 'string' } } }, {})).toBeUndefined()
})

test('schemas with one $id do not know each other', () => {
  const schema = (type: string): JsonObject => ({ $id: 'https://example.com/a', properties: { a: { type } } })
  expect(errorOf(schema('string'), { a: 'x' })).toBeUndefined()
  expect(errorOf(schema('integer'), { a: 1 })).toBeUndefined()
})

test.each([
  [{ properties: { a: { unknown: 1 } } }, 'unknown keyword: "unknown"'],
  [{ properties: { a: { type: 'text' } } }, 'schema is invalid'],
  [{ properties: { a: { $ref: 'https://example.com/b' } } }, "can't resolve reference"],
])('the schema %j is refused: %s', (schema, problem) => {
  expect(() => argumentsCheck({ type: 'object', ...schema } as JsonSchema)).toThrow(problem)
})
