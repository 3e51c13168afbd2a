import fc from 'fast-check'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { ArgumentsError } from '../core/arguments.ts'
import { optionalText, requiredText, toolInput } from './input.ts'

const input = toolInput({
  query: requiredText({ minLength: 1, maxLength: 5 }, 'must be a statement'),
  table: optionalText({ default: 'public' }),
  limit: z.int().min(1).max(1_000).default(100).describe('Rows'),
  format: z.enum(['text', 'json']).default('text'),
  names: z.array(z.string()).max(2).optional(),
})

function errorOf(args: Parameters<typeof input.read>[0]): [string, boolean] | undefined {
  try {
    input.read(args)
    return undefined
  } catch (error) {
    if (error instanceof ArgumentsError) return [error.message, error.isShape]
    throw error
  }
}

test('the schema for clients has the checks, except the checks that only the server needs', () => {
  expect(input.schema).toEqual({
    type: 'object',
    properties: {
      query: { type: 'string', minLength: 1, maxLength: 5 },
      table: { type: 'string', default: 'public' },
      limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 100, description: 'Rows' },
      format: { type: 'string', enum: ['text', 'json'], default: 'text' },
      names: { type: 'array', items: { type: 'string' }, maxItems: 2 },
    },
    required: ['query'],
    additionalProperties: false,
  })
})

test.each<[Parameters<typeof errorOf>[0], ReturnType<typeof errorOf>]>([
  [{ query: '😀'.repeat(5) }, undefined],
  [{}, ['query is required', true]],
  [{ query: 1 }, ['query must be a string', true]],
  [{ query: '' }, ['query must not be empty', false]],
  [{ query: ' ' }, ['query must be a statement', false]],
  [{ query: '😀'.repeat(6) }, ['query must have at most 5 characters', false]],
  [{ query: 'x', limit: 0 }, ['limit must be at least 1', false]],
  [{ query: 'x', limit: 1.5 }, ['limit must be a whole number', true]],
  [{ query: 'x', limit: null }, ['limit must be a number', true]],
  [{ query: 'x', format: 'xml' }, ['format must be one of "text", "json"', false]],
  [{ query: 'x', names: ['a', 1] }, ['names[1] must be a string', true]],
  [{ query: 'x', qurey: 'y' }, ['qurey is unknown; known arguments are query, table, limit, format, names', true]],
])('for the arguments %j, the error is %j', (args, error) => expect(errorOf(args)).toEqual(error))

test('missing arguments have their defaults, and empty texts count as missing', () => {
  expect(input.read({ query: 'x', table: ' ' })).toEqual({ query: 'x', table: undefined, limit: 100, format: 'text' })
})

test('invalid arguments always throw an ArgumentsError', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), args => {
      const error = errorOf(JSON.parse(JSON.stringify(args)))
      if (typeof args.query !== 'string') expect(error).toBeDefined()
    }),
  )
})
