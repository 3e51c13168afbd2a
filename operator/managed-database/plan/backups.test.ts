/** What is said of a database's backups, and when nothing is. */
import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, type Region } from '../../../crds/index.ts'
import { type Given, settledDatabase } from '../../testing/settled.ts'
import { backupsFinding, retentionFinding } from './backups.ts'

const { now, observedOf } = settledDatabase()
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

/** `at`: in which hour it was. */
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
    ['that are taken as a matter of course', {}],
    ['that are taken as asked', { spec: { backup: { durable: false, schedule: '0 3 * * *' } }, rest: { ...atomic } }],
    [
      'that are switched off, also where none could be taken',
      { spec: { backup: { durable: false, schedule: 'off' } } },
    ],
    ['that nobody asked for where none can be taken', { rest: { region: undefined } }],
    ['of which the last was completed', of(one, two)],
    ['of which the last was completed, in whatever order they come', of(two, one)],
    ['of which one is under way', of(backup('one', '1', 'running', { finishedAt: undefined }))],
    ['of which none that was scheduled failed', of(backup('one', '1', 'failed', { purpose: 'user' }))],
    ['of which the last that was checked is sound', of(checked('a', 1, 'it is damaged', 2), checked('b', 2))],
    ['of which nobody has checked any', of(two, backup('three', '3', 'completed'))],
  ])('is absent: %s', (_, given) => {
    expect(found(given)).toBeUndefined()
  })

  test.each<[string, Given, string, RegExp]>([
    [
      'that this version does not take',
      { spec: { backup: { durable: true } } },
      'NotAvailable',
      /spec\.backup\.durable/,
    ],
    [
      'whose schedule cannot be read',
      { spec: { backup: { durable: false, schedule: 'now and then' } } },
      'ScheduleInvalid',
      /^spec\.backup\.schedule: ./,
    ],
    [
      'that are asked for in no region',
      { spec: { backup: { durable: false, schedule: '0 3 * * *' } }, rest: { region: undefined } },
      'RegionMissing',
      /there is no region here$/,
    ],
    [
      'that are asked for without snapshots',
      { spec: { backup: { durable: false, schedule: '0 3 * * *' } } },
      'NoSnapshots',
      /^no backup is taken as spec\.backup\.schedule says: region here names no snapshot class/,
    ],
    [
      'that are asked for of snapshots that lose data',
      {
        spec: { backup: { durable: false, schedule: '0 3 * * *' } },
        rest: { ...withSnapshots({ name: 'slow', atomic: false }) },
      },
      'NotAtomic',
      /slow/,
    ],
    [
      'of which the last failed',
      of(backup('zero', '0', 'completed'), one),
      'LastBackupFailed',
      /^the last scheduled backup, one, failed: the disk is full$/,
    ],
    [
      'of which the last failed, in whatever order they come',
      of(one, backup('zero', '0', 'completed')),
      'LastBackupFailed',
      /one/,
    ],
    [
      'of which the last of one second failed',
      of(backup('b', '1', 'failed'), backup('a', '1', 'completed')),
      'LastBackupFailed',
      / b,/,
    ],
    [
      'of which the last that ended failed',
      of(one, backup('three', '3', 'running', { finishedAt: undefined })),
      'LastBackupFailed',
      /one/,
    ],
    [
      'of which the last that was checked is damaged',
      of(checked('a', 1), checked('b', 3, '2 found: x', 2), checked('c', 2)),
      'BackupDamaged',
      /^a copy of backup b is damaged, so the database may be as well: 2 found: x$/,
    ],
    [
      'of which the last could not be checked, in whatever order they come',
      of(checked('b', 3, 'not checked: x'), checked('a', 1), two, checked('c', 2, 'y', 1)),
      'LastBackupNotVerified',
      /^a copy of backup b could not be checked: not checked: x$/,
    ],
    [
      'of which the last failed, rather than what was found in another',
      of(one, checked('b', 3, '2 found: x', 2)),
      'LastBackupFailed',
      /one/,
    ],
    [
      'of which the last failed and does not say why',
      of(backup('one', '1', 'failed', { error: undefined })),
      'LastBackupFailed',
      /failed: $/,
    ],
  ])('is present: %s', (_, given, reason, message) => {
    expect(found(given)).toEqual({ status: 'False', reason, message: expect.stringMatching(message) })
  })
})

describe('the condition of retention', () => {
  const kept = (name: string, daysAgo: number, verification?: 'verified' | 'failed'): Backup => {
    const time = new Date(now - daysAgo * 24 * 3600_000).toISOString()
    const one = backup(name, '0', 'completed', { finishedAt: time, ...(verification ? { verification } : {}) })
    return { ...one, metadata: { ...one.metadata, creationTimestamp: time } }
  }
  const of = (...backups: Backup[]) => retentionFinding(observedOf({ rest: { ...atomic, backups } }), now)

  test('is absent if age and count alone decide', () => {
    expect(of(kept('old', 9, 'verified'), kept('new', 1, 'verified'))).toBeUndefined()
  })
  test('reports what verification keeps, and what to do', () => {
    expect(of(kept('old', 9, 'verified'), kept('new', 1))).toEqual({
      ...{ status: 'True', reason: 'NewestVerified' },
      message:
        'backup old is the newest verified one: kept beyond its retention until a later one is verified, or until you delete it',
    })
    expect(of(kept('old', 20, 'verified'), kept('next', 9), kept('damaged', 5, 'failed'))).toMatchObject({
      reason: 'BeforeFailedVerification',
      message: expect.stringContaining('backup next is the newest of before the first failed verification'),
    })
  })
})
