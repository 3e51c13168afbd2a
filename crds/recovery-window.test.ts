/** The times to which a database can be restored, and the base backup for each. */
import { describe, expect, test } from 'vitest'
import {
  apiVersion,
  type Backup,
  labels,
  type ManagedDatabase,
  recoveryOfBackup,
  recoveryTo,
  recoveryWindow,
} from './index.ts'

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 31, 12, minute)).toISOString()

const backup = (
  name: string,
  incarnation: number,
  minute: number,
  endLsn: string,
  more: Partial<Backup['spec']> = {},
  status: Backup['status'] = {},
): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: { name, namespace: 'n', labels: { [labels.id]: `id-of-${name}` } },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'durable', purpose: 'user', ...more },
  status: {
    phase: 'completed',
    incarnation,
    cutAt: at(minute),
    endLsn,
    systemIdentifier: '7',
    sizeBytes: 5,
    ...status,
  },
})
const archive = { incarnation: 2, archived: '0/9000000', archivedAt: at(50) }
const database = (of?: typeof archive): Pick<ManagedDatabase, 'status'> => ({ status: { ...(of && { archive: of }) } })

const backups = [
  backup('c', 2, 30, '0/5000000'),
  backup('a', 1, 0, '0/2000000'),
  backup('b', 1, 10, '0/3000000'),
  backup('d', 2, 40, '0/7000000'),
]
const window = recoveryWindow(database(archive), backups)
const chosenFor = (target: Parameters<typeof recoveryTo>[1]) => {
  const found = recoveryTo(window, target)
  return 'refused' in found ? found.refused : [found.record.backupName, found.record.through]
}

test('it reaches from the end of the first base backup to the end of the archive, with the gap that a restore leaves', () => {
  expect(window.spans.map(({ incarnation, from, to }) => [incarnation, from, to])).toEqual([
    [1, Date.parse(at(0)), Date.parse(at(10))],
    [2, Date.parse(at(30)), Date.parse(at(50))],
  ])
})

test('it is empty without a completed base backup, and ends with the last one if the archived position is unknown', () => {
  expect(recoveryWindow(database(archive), []).spans).toEqual([])
  const [span] = recoveryWindow(database(), [backup('c', 2, 30, '0/5000000')]).spans
  expect([span?.from, span?.to, span?.through]).toEqual([Date.parse(at(30)), Date.parse(at(30)), '0/5000000'])
})

describe('a clock that was one hour ahead until it was corrected', () => {
  const hour = (minute: number) => minute + 60
  const ahead = [backup('a', 2, hour(0), '0/2000000'), backup('b', 2, hour(10), '0/3000000')]
  const windowAt = (minute: number, more: Backup[] = []) =>
    recoveryWindow(database({ incarnation: 2, archived: '0/9000000', archivedAt: at(minute) }), [...ahead, ...more])
  const span = (of: ReturnType<typeof windowAt>) =>
    of.spans.map(({ from, to, through }) => [new Date(from).toISOString(), new Date(to).toISOString(), through])

  test('leaves no future time in the window, but all WAL', () => {
    expect(span(windowAt(20))).toEqual([[at(20), at(20), '0/9000000']])
    expect(recoveryTo(windowAt(20), { time: at(hour(5)) })).toHaveProperty('refused')
    expect(recoveryTo(windowAt(20), { lsn: '0/8000000' })).toMatchObject({ record: { backupName: 'b' } })
  })

  test('selects the base backup after the correction for later moments, in WAL order', () => {
    const later = windowAt(40, [backup('c', 2, 30, '0/5000000')])
    expect(span(later)).toEqual([[at(30), at(40), '0/9000000']])
    expect(recoveryTo(later, { time: at(35) })).toMatchObject({ record: { backupName: 'c', through: '0/9000000' } })
    expect(recoveryTo(later, { time: at(hour(5)) })).toHaveProperty('refused')
  })
})

describe('a time selects the newest base backup that ended before it', () => {
  test.each([
    [at(0), ['a', '0/3000000']],
    [at(9), ['a', '0/3000000']],
    [at(10), ['b', '0/3000000']],
    [at(30), ['c', '0/9000000']],
    [at(39), ['c', '0/9000000']],
    [at(50), ['d', '0/9000000']],
    [new Date(Date.parse(at(45))).toISOString().replace('Z', '+00:00'), ['d', '0/9000000']],
  ])('%s', (time, expected) => {
    expect(chosenFor({ time })).toEqual(expected)
  })

  test.each([
    ['before the first', new Date(Date.parse(at(0)) - 1).toISOString()],
    ['in the gap', at(20)],
    ['after what is archived', at(51)],
  ])('a time %s is refused, and the message lists the window', (_, time) => {
    expect(chosenFor({ time })).toBe(
      `${time} is not within the recovery window: ${at(0)} to ${at(10)}, and ${at(30)} to ${at(50)}`,
    )
  })
})

test("an LSN refers to the volume that currently archives, whatever the LSN's number of digits", () => {
  expect(chosenFor({ lsn: '0/7000000' })).toEqual(['d', '0/9000000'])
  expect(chosenFor({ lsn: '0/5000001' })).toEqual(['c', '0/9000000'])
  for (const lsn of ['0/4FFFFFF', '0/9000001', '1/0'])
    expect(chosenFor({ lsn })).toBe(`${lsn} is not within the recovery window: 0/5000000 to 0/9000000`)
  const far = recoveryWindow(database({ ...archive, archived: '10/0' }), [backup('x', 2, 30, 'A/0')])
  expect(recoveryTo(far, { lsn: 'B/0' })).toMatchObject({ record: { backupName: 'x', through: '10/0' } })
})

test('a named restore point is searched from the first base backup of the volume that archives', () => {
  expect(chosenFor({ pointName: 'before' })).toEqual(['c', undefined])
})

test.each([
  ['hot', backup('x', 2, 30, '0/5', { kind: 'hot' })],
  ['of a branch', backup('x', 2, 30, '0/5', { sourceBranch: { name: 'b', id: 'b' } })],
  ['under way', backup('x', 2, 30, '0/5', {}, { phase: 'running' })],
  ['being deleted', { ...backup('x', 2, 30, '0/5'), metadata: { name: 'x', deletionTimestamp: at(31) } }],
])('a backup that is %s makes no time recoverable', (_, other) => {
  expect(recoveryWindow(database(archive), [other]).spans).toEqual([])
  expect(recoveryOfBackup(other)).toBeUndefined()
})
