import { expect, test } from 'vitest'
import { createGatewayReports } from './gateway-reports.ts'

test('gateways count as cut off if one is still listed long after a login through the Service', () => {
  let [now, isProved] = [0, false]
  const reports = createGatewayReports(
    () => isProved,
    () => now,
  )
  const hear = (at: number, ...listed: string[]) => {
    now = at
    return reports.heard(new Set(listed))
  }
  // While the operator does not reach it either, that is what is said.
  hear(0, 'one')
  hear(60_000, 'one')
  expect(reports.isCutOff('one')).toBe(false)
  isProved = true
  expect(hear(70_000, 'one')).toEqual([])
  expect(hear(100_000, 'one')).toEqual([])
  expect(hear(100_001, 'one')).toEqual(['one'])
  expect(reports.isCutOff('one')).toBe(true)
  // Further logins change nothing as long as gateways fail.
  expect(hear(200_000, 'one')).toEqual([])
  expect(reports.isCutOff('one')).toBe(true)
  expect(hear(210_000)).toEqual(['one'])
  expect(reports.isCutOff('one')).toBe(false)
})

test('one failure that is listed until the next heartbeat does not count', () => {
  let now = 0
  const reports = createGatewayReports(
    () => true,
    () => now,
  )
  for (now = 0; now <= 25_000; now += 5_000) reports.heard(new Set(['one']))
  expect(reports.isCutOff('one')).toBe(false)
  reports.heard(new Set())
  now = 60_000
  reports.heard(new Set(['one']))
  expect(reports.isCutOff('one')).toBe(false)
})
