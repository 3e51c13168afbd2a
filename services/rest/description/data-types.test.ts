import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { describeDefault, unqualify, withoutSchema } from './data-types.ts'

describe('describeDefault', () => {
  test.each([
    ['text', "'default'::text", 'default'],
    ['text', "''::text", ''],
    ['text', "'it''s'::text", "it's"],
    ['text', "'a' || 'b'", "'a' || 'b'"],
    ['text', String.raw`E'a\\b'::text`, String.raw`a\b`],
    ['character', "'x'::bpchar", 'x'],
    ['date', "'1900-01-01'::date", '1900-01-01'],
    ['time without time zone', "'13:00:00'::time without time zone", '13:00:00'],
    ['timestamp with time zone', 'now()', 'now()'],
    ['boolean', 'false', false],
    ['boolean', 'random() > 0.5', undefined],
    ['integer', '42', 42],
    ['integer', "'-1'::integer", -1],
    ['numeric', '42.2', 42.2],
    ['numeric', "'NaN'::numeric", undefined],
    ['bigint', '9223372036854775807', undefined],
    ['integer', "nextval('test.items_id_seq'::regclass)", undefined],
    ['jsonb', "'{}'::jsonb", undefined],
    ['text[]', "'{}'::text[]", undefined],
    ['text', null, undefined],
  ])('of %s: %s', (type, expression, value) => {
    expect(describeDefault(type, expression)).toBe(value)
  })

  test('a string constant is returned as its string', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), text => {
        expect(describeDefault('text', `'${text.replaceAll("'", "''")}'::text`)).toBe(text)
      }),
    )
  })
})

describe('type names without schemas', () => {
  const searchPath = new Set(['test', 'A "b".c'])

  test.each([
    ['test.mood', 'mood'],
    ['test."Mood.x"[]', '"Mood.x"[]'],
    ['"A ""b"".c".mood', 'mood'],
    ['other.mood', 'other.mood'],
    ['"te.st".mood', '"te.st".mood'],
    ['double precision', 'double precision'],
    ['"test.mood"', '"test.mood"'],
  ])('%s, as the search path prints it', (type, seen) => {
    expect(unqualify(type, searchPath)).toBe(seen)
  })

  test('any schema can be removed', () => {
    expect(['other.mood', '"o.o".mood[]', 'integer', '"a.b"'].map(withoutSchema)).toEqual([
      'mood',
      'mood[]',
      'integer',
      '"a.b"',
    ])
  })
})
