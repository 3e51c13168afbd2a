import { expect, test } from 'vitest'
import { hasRewrittenId } from './message-text.ts'

test.each([
  ['[{"id":1},{"id":2.0}]', true],
  ['[{"id":1,"a":{"id":2.0}}]', false],
  ['{"a":"\\"id\\":1.0","id":1}', false],
  [' {"id" : 1E2}', true],
])('%s has an id that JSON.parse rewrites: %s', (text, expected) => {
  expect(hasRewrittenId(text)).toBe(expected)
})
