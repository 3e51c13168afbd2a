// @ts-nocheck
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Budget, smallBodyBytes } from './budget.ts'

test('no more is held than the limit, and nothing once all requests are over', () => {
  const limit = 10 * smallBodyBytes
  const bytes = fc.integer({ min: 0, max: 6 * smallBodyBytes })
  fc.assert(
    fc.property(fc.array(fc.array(bytes)), requests => {
      const budget = new Budget(limit)
      const reservations = requests.map(sizes => {
        const reservation = budget.reserve()
        for (const size of sizes) {
          const before = budget.held
          const isTaken = reservation.grow(size)
          expect(isTaken || size > smallBodyBytes).toBe(true)
          expect(budget.held).toBeLessThanOrEqual(Math.max(before, limit))
        }
        return reservation
      })
      for (const reservation of reservations) reservation.release()
      expect(budget.held).toBe(0)
      // What still comes of a request that is over is held by nobody.
      for (const reservation of reservations) expect(reservation.grow(limit)).toBe(false)
      expect(budget.held).toBe(0)
    }),
  )
})

test('one that is alone may be larger than the limit, and leaves no room for others', () => {
  const budget = new Budget(smallBodyBytes)
  const [alone, other] = [budget.reserve(), budget.reserve()]
  expect(alone.grow(9 * smallBodyBytes)).toBe(true)
  expect(other.grow(2 * smallBodyBytes)).toBe(false)
  alone.release()
  expect(other.grow(2 * smallBodyBytes)).toBe(true)
})

test('what one gives back another can take', () => {
  const budget = new Budget(2 * smallBodyBytes)
  const [first, second] = [budget.reserve(), budget.reserve()]
  expect(first.grow(2 * smallBodyBytes)).toBe(true)
  expect(second.grow(smallBodyBytes + 1)).toBe(false)
  expect(second.grow(smallBodyBytes)).toBe(true)
  first.release()
  expect(second.grow(2 * smallBodyBytes)).toBe(true)
})
