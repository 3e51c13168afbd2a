import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, labels, type ManagedDatabaseSpec } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { surplusOf } from './retention.ts'

const dayMs = 24 * 3600_000
const now = Date.parse('2026-11-22T12:00:00Z')
type Purpose = Backup['spec']['purpose']

const backup = (daysAgo: number, purpose: Purpose = 'scheduled', phase = 'completed', more: object = {}): Backup => {
  const time = timestamp(now - daysAgo * dayMs)
  return {
    apiVersion,
    kind: 'Backup',
    metadata: {
      name: `${purpose}-${phase}-${daysAgo}`,
      creationTimestamp: time,
      labels: { [labels.id]: time },
      ...more,
    },
    spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose },
    status: { phase: phase as 'completed', ...(phase === 'running' ? {} : { finishedAt: time }) },
  }
}
const of = (days: number[], purpose?: Purpose, phase?: string) => days.map(each => backup(each, purpose, phase))
const range = (count: number) => Array.from({ length: count }, (_, index) => index)
const gone = (backups: Backup[], policy: Partial<ManagedDatabaseSpec['backup']> = {}) =>
  surplusOf(backups, { durable: false, ...policy }, now)
    .map(({ metadata }) => metadata.name)
    .sort()

describe('what goes', () => {
  test.each<[string, Backup[], Partial<ManagedDatabaseSpec['backup']>, string[]]>([
    ['scheduled ones after 7 days', of([0, 6, 7, 8]), {}, ['scheduled-completed-7', 'scheduled-completed-8']],
    ['never the last one, however old', of([400]), {}, []],
    ['nor the last of each purpose', [...of([400]), ...of([500], 'prerestore'), ...of([1], 'user')], {}, []],
    ['the last good one counts, not a failed one after it', [...of([8]), ...of([1], 'scheduled', 'failed')], {}, []],
    ['after as many days as are asked for', of([0, 6, 7, 13, 14]), { retentionDays: 14 }, ['scheduled-completed-14']],
    ['none that users asked for', of([0, 100, 1000], 'user'), {}, []],
    ['however long scheduled ones are kept', of([0, 100], 'user'), { retentionDays: 1 }, []],
    ['what branches were made from, after a day', of([0, 1], 'prebranch'), {}, ['prebranch-completed-1']],
    ['what restores took, after 7 days', of([0, 6, 7], 'prerestore'), {}, ['prerestore-completed-7']],
    ['before or after them', of([0, 6, 7], 'postrestore'), {}, ['postrestore-completed-7']],
    ['and more than 5 of those', of([0, 1, 2, 3, 4, 5], 'prerestore'), {}, ['prerestore-completed-5']],
    ['each', of([0, 1, 2, 3, 4, 5], 'postrestore'), {}, ['postrestore-completed-5']],
    [
      'those too, where that is said',
      of([0, 1, 2, 100], 'user'),
      { retention: { hot: { user: { count: 2 } } } },
      ['user-completed-100', 'user-completed-2'],
    ],
    [
      'more than 30 that were scheduled',
      of(range(40).map(n => n / 40)),
      {},
      of([30, 31, 32, 33, 34, 35, 36, 37, 38, 39].map(n => n / 40))
        .map(({ metadata }) => metadata.name)
        .sort(),
    ],
    [
      'a rule of one kind is none of the other',
      of([8, 9]),
      { retention: { durable: { scheduled: { days: 30 } } } },
      ['scheduled-completed-9'],
    ],
    [
      'more than 10 that failed',
      of(
        range(12).map(n => n / 2),
        'user',
        'failed',
      ),
      {},
      ['user-failed-5', 'user-failed-5.5'],
    ],
    ['failed ones after 7 days, also the last', of([1, 8], 'user', 'failed'), {}, ['user-failed-8']],
    ['none that is being taken', of([8, 9], 'scheduled', 'running'), {}, []],
    ['none that goes already', [...of([0]), backup(9, 'scheduled', 'completed', { deletionTimestamp: 'x' })], {}, []],
  ])('%s', (_, backups, policy, expected) => {
    expect(gone(backups, policy)).toEqual(expected)
  })

  test('counted from its end, or from its beginning where that is all that is known', () => {
    const long = backup(8)
    const ended = { ...long, status: { ...long.status, finishedAt: timestamp(now - 6 * dayMs) } }
    const { finishedAt: _, ...unsaid } = long.status ?? {}
    expect(gone([backup(0), ended])).toEqual([])
    expect(gone([backup(0), { ...long, status: unsaid }])).toEqual(['scheduled-completed-8'])
  })

  test('whatever is asked for, the newest good one of each purpose stays, and what goes is never newer than what stays', () => {
    const rule = fc.record(
      { count: fc.integer({ min: 1, max: 5 }), days: fc.integer({ min: 1, max: 20 }) },
      { requiredKeys: [] },
    )
    const some = fc.array(fc.tuple(fc.integer({ min: 0, max: 60 }), fc.constantFrom<Purpose>('user', 'scheduled')))
    fc.assert(
      fc.property(some, rule, (ages, scheduled) => {
        const all = ages.map(([days, purpose], index) => backup(days + index / 1000, purpose))
        const goes = new Set(gone(all, { retention: { hot: { scheduled } } }))
        for (const purpose of ['user', 'scheduled'] as const) {
          const group = all.filter(({ spec }) => spec.purpose === purpose)
          const times = (isGone: boolean) =>
            group
              .filter(({ metadata }) => goes.has(metadata.name) === isGone)
              .map(({ status }) => status?.finishedAt ?? '')
          if (group.length > 0) expect(times(false).length).toBeGreaterThan(0)
          expect(times(true).every(time => times(false).every(kept => time <= kept))).toBe(true)
        }
      }),
    )
  })
})
