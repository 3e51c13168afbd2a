import { expect, test } from 'vitest'
import { apiVersion, type Backup, labels } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { retentionOf } from './retention.ts'
import { firstRetained, walFileOf } from './wal-expiry.ts'

const now = Date.parse('2026-06-01T00:00:00Z')
const taken = (days: number, startLsn: string, status: Partial<NonNullable<Backup['status']>> = {}): Backup => ({
  ...{ apiVersion, kind: 'Backup' },
  metadata: {
    ...{ name: `b-${days}`, namespace: 'n', labels: { [labels.id]: `id-${days}` } },
    creationTimestamp: timestamp(now - days * 86_400_000),
  },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'durable', purpose: 'scheduled' },
  status: {
    ...{ phase: 'completed', incarnation: 1, timeline: 1, startLsn },
    finishedAt: timestamp(now - days * 86_400_000),
    ...status,
  },
})

test.each([
  ['0/0', 1, '000000010000000000000000'],
  ['0/3000028', 1, '000000010000000000000003'],
  ['0/FFFFFFFF', 2, '0000000200000000000000FF'],
  ['1/0', 1, '000000010000000100000000'],
  ['A1/FE000001', 0x1f, '0000001F000000A1000000FE'],
])('the file of %s on timeline %i', (lsn, timeline, file) => {
  expect(walFileOf(lsn, timeline)).toBe(file)
})

test('WAL is kept from the newest backup on that is older than the window, otherwise from the oldest one on', () => {
  const [young, middle, old, oldest] = [
    taken(1, '0/9000000'),
    taken(6, '0/7000000'),
    taken(8, '0/5000000'),
    taken(40, '0/2000000'),
  ]
  const retained = (backups: Backup[], policy = {}) => firstRetained(backups, { durable: true, ...policy }, now)
  expect(retained([young, middle, old, oldest])).toEqual(new Map([[1, '000000010000000000000005']]))
  expect(retained([young, middle])).toEqual(new Map([[1, '000000010000000000000007']]))
  expect(retained([young, middle, old, oldest], { retentionDays: 30 })).toEqual(
    new Map([[1, '000000010000000000000002']]),
  )
  expect(retained([])).toEqual(new Map())
  expect(
    retained([taken(9, '0/1000000', { phase: 'failed' }), taken(3, '0/1000000', { incarnation: undefined })]),
  ).toEqual(new Map())
  const restored = taken(2, '0/8000000', { incarnation: 2, timeline: 1 })
  expect(retained([young, restored])).toEqual(
    new Map([
      [1, '000000010000000000000009'],
      [2, '000000010000000000000008'],
    ]),
  )
})

test('WAL of a kept backup is kept, even if its time is from a clock that was ahead', () => {
  const retained = (...backups: Backup[]) => firstRetained(backups, { durable: true }, now).get(1)
  // The later one in WAL has the earlier time, since the clock was set back in between.
  expect(retained(taken(1, '0/2000000'), taken(1.04, '0/5000000'))).toBe('000000010000000000000002')
  expect(retained(taken(6.99, '0/2000000'), taken(7.01, '0/5000000'))).toBe('000000010000000000000002')
  expect(retained(taken(9, '0/2000000'), taken(6.99, '0/5000000'), taken(7.01, '0/7000000'))).toBe(
    '000000010000000000000002',
  )
})

test('retention keeps the backup at which the window starts', () => {
  const all = [1, 6, 8, 9].map(days => taken(days, '0/1000000'))
  const { toDelete } = retentionOf(all, { durable: true }, now)
  expect(toDelete.map(({ metadata }) => metadata.name)).toEqual(['b-9'])
})
