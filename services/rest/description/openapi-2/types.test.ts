import { describe, expect, test } from 'vitest'
import { describeType } from './types.ts'

describe('describeType', () => {
  test.each([
    ['character varying', { type: 'string', format: 'character varying' }],
    ['boolean', { type: 'boolean', format: 'boolean' }],
    ['smallint', { type: 'integer', format: 'int32' }],
    ['integer', { type: 'integer', format: 'int32' }],
    ['bigint', { type: 'integer', format: 'int64' }],
    ['numeric', { type: 'number', format: 'numeric' }],
    ['real', { type: 'number', format: 'real' }],
    ['double precision', { type: 'number', format: 'double precision' }],
    ['jsonb', { type: undefined, format: 'jsonb' }],
    ['test.mood', { type: 'string', format: 'test.mood' }],
    ['constructor', { type: 'string', format: 'constructor' }],
    ['bigint[]', { type: 'array', format: 'bigint[]', items: { type: 'integer' } }],
    ['json[]', { type: 'array', format: 'json[]', items: { type: undefined } }],
  ])('%s', (type, described) => {
    expect(describeType(type)).toStrictEqual(described)
  })
})
