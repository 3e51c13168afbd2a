import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Budget, smallBodyBytes } from './budget.ts'

test('with bodies below the limit, reservations never exceed the limit, and ended requests reserve nothing', () => {
  const limit = 10 * smallBodyBytes
  const bytes = fc.integer({ min: 0, max: 6 * smallBodyBytes })
  fc.assert(
    fc.property(fc.array(fc.array(bytes)), requests => {
      const budget = new Budget(limit)
      const reservations = requests.map(sizes => {
        const reservation = budget.reserve()
        for (const size of sizes) {
          const before = budget.reserved
          const isTaken = reservation.grow(size)
          expect(isTaken || size > smallBodyBytes).toBe(true)
          expect(budget.reserved).toBeLessThanOrEqual(Math.max(before, limit))
        }
        return reservation
      })
      for (const reservation of reservations) reservation.release()
      expect(budget.reserved).toBe(0)
      // Bytes that arrive after a request has ended reserve no memory.
      for (const reservation of reservations) expect(reservation.grow(limit)).toBe(false)
      expect(budget.reserved).toBe(0)
    }),
  )
})

test('a body larger than the limit is accepted if it is the only one; no other large body is then accepted', () => {
  const budget = new Budget(smallBodyBytes)
  const [alone, other] = [budget.reserve(), budget.reserve()]
  expect(alone.grow(9 * smallBodyBytes)).toBe(true)
  expect(other.grow(2 * smallBodyBytes)).toBe(false)
  alone.release()
  expect(other.grow(2 * smallBodyBytes)).toBe(true)
})

test('released bytes can be reserved again', () => {
  const budget = new Budget(2 * smallBodyBytes)
  const [first, second] = [budget.reserve(), budget.reserve()]
  expect(first.grow(2 * smallBodyBytes)).toBe(true)
  expect(second.grow(smallBodyBytes + 1)).toBe(false)
  expect(second.grow(smallBodyBytes)).toBe(true)
  first.release()
  expect(second.grow(2 * smallBodyBytes)).toBe(true)
})
