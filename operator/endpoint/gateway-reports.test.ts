import { expect, test } from 'vitest'
import { createGatewayReports } from './gateway-reports.ts'

test('gateways count as cut off if a gateway still lists the port long after a login through the Service', () => {
  let [now, isProved] = [0, false]
  const reports = createGatewayReports(
    () => isProved,
    () => now,
  )
  const report = (at: number, ...listed: string[]) => {
    now = at
    return reports.update(new Set(listed))
  }
  // The operator cannot connect either, so that is reported instead.
  report(0, 'one')
  report(60_000, 'one')
  expect(reports.isCutOff('one')).toBe(false)
  isProved = true
  expect(report(70_000, 'one')).toEqual([])
  expect(report(100_000, 'one')).toEqual([])
  expect(report(100_001, 'one')).toEqual(['one'])
  expect(reports.isCutOff('one')).toBe(true)
  // More logins change nothing while gateways fail.
  expect(report(200_000, 'one')).toEqual([])
  expect(reports.isCutOff('one')).toBe(true)
  expect(report(210_000)).toEqual(['one'])
  expect(reports.isCutOff('one')).toBe(false)
})

test('a failure that is listed only until the next heartbeat does not count', () => {
  let now = 0
  const reports = createGatewayReports(
    () => true,
    () => now,
  )
  for (now = 0; now <= 25_000; now += 5_000) reports.update(new Set(['one']))
  expect(reports.isCutOff('one')).toBe(false)
  reports.update(new Set())
  now = 60_000
  reports.update(new Set(['one']))
  expect(reports.isCutOff('one')).toBe(false)
})
