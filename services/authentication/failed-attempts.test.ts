import fc from 'fast-check'
import { expect, test } from 'vitest'
import { limitFailedAttempts } from './failed-attempts.ts'

const rule = { windowMs: 1_000, most: 3 }

test('in any window, an address can have as many failures as the rule allows, and not more', () => {
  const step = fc.record({
    wait: fc.nat(400),
    address: fc.constantFrom('192.0.2.1', '192.0.2.2'),
    succeeds: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      let now = 0
      const failures = limitFailedAttempts(rule, () => now)
      const failed = new Map<string, number[]>()
      for (const { wait, address, succeeds } of steps) {
        now += wait
        const recent = (failed.get(address) ?? []).filter(at => at > now - rule.windowMs)
        const attempt = failures.begin(address)
        expect(attempt.kind).toBe(recent.length < rule.most ? 'allowed' : 'limited')
        if (attempt.kind === 'limited') {
          expect(attempt.retryAfterSeconds).toBe(1)
          continue
        }
        if (succeeds) attempt.succeeded()
        else failed.set(address, [...recent, now])
      }
    }),
  )
})

test('attempts that have no result yet count', () => {
  const failures = limitFailedAttempts(rule, () => 0)
  const kinds = Array.from({ length: 5 }, () => failures.begin('192.0.2.1').kind)
  expect(kinds).toEqual(['allowed', 'allowed', 'allowed', 'limited', 'limited'])
})

test.each([
  ['2001:db8::1', '2001:db8:0:0:ffff::2', true],
  ['2001:db8:0:1::1', '2001:db8:0:2::1', false],
  ['2001:DB8:0:01::1', '2001:db8:0:1:2:3:4:5', true],
  ['::ffff:192.0.2.1', '192.0.2.1', true],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.2', false],
  ['192.0.2.1', '192.0.2.2', false],
  ['::1', '::2', true],
])('%s and %s: the same network is %s', (one, other, isSame) => {
  const failures = limitFailedAttempts({ windowMs: 1_000, most: 1 }, () => 0)
  failures.begin(one)
  expect(failures.begin(other).kind).toBe(isSame ? 'limited' : 'allowed')
})
