import { expect, test } from 'vitest'
import { hasRewrittenId } from './message-text.ts'

test.each([
  ['[{"id":1},{"id":2.0}]', true],
  ['[{"id":1,"a":{"id":2.0}}]', false],
  ['{"a":"\\"id\\":1.0","id":1}', false],
  [' {"id" : 1E2}', true],
  ['{"\\u0069d":1.0}', true],
  ['{"\\u0069\\u0064":1.5}', false],
  ['{"a":"\\\\","id":1.0}', true],
  ['{"a":"\\\\\\"id\\\\","id":1.0}', true],
  ['{"a":{"\\u0069d":1.0},"id":1}', false],
])('%s has an id that JSON.parse rewrites: %s', (text, expected) => {
  expect(hasRewrittenId(text)).toBe(expected)
})

test('checks the id of a message of 10 MB like the id of a short message', () => {
  const megabytes = 10_000_000
  for (const value of [
    `"${'x'.repeat(megabytes)}"`,
    `"${'\\\\'.repeat(megabytes / 2)}"`,
    `"${'\\"'.repeat(megabytes / 2)}"`,
    `1.${'0'.repeat(megabytes)}`,
    `[${'[],'.repeat(megabytes / 3)}[]]`,
  ]) {
    expect(hasRewrittenId(`{"a":${value},"id":1.0}`)).toBe(true)
    expect(hasRewrittenId(`{"a":${value},"b":{"id":1.0},"id":1}`)).toBe(false)
  }
  expect(hasRewrittenId(`{"id":1.${'0'.repeat(megabytes)}}`)).toBe(true)
})
