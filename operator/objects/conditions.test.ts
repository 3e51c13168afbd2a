import { expect, test } from 'vitest'
import { conditionsAfter, conditionTypes, no } from './conditions.ts'

test('a message truncated within a character equals the stored message', () => {
  const message = `${'a'.repeat(999)}\u{1F600} and more`
  const [condition] = conditionsAfter(conditionTypes(['Ready'], []), [], { Ready: no('Broken', message) }, 1, 0)
  expect(condition?.message).toBe(`${'a'.repeat(999)}\uFFFD`)
  // The text that an API server returns: JSON in UTF-8.
  expect(Buffer.from(condition?.message ?? '').toString()).toBe(condition?.message)
})
