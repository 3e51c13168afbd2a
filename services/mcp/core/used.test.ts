import { expect, test } from 'vitest'
import { createUsed } from './used.ts'

test('createUsed remembers a used value until it expires; at the limit, it remembers only the newest values', () => {
  let now = 0
  const used = createUsed(1_000, () => now)
  used.add('first')
  now = 999
  used.add('second')
  expect([used.has('first'), used.has('second'), used.has('third')]).toEqual([true, true, false])
  now = 1_000
  expect([used.has('first'), used.has('second')]).toEqual([false, true])
  for (let number = 0; number < 100_000; number++) used.add(`${number}`)
  expect([used.has('second'), used.has('0'), used.has('99999')]).toEqual([false, true, true])
})
