import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { PostgresAnswer, PostgresFacts } from '../observed.ts'
import { intervalMs, nextProbe, type ProbeTime, retryDelay, slowDelay } from './next-probe.ts'

const answered: PostgresAnswer = {
  state: 'answered',
  systemIdentifier: '1',
  rolesInOrder: true,
  changedByUser: [],
  login: 'succeeded',
  certificate: undefined,
  hasFreeSpace: true,
  walHangs: false,
  walPosition: '0/1',
  checksumFailures: undefined,
  platformInOrder: true,
  configuration: { inForce: 'd', onDisk: 'd', isMounted: true, refused: null, errors: [], pendingRestart: [] },
}
const facts: PostgresFacts = {
  at: 1_000,
  run: 'r',
  ready: true,
  passwordVersion: 'm',
  answer: answered,
  slow: 0,
  isUncertain: false,
  isOutdated: false,
}
const at = (more: Partial<ProbeTime> = {}) =>
  nextProbe({
    key: 'n/a',
    facts,
    pod: { run: 'r', ready: true, startedAt: 0 },
    awaited: false,
    certificateIssuedAt: undefined,
    latestCertificateAt: undefined,
    suspectedAt: undefined,
    operatorStartedAt: 0,
    now: 2_000,
    ...more,
  })

describe('the next probe', () => {
  test('is due at once if a pass waits for it; otherwise it is spread over the interval', () => {
    expect(at({ facts: undefined, awaited: true })).toBe(2_000)
    const spread = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(key => at({ facts: undefined, key }))
    expect(Math.min(...spread)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...spread)).toBeLessThan(intervalMs)
    expect(Math.max(...spread) - Math.min(...spread)).toBeGreaterThan(intervalMs / 3)
  })
  test('is due at once for an unknown Postgres whose certificate was issued since the operator started', () => {
    const operatorStartedAt = 1_900_500
    const unknown = { facts: undefined, operatorStartedAt, now: 1_902_000 }
    expect(at({ ...unknown, latestCertificateAt: 1_901_000 })).toBe(1_902_000)
    expect(at({ ...unknown, latestCertificateAt: 1_900_000 })).toBeGreaterThan(1_902_000)
    expect(at({ ...unknown, latestCertificateAt: 1_800_000 })).toBeGreaterThan(1_902_000)
  })
  test('while a role that a user must create is missing, is due soon at first, then less often', () => {
    const authenticator = { role: 'ours', inOrder: true, passwordVersion: 'm' } as const
    const lacking = (kind: 'missing' | 'granted') => ({
      facts: {
        ...facts,
        answer: { ...answered, authenticator: { ...authenticator, anonymousRoles: { web: { kind } } } },
      },
    })
    expect(at(lacking('missing'))).toBe(facts.at + 3_000)
    expect(at({ ...lacking('missing'), now: 100_000 })).toBe(facts.at + 5_000)
    expect(at({ ...lacking('missing'), now: 10_000_000 })).toBe(facts.at + 60_000)
    expect(at(lacking('granted'))).toBe(at())
  })
  test('is due five to six minutes after the previous one if nothing happens', () => {
    expect(at()).toBeGreaterThanOrEqual(facts.at + 300_000)
    expect(at()).toBeLessThanOrEqual(facts.at + 360_000)
  })
  test('is due at once if Postgres was restarted, became ready or was changed', () => {
    expect(at({ pod: { run: 'other', ready: true, startedAt: 0 }, awaited: true })).toBe(2_000)
    expect(at({ pod: { run: 'r', ready: false, startedAt: 0 } })).toBe(2_000)
    expect(at({ facts: { ...facts, isOutdated: true } })).toBe(2_000)
  })
  test('is delayed more with each change that fails', () => {
    const after = (failures: number) => at({ facts: { ...facts, isOutdated: true, failures }, now: 1_000 })
    expect([1, 2, 3, 20].map(after)).toEqual([1_250, 1_500, 2_000, 61_000])
    expect(at({ facts: { ...facts, failures: 20 }, now: 1_000 })).toBe(at({ now: 1_000 }))
  })
  test('is due soon while an object that services name is missing', () => {
    const complete = { missingSchemas: [], vector: 'installed' as const, tables: [] }
    const finding = (changes: object) => ({
      facts: { ...facts, answer: { ...answered, references: { digest: 'd', found: { ...complete, ...changes } } } },
    })
    const rare = at({})
    expect(at(finding({}))).toBe(rare)
    const soon = facts.at + 3_000
    expect(at(finding({ missingSchemas: ['api'] }))).toBe(soon)
    expect(at(finding({ vector: 'available' }))).toBe(soon)
    expect(at(finding({ tables: [{ exists: false, missing: [], vectors: [] }] }))).toBe(soon)
    expect(at(finding({ tables: [{ exists: true, missing: ['c'], vectors: [] }] }))).toBe(soon)
  })
  test('is due within seconds of a suspicion, with some seconds between two probes', () => {
    expect(at({ suspectedAt: 2_000 })).toBe(6_000)
    expect(at({ suspectedAt: 60_000, now: 60_000 })).toBe(60_000)
    expect(at({ facts: undefined, suspectedAt: 2_000 })).toBe(2_000)
  })
  test('is due soon after an uncertain probe, and after a reload until the certificate is mounted', () => {
    expect(at({ facts: { ...facts, isUncertain: true } })).toBe(2_000)
    const reloaded = { ...facts, isOutdated: true }
    expect(at({ facts: reloaded, certificateIssuedAt: 1_000 })).toBe(1_100)
    expect(at({ facts: reloaded, certificateIssuedAt: 1_000, now: 61_000 })).toBe(6_000)
  })
  test('is due a minute after a commit that hung', () => {
    expect(at({ facts: { ...facts, answer: { ...answered, walHangs: true } }, awaited: true })).toBe(61_000)
  })
  test('is delayed longer each time while Postgres does not start', () => {
    const delays = [0, 10_000, 100_000].map(retryDelay)
    expect(delays).toEqual(delays.toSorted((left, right) => left - right))
    expect(delays[0]).toBe(20)
  })
})

const anyFacts = fc.record({
  at: fc.nat(1_000_000),
  slow: fc.integer({ min: 1, max: 40 }),
  isOutdated: fc.boolean(),
  hasAnswer: fc.boolean(),
})
const anyTime = fc.record({
  awaited: fc.boolean(),
  certificateIssuedAt: fc.option(fc.nat(1_000_000), { nil: undefined }),
  suspectedAt: fc.option(fc.nat(1_000_000), { nil: undefined }),
  sinceMs: fc.nat(1_000_000),
})

describe('slow probes', () => {
  test('never make the next probe earlier', () => {
    fc.assert(
      fc.property(anyFacts, anyTime, ({ hasAnswer, ...some }, { sinceMs, ...time }) => {
        const known = { ...facts, ...some, answer: hasAnswer ? answered : undefined }
        const now = known.at + sinceMs
        const quick = at({ facts: { ...known, slow: 0, isOutdated: false }, ...time, suspectedAt: undefined, now })
        expect(at({ facts: known, ...time, now })).toBeGreaterThanOrEqual(quick)
      }),
    )
  })
  test('delay the next probe longer each time, up to a limit', () => {
    for (const usualMs of [20, 2_000, intervalMs]) {
      const delays = Array.from({ length: 60 }, (_, index) => slowDelay(index + 1, usualMs))
      expect(delays).toEqual(delays.toSorted((left, right) => left - right))
      expect(delays[1]).toBeGreaterThan(usualMs)
      expect(delays.at(-1)).toBe(20 * 60_000)
    }
  })
})
