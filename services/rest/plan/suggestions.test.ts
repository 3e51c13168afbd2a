import fc from 'fast-check'
import { expect, test } from 'vitest'
import { similarity, suggestion } from './suggestions.ts'

test.each([
  ['projcts', ['projects', 'clients'], 0.75, 'projects'],
  ['PROJECTS', ['projects'], 1, 'projects'],
  ['project', ['projectiles', 'projects'], 0.5, 'projects'],
  // Of those with as few edits the one with more letters in a row in common.
  ['project', ['xprojects', 'projects', 'projecto'], 0.5, 'projects'],
  ['elephants', ['projects', 'clients'], 0.5, undefined],
  ['ab', ['ax'], 0.5, 'ax'],
  ['ab', ['ax'], 0.51, undefined],
  // Two edits, but nothing in a row in common.
  ['abc', ['xby'], 0.1, undefined],
  ['', ['projects'], 0.1, undefined],
  ['', [''], 0.1, ''],
  ['projects', [], 0, undefined],
])('for %j among %j, similar by %d, it is %j', (text, names, threshold, expected) => {
  expect(suggestion(text, names, threshold)).toBe(expected)
})

test.each([
  ['', '', 1],
  ['a', '', 0],
  ['abc', 'abc', 1],
  ['abcd', 'abXd', 0.75],
  ['abcd', 'abd', 0.75],
  ['abcd', 'wxyz', 0],
])('%j and %j are similar by %d', (one, other, expected) => {
  expect(similarity(one, other)).toBeCloseTo(expected, 9)
})

test('similarity lies between 0 and 1, is the same both ways, and 1 of a name with itself', () => {
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

test('what is looked for among too many names, or is too long, is not found: an error has to be quick', () => {
  const names = (count: number) => Array.from({ length: count }, (_, index) => `projcts${index}`)
  const start = process.cpuUsage()
  expect(suggestion('projects', names(10_000), 0.3)).toBe('projcts0')
  expect(suggestion('projects', names(100_000), 0.3)).toBeUndefined()
  expect(suggestion('p'.repeat(1_001), ['p'.repeat(1_001)], 0.3)).toBeUndefined()
  const long = Array.from({ length: 1_000 }, (_, index) => `${'p'.repeat(63)}${index}`)
  expect(suggestion('p'.repeat(1_000), long, 0)).toBeDefined()
  expect(process.cpuUsage(start).user).toBeLessThan(2_000_000)
})
