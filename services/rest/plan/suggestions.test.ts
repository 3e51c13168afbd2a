import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cpuTimeOf } from '../../testing/cpu-time.ts'
import { similarity, suggestion } from './suggestions.ts'

test.each([
  ['projcts', ['projects', 'clients'], 0.75, 'projects'],
  ['PROJECTS', ['projects'], 1, 'projects'],
  ['project', ['projectiles', 'projects'], 0.5, 'projects'],
  // With the same number of edits, the name with more common consecutive letters is suggested.
  ['project', ['xprojects', 'projects', 'projecto'], 0.5, 'projects'],
  ['elephants', ['projects', 'clients'], 0.5, undefined],
  ['ab', ['ax'], 0.5, 'ax'],
  ['ab', ['ax'], 0.51, undefined],
  // There are two edits, but no common consecutive letters.
  ['abc', ['xby'], 0.1, undefined],
  ['', ['projects'], 0.1, undefined],
  ['', [''], 0.1, ''],
  ['projects', [], 0, undefined],
])('for %j among %j, with similarity %d, is %j', (text, names, threshold, expected) => {
  expect(suggestion(text, names, threshold)).toBe(expected)
})

test.each([
  ['', '', 1],
  ['a', '', 0],
  ['abc', 'abc', 1],
  ['abcd', 'abXd', 0.75],
  ['abcd', 'abd', 0.75],
  ['abcd', 'wxyz', 0],
])('%j and %j have similarity %d', (one, other, expected) => {
  expect(similarity(one, other)).toBeCloseTo(expected, 9)
})

test('similarity is between 0 and 1, symmetric, and 1 for equal names', () => {
  const name = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: fc.constantFrom('a', 'B', 'İ') }))
  fc.assert(
    fc.property(name, name, (one, other) => {
      const found = similarity(one, other)
      expect(found).toBeGreaterThanOrEqual(0)
      expect(found).toBeLessThanOrEqual(1)
      expect(similarity(other, one)).toBeCloseTo(found, 9)
      expect(similarity(one, one)).toBe(1)
    }),
  )
})

test('there is no suggestion among too many names, or for a name that is too long, because an error must be fast', () => {
  const names = (count: number) => Array.from({ length: count }, (_, index) => `projcts${index}`)
  const spent = cpuTimeOf(() => {
    expect(suggestion('projects', names(10_000), 0.3)).toBe('projcts0')
    expect(suggestion('projects', names(100_000), 0.3)).toBeUndefined()
    expect(suggestion('p'.repeat(1_001), ['p'.repeat(1_001)], 0.3)).toBeUndefined()
    const long = Array.from({ length: 1_000 }, (_, index) => `${'p'.repeat(63)}${index}`)
    expect(suggestion('p'.repeat(1_000), long, 0)).toBeDefined()
  })
  expect(spent).toBeLessThan(2_000_000)
})
