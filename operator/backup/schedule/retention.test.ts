import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, labels, type ManagedDatabaseSpec } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { retentionOf } from './retention.ts'

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
const verifiedAs = (
  verification: NonNullable<Backup['status']>['verification'],
  daysAgo: number,
  spec: Partial<Backup['spec']> = {},
): Backup => {
  const one = backup(daysAgo, spec.purpose)
  const found = verification === undefined ? {} : { verification }
  return { ...one, spec: { ...one.spec, ...spec }, status: { ...one.status, ...found } }
}
const again = (daysAgo: number): Backup => {
  const one = verifiedAs('pending', daysAgo)
  return { ...one, status: { ...one.status, verificationResult: { endedAt: timestamp(now) } } }
}
const copied = { sourceBranch: { name: 'copy', id: 'c' } }
const range = (count: number) => Array.from({ length: count }, (_, index) => index)
const deletedNames = (backups: Backup[], policy: Partial<ManagedDatabaseSpec['backup']> = {}) =>
  retentionOf(backups, { durable: false, ...policy }, now)
    .toDelete.map(({ metadata }) => metadata.name)
    .sort()

describe('what retention deletes', () => {
  test.each<[string, Backup[], Partial<ManagedDatabaseSpec['backup']>, string[]]>([
    ['scheduled backups after 7 days', of([0, 6, 7, 8]), {}, ['scheduled-completed-7', 'scheduled-completed-8']],
    ['not the last scheduled backup, however old', of([400]), {}, []],
    ['not the last backup of each purpose', [...of([400]), ...of([500], 'prerestore'), ...of([1], 'user')], {}, []],
    [
      'not the last completed backup, although a failed one is newer',
      [...of([8]), ...of([1], 'scheduled', 'failed')],
      {},
      [],
    ],
    [
      'scheduled backups after the days that the database sets',
      of([0, 6, 7, 13, 14]),
      { retentionDays: 14 },
      ['scheduled-completed-14'],
    ],
    ['no backups of users', of([0, 100, 1000], 'user'), {}, []],
    [
      'no backups of users, however short the retention of scheduled ones is',
      of([0, 100], 'user'),
      { retentionDays: 1 },
      [],
    ],
    ['prebranch backups after a day', of([0, 1], 'prebranch'), {}, ['prebranch-completed-1']],
    ['prerestore backups after 7 days', of([0, 6, 7], 'prerestore'), {}, ['prerestore-completed-7']],
    ['postrestore backups after 7 days', of([0, 6, 7], 'postrestore'), {}, ['postrestore-completed-7']],
    ['more than 5 prerestore backups', of([0, 1, 2, 3, 4, 5], 'prerestore'), {}, ['prerestore-completed-5']],
    ['more than 5 postrestore backups', of([0, 1, 2, 3, 4, 5], 'postrestore'), {}, ['postrestore-completed-5']],
    [
      'backups of users, if the database limits them',
      of([0, 1, 2, 100], 'user'),
      { retention: { hot: { user: { count: 2 } } } },
      ['user-completed-100', 'user-completed-2'],
    ],
    [
      'more than 30 scheduled backups',
      of(range(40).map(n => n / 40)),
      {},
      of([30, 31, 32, 33, 34, 35, 36, 37, 38, 39].map(n => n / 40))
        .map(({ metadata }) => metadata.name)
        .sort(),
    ],
    [
      'a rule for durable backups does not affect hot ones',
      of([8, 9]),
      { retention: { durable: { scheduled: { days: 30 } } } },
      ['scheduled-completed-9'],
    ],
    [
      'more than 10 failed backups',
      of(
        range(12).map(n => n / 2),
        'user',
        'failed',
      ),
      {},
      ['user-failed-5', 'user-failed-5.5'],
    ],
    ['failed backups after 7 days, also the last one', of([1, 8], 'user', 'failed'), {}, ['user-failed-8']],
    ['no backup that is being taken', of([8, 9], 'scheduled', 'running'), {}, []],
    [
      'no backup that is being deleted already',
      [...of([0]), backup(9, 'scheduled', 'completed', { deletionTimestamp: 'x' })],
      {},
      [],
    ],
  ])('%s', (_, backups, policy, expected) => {
    expect(deletedNames(backups, policy)).toEqual(expected)
  })

  test('by the age since its end, or since its creation if no end is recorded', () => {
    const long = backup(8)
    const ended = { ...long, status: { ...long.status, finishedAt: timestamp(now - 6 * dayMs) } }
    const { finishedAt: _, ...withoutEnd } = long.status ?? {}
    expect(deletedNames([backup(0), ended])).toEqual([])
    expect(deletedNames([backup(0), { ...long, status: withoutEnd }])).toEqual(['scheduled-completed-8'])
  })

  test.each<[string, Backup[], number[], [number, string][]]>([
    [
      'the newest verified backup is retained, however many damaged ones follow',
      [verifiedAs('verified', 9), verifiedAs('verified', 8), ...range(8).map(n => verifiedAs('failed', n))],
      [7, 9],
      [[8, 'NewestVerified']],
    ],
    [
      'the newest backup before the first failed verification is retained, although it was never verified',
      [verifiedAs('verified', 20), verifiedAs(undefined, 12), verifiedAs('failed', 6), verifiedAs('failed', 1)],
      [],
      [
        [20, 'NewestVerified'],
        [12, 'BeforeFailedVerification'],
      ],
    ],
    [
      'it is retained until a later backup is verified and the failed ones are deleted',
      [verifiedAs('verified', 9), verifiedAs('failed', 8), verifiedAs('verified', 1)],
      [8],
      [[9, 'BeforeFailedVerification']],
    ],
    ['it is deleted then', [verifiedAs('verified', 9), verifiedAs('verified', 1)], [9], []],
    [
      'a backup that is being verified again counts by its last result',
      [again(9), verifiedAs('failed', 1)],
      [],
      [[9, 'NewestVerified']],
    ],
    [
      'a backup of a branch does not count for the database',
      [verifiedAs('verified', 9, copied), verifiedAs('failed', 1)],
      [9],
      [],
    ],
    [
      'the newest verified backup is retained, whatever its purpose',
      [verifiedAs('verified', 9, { purpose: 'prerestore' }), backup(1, 'prerestore')],
      [],
      [[9, 'NewestVerified']],
    ],
  ])('%s', (_, backups, toDelete, retained) => {
    const found = retentionOf(backups, { durable: false }, now)
    const daysOf = ({ metadata }: Backup) => Number(metadata.name.split('-').at(-1))
    expect(found.toDelete.map(daysOf)).toEqual(toDelete)
    expect(found.retained.map(({ backup: one, why }) => [daysOf(one), why])).toEqual(retained)
  })

  test('any policy keeps what a restore needs, and deletes only backups older than those it keeps', () => {
    const rule = fc.record(
      { count: fc.integer({ min: 1, max: 5 }), days: fc.integer({ min: 1, max: 20 }) },
      { requiredKeys: [] },
    )
    const verification = fc.constantFrom('verified' as const, 'failed' as const, 'pending' as const, undefined)
    const some = fc.array(
      fc.tuple(fc.integer({ min: 0, max: 60 }), fc.constantFrom<Purpose>('user', 'scheduled'), verification),
    )
    fc.assert(
      fc.property(some, rule, rule, (ages, scheduled, user) => {
        const all = ages.map(([days, purpose, found], index) => {
          const one = backup(days + index / 1000, purpose)
          return {
            ...one,
            status: { ...one.status, ...(found === undefined ? {} : { verification: found }) },
          } as Backup
        })
        const policy = { durable: false, retention: { hot: { scheduled, user } } }
        const { toDelete, retained } = retentionOf(all, policy, now)
        const timeOf = ({ status }: Backup) => status?.finishedAt ?? ''
        const remaining = all
          .filter(one => !toDelete.includes(one))
          .toSorted((a, b) => (timeOf(a) < timeOf(b) ? 1 : -1))
        const newestOf = (ones: Backup[]) => ones.toSorted((a, b) => (timeOf(a) < timeOf(b) ? 1 : -1))[0]
        const is = (wanted: string) => all.filter(({ status }) => status?.verification === wanted)

        const verified = newestOf(is('verified'))
        if (verified !== undefined) expect(remaining).toContain(verified)
        const firstFailed = is('failed').toSorted((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1))[0]
        const before = firstFailed && newestOf(all.filter(one => timeOf(one) < timeOf(firstFailed)))
        if (before !== undefined) expect(remaining).toContain(before)
        expect(retained.length).toBeLessThanOrEqual(2)
        for (const { backup: one } of retained) expect([verified, before]).toContain(one)

        for (const purpose of ['user', 'scheduled'] as const) {
          const group = all.filter(({ spec }) => spec.purpose === purpose)
          const newest = newestOf(group)
          if (newest !== undefined) expect(remaining).toContain(newest)
          // Apart from what verification keeps, only age and count decide.
          const remainingOfGroup = group.filter(
            one => remaining.includes(one) && !retained.some(({ backup: its }) => its === one),
          )
          const deletedNames = group.filter(one => toDelete.includes(one))
          expect(deletedNames.every(one => remainingOfGroup.every(other => timeOf(one) <= timeOf(other)))).toBe(true)
        }
      }),
    )
  })

  test('while data become more damaged each day, an intact backup is kept', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 }), fc.integer({ min: 11, max: 60 }), (damagedFrom, days) => {
        let all: Backup[] = []
        for (let day = 0; day < days; day++) {
          const time = timestamp(now + day * dayMs)
          const one = verifiedAs(day < damagedFrom ? 'verified' : 'failed', -day)
          all.push({ ...one, metadata: { ...one.metadata, creationTimestamp: time } })
          const { toDelete } = retentionOf(all, { durable: false }, now + day * dayMs)
          all = all.filter(each => !toDelete.includes(each))
        }
        expect(all.map(({ metadata }) => metadata.name)).toContain(
          `scheduled-completed--${damagedFrom - 1}`.replace('--0', '-0'),
        )
        expect(all.length).toBeLessThanOrEqual(9)
      }),
    )
  })
})
