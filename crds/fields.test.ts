/** The values that single fields accept. */
import { describe, expect, test } from 'vitest'
import { databaseName, text, timestamp, uuid } from './fields.ts'
import { isSettingForSizes, size } from './size.ts'

const accepts = (schema: { safeParse(value: unknown): { success: boolean } }, value: unknown) =>
  schema.safeParse(value).success

test.each<[string, boolean]>([
  ['a', true],
  ['shop2', true],
  ['a'.repeat(50), true],
  ['a'.repeat(51), false],
  ['2shop', false],
  ['Shop', false],
  ['my-shop', false],
  ['shop\n', false],
  ['', false],
])('a database can have the name %j: %j', (name, is) => {
  expect(accepts(databaseName, name)).toBe(is)
})

test.each<[string, boolean]>([
  ['0197a2b4-0000-4000-8000-00000000000f', true],
  ['0197A2B4-0000-4000-8000-00000000000F', false],
  ['x0197a2b4-0000-4000-8000-00000000000f', false],
  ['0197a2b4-0000-4000-8000-00000000000f0', false],
  ['0197a2b40000-4000-8000-00000000000f', false],
])('%s is a UUID: %j', (value, is) => {
  expect(accepts(uuid, value)).toBe(is)
})

test.each<[string, boolean]>([
  ['2026-01-01T00:00:00Z', true],
  ['2026-01-01T01:00:00+01:00', true],
  ['2026-01-01T00:00:00', false],
  ['2026-01-01', false],
])('%s is a time: %j', (value, is) => {
  expect(accepts(timestamp, value)).toBe(is)
})

describe('text', () => {
  test('has its length counted by code points, as the API server does', () => {
    const short = text(2, 1)
    expect(['', 'a', 'ab', 'abc', '😀😀', '😀😀😀', 'a😀b'].map(value => accepts(short, value))).toEqual([
      ...[false, true, true, false, true, false, false],
    ])
    expect(accepts(text(2), '')).toBe(true)
  })
  test('is refused with its bounds in the message', () => {
    const messagesOf = (schema: ReturnType<typeof text>, value: string) =>
      schema.safeParse(value).error?.issues.map(({ message }) => message)
    expect(messagesOf(text(2), 'abc')).toEqual(['must be at most 2 characters long'])
    expect(messagesOf(text(2, 1), '')).toEqual(['must be at least 1 character long'])
    expect(messagesOf(text(9, 3), 'ab')).toEqual(['must be at least 3 characters long'])
  })
  test('must not contain half of a surrogate pair', () => {
    expect(accepts(text(9), 'a\ud83d')).toBe(false)
  })
  test('has its bounds in the schema', () => {
    expect([text(2, 1).meta(), text(2).meta()]).toEqual([{ minLength: 1, maxLength: 2 }, { maxLength: 2 }])
  })
})

test.each<[string, boolean]>([
  ['work_mem', true],
  ['random_page_cost', true],
  // Settings that would lose data, or grant access.
  ['synchronous_commit', false],
  ['zero_damaged_pages', false],
  ['wal_level', false],
  ['archive_command', false],
  ['ssl_ca_file', false],
  ['include_dir', false],
  ['unix_socket_directories', false],
  ['my_ssl', true],
])('a size may set %s: %j', (name, is) => {
  expect(isSettingForSizes(name)).toBe(is)
})

test.each<[string, boolean]>([
  ['work_mem', true],
  ['auto_explain.log_min_duration', true],
  ['_a1', true],
  ['a'.repeat(63), true],
  ['a'.repeat(64), false],
  ['Work_mem', false],
  ['1a', false],
  ['a b', false],
  ["a\nssl = 'off'", false],
])('%j is the name of a setting: %j', (name, is) => {
  const shape = size.spec.shape.shape.shape.postgresSettings
  expect(accepts(shape, { [name]: '1' })).toBe(is)
})
