import { describe, expect, test } from 'vitest'
import type { Backup } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { now, backup as sample } from '../../testing/observed-backup.ts'
import { oldestProofSeconds, proofSchedule } from './proof.ts'

const hour = 3600_000
const day = 24 * hour

/** A completed durable backup of a database, created this long ago; `proven`: how long ago its copy was verified. */
function durable(
  database: string,
  made: number,
  { proven, verification = 'verified' }: { proven?: number; verification?: 'verified' | 'failed' | 'pending' } = {},
): Backup {
  const result = proven === undefined ? {} : { verification, verificationResult: { endedAt: timestamp(now - proven) } }
  const pending = verification === 'pending' ? { verification } : {}
  const made_ = timestamp(now - made)
  const found = sample(
    { phase: 'completed', finishedAt: made_, ...result, ...pending },
    { uid: `${database}-${made}`, creationTimestamp: made_, name: `${database}-${made}` },
  )
  return { ...found, spec: { ...found.spec, kind: 'durable', databaseId: database } }
}

describe('the daily proof of a tenant', () => {
  test.each<[string, Backup[], expected: string | undefined]>([
    ['the newest backup of its only database', [durable('a', 2 * hour), durable('a', hour)], `a-${hour}`],
    [
      'a database without a proof, before others',
      [durable('a', hour, { proven: 2 * day }), durable('b', hour)],
      `b-${hour}`,
    ],
    [
      'the database whose last proof is the oldest, of whichever backup',
      [durable('a', 3 * day, { proven: 3 * day }), durable('a', hour), durable('b', hour, { proven: 2 * day })],
      `a-${hour}`,
    ],
    ['the only database again after a day', [durable('a', 3 * day, { proven: day })], `a-${3 * day}`],
    [
      'no backup within a day of the last proof',
      [durable('a', hour), durable('b', day, { proven: day - 2_000 })],
      undefined,
    ],
    [
      'no backup within a day of a failed proof',
      [durable('a', hour), durable('b', day, { proven: hour, verification: 'failed' })],
      undefined,
    ],
    [
      'no backup while another is being verified',
      [durable('a', hour), durable('b', hour, { verification: 'pending' })],
      undefined,
    ],
  ])('is due of %s', (_, candidates, expected) => {
    const due = candidates.filter(one => proofSchedule(one, candidates, now)?.isDue === true)
    expect(due.map(({ metadata }) => metadata.uid)).toEqual(expected === undefined ? [] : [expected])
  })

  test('is requested again when the last one is a day old', () => {
    const candidates = [durable('a', 2 * hour, { proven: hour })]
    expect(proofSchedule(candidates[0] as Backup, candidates, now)).toEqual({ isDue: false, retryAt: now - hour + day })
  })

  test('covers each database in turn', () => {
    const proven = new Map<string, number>()
    for (let round = 0; round < 6; round++) {
      const at = now + round * day
      const candidates = ['a', 'b', 'c'].map(name => {
        const last = proven.get(name)
        return durable(name, hour, last === undefined ? {} : { proven: now - last })
      })
      for (const one of candidates) if (proofSchedule(one, candidates, at)?.isDue) proven.set(one.spec.databaseId, at)
    }
    expect(Object.fromEntries(proven)).toEqual({ a: now + 3 * day, b: now + 4 * day, c: now + 5 * day })
  })
})

test('the oldest proof is that of the tenant that has waited longest, from its first backup on', () => {
  const other = durable('b', 5 * hour)
  other.metadata.namespace = 'other'
  expect(oldestProofSeconds([], now)).toBe(0)
  expect(oldestProofSeconds([durable('a', day, { proven: hour })], now)).toBe(3600)
  expect(oldestProofSeconds([durable('a', day, { proven: hour }), other], now)).toBe(5 * 3600)
  expect(oldestProofSeconds([durable('a', day, { proven: hour, verification: 'failed' })], now)).toBe(24 * 3600)
})
