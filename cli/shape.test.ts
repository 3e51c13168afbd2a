import { expect, test } from 'vitest'
import { byName, exactly, list, matching, nullish, number, object, optional, sized, string } from './shape.ts'

const item = object({ id: string, size: optional(number), label: nullish(string) })

test.each([
  [{ id: 'a' }, true],
  [{ id: 'a', size: 1, label: null, more: {} }, true],
  [{ id: 'a', size: undefined }, true],
  [{ id: 1 }, false],
  [{ size: 1 }, false],
  [{ id: 'a', size: null }, false],
  [{ id: 'a', size: Number.POSITIVE_INFINITY }, false],
  [{ id: 'a', label: 1 }, false],
  [[], false],
  [null, false],
  [undefined, false],
  ['a', false],
])('%j matches the shape: %j', (value, expected) => {
  expect(item(value)).toBe(expected)
})

test('an inherited property is not a field', () => {
  const inherits = object({ constructor: (value: unknown): value is unknown => value !== undefined })
  expect(inherits({})).toBe(false)
  expect(exactly({ id: string })(JSON.parse('{"id":"a","__proto__":1}'))).toBe(false)
})

test('checks lengths, unknown fields, lists and records', () => {
  expect([sized(1, 2)(''), sized(1, 2)('ab'), sized(1, 2)('abc'), sized(0, 2)(1)]).toEqual([false, true, false, false])
  expect(exactly({ id: string })({ id: 'a', more: 1 })).toBe(false)
  expect(list(string)(['a', 1])).toBe(false)
  expect(list(string)({ length: 0 })).toBe(false)
  const named = byName(matching(/^[a-z]$/), number)
  expect([named({ a: 1 }), named({ a: '1' }), named({ A: 1 }), named([])]).toEqual([true, false, false, false])
})
