import { describe, expect, test } from 'vitest'
import { changesOf, draftsOf, faultOf, isSame, rulesOf, withAddress } from './allowlist.ts'
import { lossesOf } from './losses.ts'
import { isReachable, reachableOf, timelineOf } from './timeline.ts'

describe('the form of an allowlist', () => {
  test.each(['203.0.113.7', '203.0.113.0/24', '0.0.0.0/0', '255.255.255.255/32', ' 10.0.0.1 '])('%j is valid', cidr => {
    expect(faultOf(cidr)).toBeUndefined()
  })

  test.each(['', '256.0.0.1', '10.0.0', '10.0.0.1/33', '::1', 'home', '10.0.0.1/'])('%j is not valid', cidr => {
    expect(faultOf(cidr)).toBeDefined()
  })

  const rules = [{ cidr: '10.0.0.1/32', label: 'a' }, { cidr: '10.1.0.0/16' }]

  test('rules that the user did not edit are unchanged', () => {
    expect(isSame(rules, draftsOf(rules))).toBe(true)
    expect(rulesOf(draftsOf(rules))).toEqual(rules)
  })

  test('does not add an address that a rule already has', () => {
    const drafts = draftsOf(rules)
    expect(withAddress(drafts, '10.0.0.1', 'me')).toEqual(drafts)
    expect(withAddress(drafts, '10.0.0.2', 'me').at(-1)).toEqual({ key: 2, cidr: '10.0.0.2', label: 'me' })
  })

  test('lists added and removed addresses', () => {
    const drafts = withAddress(draftsOf(rules.slice(0, 1)), '10.0.0.2', '')
    expect(changesOf(rules, drafts)).toEqual({ added: ['10.0.0.2/32'], removed: ['10.1.0.0/16'] })
    expect(isSame(rules, drafts)).toBe(false)
  })
})

describe('the losses of a deletion', () => {
  const facts = { used: 1024, branches: 2, backups: 3, services: 1, keepsBackups: true, isDurable: false }

  test('contain data, branches, services and the address', () => {
    expect(lossesOf(facts)).toEqual([
      'all data (1.0 KiB)',
      '2 branches with their data',
      '1 service with its addresses and tokens',
      'the address and the passwords',
    ])
  })

  test('contain backups only if the deletion removes them', () => {
    expect(lossesOf({ ...facts, keepsBackups: false })).toContain('3 backups')
    expect(lossesOf({ ...facts, keepsBackups: true })).not.toContain('3 backups')
  })
})

describe('the timeline', () => {
  const at = (hour: number) => new Date(Date.UTC(2026, 0, 1, hour)).toISOString()
  const window = { earliest_time: at(2), latest_time: at(10), gaps: [{ from: at(4), to: at(6) }] }
  const backup = { id: 'a', created_at: at(1), status: 'completed', metadata: { cut_at: at(2) } }

  test('a time in a gap is not reachable', () => {
    expect(reachableOf(window)).toEqual([
      { from: Date.parse(at(2)), to: Date.parse(at(4)) },
      { from: Date.parse(at(6)), to: Date.parse(at(10)) },
    ])
    expect([3, 5, 7, 11].map(hour => isReachable(window, Date.parse(at(hour))))).toEqual([true, false, true, false])
    expect(reachableOf({ earliest_time: null, latest_time: null, gaps: [] })).toEqual([])
  })

  test('shows only completed backups, at the time of their data', () => {
    const failed = { ...backup, id: 'b', status: 'failed' }
    const { points, reachable } = timelineOf([backup, failed], window, Date.parse(at(12)))
    expect(points).toMatchObject([{ id: 'a', at: Date.parse(at(2)) }])
    expect(points[0]?.position).toBeCloseTo(0.02, 2)
    expect(reachable.map(({ to }) => to <= 1)).toEqual([true, true])
  })

  test('covers at least one hour if there are no backups', () => {
    const { from, to } = timelineOf([], undefined, 1e12)
    expect(to - from).toBeGreaterThanOrEqual(3_600_000)
  })
})
