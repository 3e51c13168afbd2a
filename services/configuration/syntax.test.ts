import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConfigurationSyntaxError } from './errors.ts'
import { MAX_FILE_LENGTH, parseFile, writeBinding } from './syntax.ts'

const read = (text: string, environment: Record<string, string | undefined> = {}) => parseFile(text, environment)
const value = (text: string, environment = {}) => read(`k = ${text}`, environment)[0]?.value

describe('a file', () => {
  test('consists of bindings, comments and empty lines, with LF or CRLF', () => {
    const text =
      '\uFEFF# head\r\n\n  db-pool=5 # five \u2028 \r\napp.settings.Some_name = "a # b"\n\tlog-query\t=\ton\t\n'
    expect(read(text)).toEqual([
      { key: 'db-pool', value: 5, line: 3 },
      { key: 'app.settings.Some_name', value: 'a # b', line: 4 },
      { key: 'log-query', value: true, line: 5 },
    ])
  })

  test('has strings, whole numbers and booleans', () => {
    expect(['"x"', '""', '-12', '0', 'true', 'false', 'on', 'off'].map(text => value(text))).toEqual([
      ...['x', '', -12, 0],
      ...[true, false, true, false],
    ])
  })

  test('has escapes in strings', () => {
    expect(value('"a\\"b\\\\c\\nd\\te\\rf\\u00e9\\ud83d\\ude00"')).toBe('a"b\\c\nd\te\rfé😀')
  })

  test('expands environment variables in strings, and doubled dollar signs', () => {
    expect(value('"<$(ONE)$(EMPTY)> $$5 $$(ONE)"', { ONE: '"$(TWO)\\', EMPTY: '' })).toBe('<"$(TWO)\\> $5 $(ONE)')
  })
})

test.each([
  ['= 1', 1, 1, 'a key'],
  ['1k = 1', 1, 1, 'a key'],
  ['\nkey', 2, 4, '"="'],
  ['key 1', 1, 5, '"="'],
  ['key =', 1, 6, 'a value'],
  ['key = plain', 1, 7, 'a value'],
  ['key = trueish', 1, 7, 'a value'],
  ['key = 1.5', 1, 7, 'a value'],
  ['key = 9999999999999999', 1, 7, 'a value'],
  ['key = "open', 1, 12, 'double quote'],
  ['key = "a" b', 1, 11, 'end of the line'],
  ['key = "\\q"', 1, 8, 'escapes'],
  ['key = "\\u12"', 1, 8, 'escapes'],
  ['key = "\\ud83d"', 1, 8, 'surrogate'],
  ['key = "a$b"', 1, 9, '"$$"'],
  ['key = "$(UN SET)"', 1, 8, '"$$"'],
  ['key = "a$(UNSET)"', 1, 9, 'variable UNSET is not set'],
])('%j is refused with its position', (text, line, column, rule) => {
  const failure = expect.objectContaining({ line, column, message: expect.stringContaining(rule) })
  expect(() => read(text)).toThrow(failure)
})

test('names from Object.prototype are not variables', () => {
  expect(() => value('"$(toString)"')).toThrow(ConfigurationSyntaxError)
})

test('a file over the size limit is not parsed', () => {
  expect(() => read('#'.repeat(MAX_FILE_LENGTH + 1))).toThrow('must not be longer')
  expect(read('#'.repeat(MAX_FILE_LENGTH))).toEqual([])
})

test('the parser reads written values without loss', () => {
  const scalars = fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.boolean())
  const hard = fc.string({ unit: fc.constantFrom('$', '(', ')', '"', '\\', 'A', '\n', '\r', '#', '\u2028', 'u', '0') })
  fc.assert(
    fc.property(fc.oneof(scalars, hard), scalar => {
      const text = writeBinding('some-key', scalar)
      expect(text).not.toMatch(/[\n\r\u2028\u2029]/)
      expect(read(text, { A: 'variable' })).toEqual([{ key: 'some-key', value: scalar, line: 1 }])
    }),
    { numRuns: 2_000 },
  )
})

test('any text gives bindings or a syntax error', () => {
  const pieces = fc.constantFrom(
    'k',
    ' = ',
    '"',
    '$',
    '(A)',
    '\\',
    'u00',
    '#',
    '\n',
    '\r',
    '12',
    'true',
    '\0',
    '\ud800',
  )
  fc.assert(
    fc.property(fc.string({ unit: fc.oneof(pieces, fc.string()) }), text => {
      try {
        read(text, { A: 'x' })
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigurationSyntaxError)
      }
    }),
    { numRuns: 2_000 },
  )
})
