/** The conditions about a database's backups, and when there are none. */
import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, type Region } from '../../../crds/index.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import { backupsFinding, retentionFinding } from './backups.ts'

const { now, observedOf } = reconciledDatabase()
const { region } = observedOf()
const found = (given: Given) => backupsFinding(observedOf(given), now)

const withSnapshots = (snapshotClass: Region['spec']['snapshotClass']): Given['rest'] => ({
  region: region && { ...region, spec: { ...region.spec, ...(snapshotClass ? { snapshotClass } : {}) } },
})
const atomic = withSnapshots({ name: 'fast', atomic: true })
const backup = (
  name: string,
  createdAt: string,
  phase: NonNullable<Backup['status']>['phase'],
  { purpose = 'scheduled', ...status }: { purpose?: Backup['spec']['purpose'] } & Partial<Backup['status']> = {},
): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: { name, creationTimestamp: `2026-01-01T0${createdAt}:00:00Z` },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose },
  status: { phase, finishedAt: createdAt, error: 'the disk is full', ...status },
})
const of = (...backups: Backup[]): Given => ({ rest: { ...atomic, backups } })
const [one, two] = [backup('one', '1', 'failed'), backup('two', '2', 'completed')]

/** `at`: the hour. */
const checked = (name: string, at: number, error?: string, faults?: number): Backup =>
  backup(name, '0', 'completed', {
    purpose: 'user',
    verificationResult: {
      endedAt: `2026-01-02T0${at}:00:00Z`,
      ...(error === undefined ? {} : { error }),
      ...(faults === undefined ? {} : { faults }),
    },
  })

describe('the condition of backups', () => {
  test.each<[string, Given]>([
    ['the default schedule', {}],
    ['a requested schedule', { spec: { backup: { durable: false, schedule: '0 3 * * *' } }, rest: { ...atomic } }],
    [
      'a schedule that is off, also if no backup is possible',
      { spec: { backup: { durable: false, schedule: 'off' } } },
    ],
    ['the default schedule if no backup is possible', { rest: { region: undefined } }],
    ['the last backup completed', of(one, two)],
    ['the last backup completed, in either order of the list', of(two, one)],
    ['a backup is running', of(backup('one', '1', 'running', { finishedAt: undefined }))],
    ['only a backup of a user failed', of(backup('one', '1', 'failed', { purpose: 'user' }))],
    ['the last verified backup is sound', of(checked('a', 1, 'it is damaged', 2), checked('b', 2))],
    ['no backup was verified', of(two, backup('three', '3', 'completed'))],
  ])('is absent: %s', (_, given) => {
    expect(found(given)).toBeUndefined()
  })

  test.each<[string, Given, string, RegExp]>([
    [
      'the schedule is invalid',
      { spec: { backup: { durable: false, schedule: 'now and then' } } },
      'ScheduleInvalid',
      /^spec\.backup\.schedule: ./,
    ],
    [
      'a schedule is requested and the region does not exist',
      { spec: { backup: { durable: false, schedule: '0 3 * * *' } }, rest: { region: undefined } },
      'RegionMissing',
      /there is no region here$/,
    ],
    [
      'a schedule is requested and the region has no snapshots',
      { spec: { backup: { durable: false, schedule: '0 3 * * *' } } },
      'NoSnapshots',
      /^spec\.backup\.schedule: no backup can be taken: region here names no snapshot class/,
    ],
    [
      'a schedule is requested and snapshots are not atomic',
      {
        spec: { backup: { durable: false, schedule: '0 3 * * *' } },
        rest: { ...withSnapshots({ name: 'slow', atomic: false }) },
      },
      'NotAtomic',
      /slow/,
    ],
    [
      'the last backup failed',
      of(backup('zero', '0', 'completed'), one),
      'LastBackupFailed',
      /^the last scheduled backup, one, failed: the disk is full$/,
    ],
    [
      'the last backup failed, in either order of the list',
      of(one, backup('zero', '0', 'completed')),
      'LastBackupFailed',
      /one/,
    ],
    [
      'the last of two backups in one second failed',
      of(backup('b', '1', 'failed'), backup('a', '1', 'completed')),
      'LastBackupFailed',
      / b,/,
    ],
    [
      'the last backup that ended failed',
      of(one, backup('three', '3', 'running', { finishedAt: undefined })),
      'LastBackupFailed',
      /one/,
    ],
    [
      'the last verified backup is damaged',
      of(checked('a', 1), checked('b', 3, '2 found: x', 2), checked('c', 2)),
      'BackupDamaged',
      /^a copy of backup b is damaged, so the database may be as well: 2 found: x$/,
    ],
    [
      'the last backup could not be verified, in any order of the list',
      of(checked('b', 3, 'not checked: x'), checked('a', 1), two, checked('c', 2, 'y', 1)),
      'LastBackupNotVerified',
      /^a copy of backup b could not be checked: not checked: x$/,
    ],
    [
      'a failed backup is reported before a damaged one',
      of(one, checked('b', 3, '2 found: x', 2)),
      'LastBackupFailed',
      /one/,
    ],
    [
      'the last backup failed without a reason',
      of(backup('one', '1', 'failed', { error: undefined })),
      'LastBackupFailed',
      /failed: $/,
    ],
  ])('is present: %s', (_, given, reason, message) => {
    expect(found(given)).toEqual({ status: 'False', reason, message: expect.stringMatching(message) })
  })
})

describe('the condition of retention', () => {
  const retained = (name: string, daysAgo: number, verification?: 'verified' | 'failed'): Backup => {
    const time = new Date(now - daysAgo * 24 * 3600_000).toISOString()
    const one = backup(name, '0', 'completed', { finishedAt: time, ...(verification ? { verification } : {}) })
    return { ...one, metadata: { ...one.metadata, creationTimestamp: time } }
  }
  const of = (...backups: Backup[]) => retentionFinding(observedOf({ rest: { ...atomic, backups } }), now)

  test('is absent if age and count alone decide', () => {
    expect(of(retained('old', 9, 'verified'), retained('new', 1, 'verified'))).toBeUndefined()
  })
  test('reports what verification keeps, and what to do', () => {
    expect(of(retained('old', 9, 'verified'), retained('new', 1))).toEqual({
      ...{ status: 'True', reason: 'NewestVerified' },
      message:
        'backup old is the newest verified one: kept beyond its retention until a later one is verified, or until you delete it',
    })
    expect(of(retained('old', 20, 'verified'), retained('next', 9), retained('damaged', 5, 'failed'))).toMatchObject({
      reason: 'BeforeFailedVerification',
      message: expect.stringContaining('backup next is the newest one older than the first that failed verification'),
    })
  })
})
