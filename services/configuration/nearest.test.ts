import fc from 'fast-check'
import { expect, test } from 'vitest'
import { editDistance } from './edit-distance.ts'
import { nearest } from './nearest.ts'

test.each([
  ['', '', 0],
  ['', 'abc', 3],
  ['kitten', 'sitting', 3],
  ['flaw', 'lawn', 2],
])('the distance of %j and %j is %i letters', (from, to, distance) => {
  expect(editDistance(from, to)).toBe(distance)
})

test('the distance is symmetric, and each word is nearest to itself', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (one, other) => {
      expect(editDistance(one, other)).toBe(editDistance(other, one))
      expect(editDistance(one, other) === 0).toBe(one === other)
      expect(nearest(one, [other, one])).toBe(one)
    }),
  )
})

test.each([
  ['db-schemaa', 'db-schemas'],
  ['server_port', 'server-port'],
  ['dbanonrole', 'db-anon-role'],
  ['raw-media-types', undefined],
  ['x', undefined],
])('%j suggests %j', (word, meant) => {
  expect(nearest(word, ['db-schemas', 'server-port', 'db-anon-role', 'db-max-rows'])).toBe(meant)
})

test('without candidates there is no suggestion', () => {
  expect(nearest('a', [])).toBeUndefined()
})
