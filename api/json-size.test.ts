import { describe, expect, test } from 'vitest'
import { excessOf, mostNames, mostValues } from './json-size.ts'

const bytes = (value: unknown) => Buffer.from(JSON.stringify(value))
const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]))
const tooManyNames = `must have at most ${mostNames} different field names`
const tooManyValues = `must have at most ${mostValues} values`

describe('the size of a body', () => {
  test.each([
    ['the maximum number of names', fields(mostNames), undefined],
    ['one name above the maximum', fields(mostNames + 1), tooManyNames],
    ['names in many objects', Array.from({ length: 600 }, (_, index) => ({ [`k${index}`]: {} })), tooManyNames],
    ['the same name in many objects', Array.from({ length: 13_000 }, () => ({ cidr: '10.0.0.0/8' })), undefined],
    ['many numbers', Array.from({ length: mostValues + 2 }, () => 1), tooManyValues],
    ['names inside strings', { text: '{"a":1,"b":[2]}'.repeat(20_000), '\\":': '\\\\",' }, undefined],
  ])('%s', (_, value, expected) => {
    expect(excessOf(bytes(value))).toBe(expected)
  })

  test('leaves text that is not JSON to the parser', () => {
    for (const text of ['', '"', '"\\', '::::', '{"a', '\\"']) expect(excessOf(Buffer.from(text))).toBeUndefined()
  })

  test('checks a body of 60,000 keys in a small part of its parse time', () => {
    const body = bytes(fields(60_000))
    const fastest = (work: () => unknown): number =>
      Math.min(
        ...[1, 2, 3, 4, 5].map(() => {
          const start = performance.now()
          work()
          return performance.now() - start
        }),
      )
    expect(fastest(() => excessOf(body)) * 5).toBeLessThan(fastest(() => JSON.parse(body.toString())))
  })
})
