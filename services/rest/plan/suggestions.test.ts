import fc from 'fast-check'
import { expect, test } from 'vitest'
import { similarity, suggestion } from './suggestions.ts'

test.each([
  ['projcts', ['projects', 'clients'], 0.75, 'projects'],
  ['PROJECTS', ['projects'], 1, 'projects'],
  ['project', ['projectiles', 'projects'], 0.5, 'projects'],
  ['project', ['xprojects', 'projects', 'projecto'], 0.5, 'projects'],
  ['elephants', ['projects', 'clients'], 0.5, undefined],
  ['ab', ['ax'], 0.5, 'ax'],
  ['ab', ['ax'], 0.51, undefined],
  ['', ['projects'], 0.1, undefined],
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
  ['abcd', 'ABCDE', 0.8],
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

test('as much is compared as is quick, and no more', () => {
  const [text, name] = ['p'.repeat(1_000), 'p'.repeat(2_000)]
  expect(suggestion(text, [name], 0.3)).toBe(name)
  expect(suggestion(text, [name, 'p'.repeat(999)], 0.3)).toBeUndefined()
})

test('what is looked for among too many names, or is too long, is not found: an error has to be quick', () => {
  const names = Array.from({ length: 100_000 }, (_, index) => `projcts${index}`)
  const start = process.cpuUsage()
  expect(suggestion('projects', names, 0.3)).toBeUndefined()
  expect(suggestion('p'.repeat(100_000), ['p'.repeat(100_000)], 0.3)).toBeUndefined()
  expect(process.cpuUsage(start).user).toBeLessThan(1_000_000)
})
