import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { duplicateKey } from './duplicate-keys.ts'

describe('a duplicate key', () => {
  test.each([
    ['{"a":1,"a":1}', ['a']],
    ['{"a":1,"b":2,"c":{},"a":3}', ['a']],
    ['{"a":{"b":[1,{"c":1,"d":2,"c":3}]}}', ['a', 'b', 1, 'c']],
    ['[{"a":1},{"a":1,"\\u0061":2}]', [1, 'a']],
    ['{"":1,"":2}', ['']],
    ['{"__proto__":1,"__proto__":2}', ['__proto__']],
    ['{"a":"x","b":"a","a":0}', ['a']],
    ['{ "a" : [ "a" , "b" ] ,\n"a" : { } }', ['a']],
  ])('%s', (text, path) => {
    expect(duplicateKey(text)).toEqual(path)
  })
  test.each([
    '{"a":{"a":{"a":1}}}',
    '["a","a"]',
    '[{"a":1},{"a":2}]',
    '{"a":"b","b":"a"}',
    '{"a":"\\"a\\":1,"}',
    '"a"',
    '{}',
  ])('is not %s', text => {
    expect(duplicateKey(text)).toBeUndefined()
  })
})

test('is found in every position, and nowhere else', () => {
  const json = fc.json({ maxDepth: 5 })
  fc.assert(fc.property(json, text => void expect(duplicateKey(text)).toBeUndefined()))
  fc.assert(
    fc.property(json, fc.string(), fc.string(), json, (before, key, other, after) => {
      fc.pre(key !== other)
      const [first, second] = [JSON.stringify(key), JSON.stringify(other)]
      const twice = `[${before},{${first}:${before},${second}:1,${first}:${after}},${after}]`
      expect(duplicateKey(twice)).toEqual([1, key])
      expect(duplicateKey(`[${before},{${first}:${before},${second}:${after}}]`)).toBeUndefined()
    }),
  )
})

test('is found quickly at the maximum depth of a body', () => {
  const deep = `${'{"a":['.repeat(80_000)}{"b":1,"b":2}${']}'.repeat(80_000)}`
  const began = performance.now()
  expect(duplicateKey(deep)?.length).toBe(160_001)
  expect(performance.now() - began).toBeLessThan(2_000)
})
