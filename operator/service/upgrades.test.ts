/** How many owners replace their services' pods at the same time. */
import { expect, test } from 'vitest'
import { createUpgradeSlots } from './upgrades.ts'

test('at most the limit run at once, and the next starts when one has ended', () => {
  const slots = createUpgradeSlots({ most: 2, now: () => 1_000 })
  expect(['a', 'b', 'c', 'd', 'e'].map(slots.request)).toEqual([undefined, undefined, 6_000, 6_000, 11_000])
  expect(slots.request('a')).toBeUndefined()
  slots.end('b')
  expect(['d', 'c'].map(slots.request)).toEqual([undefined, 6_000])
})

test('an upgrade that began before this leader counts, and continues without a slot', () => {
  const slots = createUpgradeSlots({ most: 1, now: () => 0 })
  slots.begun('a')
  slots.begun('b')
  expect(slots.request('c')).toBe(5_000)
  slots.end('a')
  expect(slots.request('c')).toBe(5_000)
  slots.end('b')
  expect(slots.request('c')).toBeUndefined()
})

test('an owner that was deleted during its slot delays the others for at most ten minutes', () => {
  let now = 0
  const slots = createUpgradeSlots({ most: 1, now: () => now })
  slots.request('deleted')
  now = 599_999
  expect(slots.request('next')).toBe(now + 5_000)
  now = 600_000
  expect(slots.request('next')).toBeUndefined()
})
