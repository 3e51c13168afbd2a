import { describe, expect, test } from 'vitest'
import { type Backup, labels } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { ago, backup, database, now } from '../../testing/observed-backup.ts'
import { awaitsRecord, doneUpTo, dueAtOf, scheduledName, withScheduledBackup } from './recorded.ts'

const dayMs = 24 * 3600_000
const last = now - 10 * 3600_000
const named = (name: string, purpose: Backup['spec']['purpose'] = 'scheduled'): Backup => {
  const draft = backup(undefined, { name })
  return { ...draft, spec: { ...draft.spec, purpose } }
}
const dueAt = (at: number) => named(scheduledName('one', at))

test('the name of a scheduled backup contains when it was due, to the second', () => {
  expect(scheduledName('one', last)).toBe('one-scheduled-20261122-020000')
  expect(dueAtOf(dueAt(last))).toBe(last)
})

test.each([
  ['of another purpose', named(scheduledName('one', last), 'user')],
  ['of another database', named(scheduledName('other', last))],
  ['without a time', named('one-1')],
  ['with a day that no month has', named('one-scheduled-20260231-020000')],
])('a backup %s has no due time', (_, found) => {
  expect(dueAtOf(found)).toBeUndefined()
})

describe('a database records', () => {
  test.each<[string, string | undefined, number[], number | undefined]>([
    ['nothing without a backup', undefined, [], undefined],
    ['the latest of its backups', undefined, [last - dayMs, last], last],
    ['a later one than before', timestamp(last - dayMs), [last], last],
    ['the same if its backups are older, or deleted', timestamp(last), [last - dayMs], last],
    ['the latest again after its status was restored', timestamp(last - 9 * dayMs), [last - 2 * dayMs, last], last],
    ['nothing later than now', timestamp(last), [now + 1_000], last],
    ['the future time that an operator with a fast clock recorded', timestamp(now + dayMs), [last], now + dayMs],
    ['the latest of its backups in place of an invalid time', 'soon', [last], last],
  ])('%s', (_, scheduledBackupAt, dues, expected) => {
    const status = scheduledBackupAt === undefined ? {} : { scheduledBackupAt }
    const backups = dues.map(dueAt)
    expect(doneUpTo(status, backups, now)).toBe(expected)
    const after = withScheduledBackup(status, backups, now)
    expect(after).toEqual(expected === undefined ? {} : { scheduledBackupAt: timestamp(expected) })
    expect(withScheduledBackup(after, backups, now)).toBe(after)
  })

  test('a time that is written in another way, as it is', () => {
    const status = { scheduledBackupAt: new Date(last).toISOString() }
    expect(withScheduledBackup(status, [dueAt(last)], now)).toBe(status)
  })
})

describe('a deleted backup is kept until its database records it', () => {
  const labelled = { labels: { [labels.id]: 'i' } }
  test.each<[string, boolean, Parameters<typeof awaitsRecord>[1], Backup]>([
    ['for a database without a record', true, database({}, labelled), dueAt(last)],
    [
      'for a database with an earlier record',
      true,
      database({ scheduledBackupAt: timestamp(last - dayMs) }, labelled),
      dueAt(last),
    ],
    [
      'not for a database with this record',
      false,
      database({ scheduledBackupAt: timestamp(last) }, labelled),
      dueAt(last),
    ],
    [
      'not for a database with a later record',
      false,
      database({ scheduledBackupAt: timestamp(now) }, labelled),
      dueAt(last),
    ],
    [
      'not for a database that is being deleted',
      false,
      database({}, { ...labelled, deletionTimestamp: ago(0) }),
      dueAt(last),
    ],
    ['not for another database of that name', false, database({}, { labels: { [labels.id]: 'j' } }), dueAt(last)],
    ['not without a database', false, undefined, dueAt(last)],
    ['not if its name has no due time', false, database({}, labelled), named('one-1')],
    ['not if its due time is in the future', false, database({}, labelled), dueAt(now + 1_000)],
  ])('%s: %s', (_, waits, of, found) => {
    expect(awaitsRecord(found, of, now)).toBe(waits)
  })
})
