import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { compileSchema } from './schema.ts'

const schemaOf = (properties: JsonObject, more: JsonObject = {}): JsonSchema => ({
  type: 'object',
  properties,
  ...more,
})
const problemOf = (schema: JsonSchema, args: JsonObject) => compileSchema(schema)(args)?.problem

const query = schemaOf(
  {
    query: { type: 'string', minLength: 1, maxLength: 5 },
    limit: { type: 'integer', minimum: 1, maximum: 1_000 },
    format: { enum: ['text', 'json'] },
    names: { type: 'array', items: { type: 'string' }, maxItems: 2, uniqueItems: true },
    nested: { type: 'object', properties: { deep: { type: 'boolean' } }, additionalProperties: false },
  },
  { required: ['query'], additionalProperties: false },
)

describe('what is wrong with arguments', () => {
  test.each<[JsonObject, string | undefined]>([
    [{ query: 'x' }, undefined],
    [{ query: 'x', limit: 1_000, format: 'json', names: ['a', 'b'], nested: { deep: true } }, undefined],
    [{}, 'query is required'],
    [{ query: 1 }, 'query must be a string'],
    [{ query: '' }, 'query must have text in it: it is empty'],
    [{ query: 'x'.repeat(6) }, 'query must have at most 5 characters'],
    [{ query: '😀'.repeat(5) }, undefined],
    [{ query: 'x', limit: 0 }, 'limit must be at least 1'],
    [{ query: 'x', limit: 1.5 }, 'limit must be an integer'],
    [{ query: 'x', limit: '5' }, 'limit must be an integer'],
    [{ query: 'x', format: 'xml' }, 'format must be one of "text", "json"'],
    [{ query: 'x', names: ['a', 1] }, 'names[1] must be a string'],
    [{ query: 'x', names: ['a', 'a'] }, 'names must not have an item twice'],
    [{ query: 'x', names: ['a', 'b', 'c'] }, 'names must have at most 2 items'],
    [{ query: 'x', nested: { deep: 1 } }, 'nested.deep must be a boolean'],
    [{ query: 'x', nested: { other: 1 } }, 'nested.other is unknown; known are deep'],
    [{ query: 'x', qurey: 'y' }, 'qurey is unknown; known are query, limit, format, names, nested'],
  ])('%j: %s', (args, problem) => {
    expect(problemOf(query, args)).toBe(problem)
  })

  test('are told by whether they are of the shape of the arguments', () => {
    const check = compileSchema(query)
    expect(check({})?.isShape).toBe(true)
    expect(check({ query: 1 })?.isShape).toBe(true)
    expect(check({ query: '' })?.isShape).toBe(false)
  })

  test.each<[string, JsonObject, JsonObject, boolean]>([
    ['anyOf', { anyOf: [{ required: ['a'] }, { required: ['b'] }] }, { b: 1 }, true],
    ['anyOf', { anyOf: [{ required: ['a'] }, { required: ['b'] }] }, { c: 1 }, false],
    ['oneOf', { oneOf: [{ required: ['a'] }, { required: ['b'] }] }, { a: 1, b: 1 }, false],
    ['allOf', { allOf: [{ required: ['a'] }, { required: ['b'] }] }, { a: 1 }, false],
    ['not', { not: { required: ['a'] } }, { a: 1 }, false],
    ['const', { properties: { a: { const: { x: [1] } } } }, { a: { x: [1] } }, true],
    ['const', { properties: { a: { const: { x: [1] } } } }, { a: { x: [2] } }, false],
    ['pattern', { properties: { a: { pattern: '^x+$' } } }, { a: 'xy' }, false],
    ['exclusiveMinimum', { properties: { a: { exclusiveMinimum: 0 } } }, { a: 0 }, false],
    ['exclusiveMaximum', { properties: { a: { exclusiveMaximum: 1 } } }, { a: 0.5 }, true],
    ['multipleOf', { properties: { a: { multipleOf: 3 } } }, { a: 7 }, false],
    ['minItems', { properties: { a: { minItems: 1 } } }, { a: [] }, false],
    ['prefixItems', { properties: { a: { prefixItems: [{ type: 'string' }], items: false } } }, { a: ['x'] }, true],
    ['prefixItems', { properties: { a: { prefixItems: [{ type: 'string' }], items: false } } }, { a: ['x', 1] }, false],
    ['minProperties', { minProperties: 1 }, {}, false],
    ['type list', { properties: { a: { type: ['string', 'null'] } } }, { a: null }, true],
    ['type list', { properties: { a: { type: ['string', 'null'] } } }, { a: 1 }, false],
    ['additionalProperties', { additionalProperties: { type: 'integer' } }, { a: 'x' }, false],
    ['$ref', { $defs: { n: { type: 'integer' } }, properties: { a: { $ref: '#/$defs/n' } } }, { a: 'x' }, false],
    [
      '$anchor',
      { $defs: { n: { $anchor: 'num', type: 'integer' } }, properties: { a: { $ref: '#num' } } },
      { a: 1 },
      true,
    ],
    [
      '$ref to itself',
      { properties: { a: { $ref: '#' } }, additionalProperties: false },
      { a: { a: { b: 1 } } },
      false,
    ],
    // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
    ['if', { if: { required: ['a'] }, then: { required: ['b'] } }, { a: 1 }, false],
    ['else', { if: { required: ['a'] }, else: { required: ['b'] } }, { c: 1 }, false],
  ])('%s is heeded: %j', (_, more, args, fits) => {
    expect(problemOf({ type: 'object', ...more }, args) === undefined).toBe(fits)
  })
})

test('a schema with a keyword that is not known is refused', () => {
  expect(() => compileSchema(schemaOf({ a: { contains: {} } }))).toThrow(
    'the keyword contains of a schema is not known',
  )
})

test('a reference that leads out of the schema is refused', () => {
  const schema = schemaOf({ a: { $ref: 'https://example.com/schema' } })
  expect(() => compileSchema(schema)({ a: 1 })).toThrow('leads nowhere inside its schema')
})

test('no arguments make it throw, and names of prototypes are names like any other', () => {
  const check = compileSchema(query)
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), args => {
      const violation = check(JSON.parse(JSON.stringify(args)))
      if (typeof args.query !== 'string') expect(violation).toBeDefined()
    }),
  )
  expect(problemOf(schemaOf({}, { required: ['constructor'] }), {})).toBe('constructor is required')
  expect(problemOf(schemaOf({ toString: { type: 'string' } }), {})).toBe(undefined)
})
