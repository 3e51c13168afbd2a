/** The plan of a restore from any observed state, above all when the new volume may replace the old one. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { timestamp } from '../../values/time.ts'
import { conditionOf } from '../objects/conditions.ts'
import {
  ago,
  backup,
  database,
  deadlines,
  discarding,
  fenced,
  making,
  now,
  observed,
  prerestoreBackup,
  restore,
  running,
  volume,
} from '../testing/observed-restore.ts'
import type { Leftover, Observed } from './observed.ts'
import { plan } from './plan.ts'

/** The database is to serve from the restored volume, and does not yet. */
const handedOver = { ...fenced.status, volume }
const day = 24 * 3600_000
const summaryOf = (more: Partial<Observed>) => {
  const { actions, status } = plan(observed(more), now, deadlines)
  const { phase, fencedAt } = status
  const reason = conditionOf(status, 'Progressing')?.reason
  return {
    does: actions.map(action => action.do),
    phase,
    reason,
    isFenced: fencedAt !== undefined,
    volume: status.volume,
  }
}

describe('a restore', () => {
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof summaryOf>>]>([
    ['without a status is pending', { restore: restore(undefined, { finalizers: [] }) }, { phase: 'pending' }],
    [
      'without the finalizer gets it',
      { restore: restore({ phase: 'pending' }, { finalizers: [] }) },
      { does: ['add-finalizer'] },
    ],
    [
      'with the finalizer and without a status was restored from a copy of the cluster, and fails',
      { restore: restore(undefined) },
      { phase: 'failed', reason: 'PutBack' },
    ],
    ['begins', { restore: restore({ phase: 'pending' }) }, { phase: 'running', does: [] }],
    [
      'waits while another restore of the database runs',
      { restore: restore({ phase: 'pending' }), blockedBy: 'x' },
      { phase: 'pending', reason: 'Queued' },
    ],
    [
      'waits while the database has an operation',
      { restore: restore({ phase: 'pending' }), isRequested: false },
      { phase: 'pending', reason: 'Queued' },
    ],
    [
      'creates its prerestore backup first',
      { prerestore: undefined, candidate: making },
      { does: ['take-backup'], isFenced: false },
    ],
    [
      'does not stop Postgres while the candidate starts',
      { candidate: making },
      { reason: 'Starting', isFenced: false },
    ],
    [
      'does not stop Postgres while a backup is taken from it',
      { suspensionBlock: { reason: 'AwaitsBackup', message: '' } },
      { reason: 'AwaitsBackup', isFenced: false },
    ],
    ['fences the previous Postgres once the candidate is ready', {}, { reason: 'Stopping', isFenced: true, does: [] }],
    ['waits until the previous Postgres has stopped', { restore: fenced }, { reason: 'Stopping', does: [] }],
    [
      'locks the previous Postgres once it has stopped',
      { restore: fenced, oldPostgres: 'stopped' },
      { reason: 'Stopping', does: ['lock'] },
    ],
    [
      'locks the previous Postgres even if its prerestore backup is completed',
      { restore: fenced, oldPostgres: 'stopped', prerestore: prerestoreBackup('completed') },
      { does: ['lock'] },
    ],
    [
      'waits for the prerestore backup of the stopped volume',
      { restore: fenced, oldPostgres: 'locked' },
      { reason: 'Anchoring', does: [] },
    ],
    [
      'switches once the prerestore backup is completed',
      { restore: fenced, oldPostgres: 'locked', prerestore: prerestoreBackup('completed') },
      { reason: 'Switching', volume },
    ],
    [
      'fails if another object has the name of its prerestore backup',
      { restore: fenced, oldPostgres: 'locked', prerestore: backup('completed', { purpose: 'prerestore' }) },
      { phase: 'failed', reason: 'NameTaken', does: [] },
    ],
    [
      'fails if its prerestore backup was completed before Postgres was fenced',
      { restore: restore({ ...running, fencedAt: timestamp(now + 1_000) }), prerestore: prerestoreBackup('completed') },
      { phase: 'failed', reason: 'NameTaken', does: [] },
    ],
    [
      'fails if its prerestore backup failed',
      { restore: fenced, oldPostgres: 'locked', prerestore: prerestoreBackup('failed') },
      { phase: 'failed', reason: 'BackupFailed', does: [] },
    ],
    [
      'switches without a prerestore backup if the current data may be discarded',
      { restore: discarding(fenced), oldPostgres: 'locked', prerestore: prerestoreBackup('failed') },
      { reason: 'Switching', volume },
    ],
    [
      'fails at once if no prerestore backup is possible',
      { restore: restore({ phase: 'pending' }), prerestoreRefusal: 'why' },
      { phase: 'failed', reason: 'NoBackupPossible', does: [] },
    ],
    [
      'begins without a possible prerestore backup if the current data may be discarded',
      { restore: discarding(restore({ phase: 'pending' })), prerestoreRefusal: 'why' },
      { phase: 'running' },
    ],
    [
      'fails if the database keeps 32 previous volumes',
      {
        restore: restore({ phase: 'pending' }),
        database: database({
          previous: Array.from({ length: 32 }, (_, index) => ({ incarnation: index + 1, claim: 'c', uid: `${index}` })),
        }),
      },
      { phase: 'failed', reason: 'TooManyPrevious', does: [] },
    ],
    [
      'fails with its candidate',
      { candidate: { state: 'failed', reason: 'R', message: '', actions: [], isBound: true } },
      { phase: 'failed', reason: 'R' },
    ],
    [
      'fails if its backup is lost before the volume is bound',
      { candidate: { ...making, isBound: false }, source: { refused: { reason: 'SnapshotLost', message: '' } } },
      { phase: 'failed', reason: 'SnapshotLost' },
    ],
    [
      'goes on if its backup is lost after the volume is bound',
      { candidate: making, source: { refused: { reason: 'SnapshotLost', message: '' } } },
      { phase: 'running' },
    ],
    [
      'fails at its deadline',
      { candidate: making, restore: restore({ ...running, deadlineAt: ago(1) }) },
      { phase: 'failed', reason: 'DeadlineExceeded' },
    ],
    [
      'fails if it is deleted',
      { restore: restore(running, { deletionTimestamp: ago(1) }) },
      { phase: 'failed', reason: 'Deleted' },
    ],
    [
      'fails if its database is being deleted',
      { database: database({}, { deletionTimestamp: ago(1) }) },
      { phase: 'failed', reason: 'DatabaseDeleting' },
    ],
    [
      'fails if the backup is of a branch',
      { backup: backup('completed', { sourceBranch: { name: 'b', id: 'b' } }), restore: restore({ phase: 'pending' }) },
      { phase: 'failed', reason: 'OtherDatabase' },
    ],
    [
      'handed over to its database goes on after its deadline and its deletion',
      { restore: restore({ ...handedOver, deadlineAt: ago(1) }, { deletionTimestamp: ago(1) }) },
      { phase: 'running', reason: 'Switching', does: [], volume },
    ],
    [
      'handed over goes on while its database is not found',
      { restore: restore(handedOver), database: undefined },
      { phase: 'running', reason: 'Switching' },
    ],
    [
      'handed over fails if its database is being deleted',
      { restore: restore(handedOver), database: database({}, { deletionTimestamp: ago(1) }) },
      { phase: 'failed', reason: 'DatabaseDeleting' },
    ],
    [
      'handed over fails if its database is not found at the deadline',
      { restore: restore({ ...handedOver, deadlineAt: ago(1) }), database: undefined },
      { phase: 'failed', reason: 'DatabaseMissing' },
    ],
    [
      'handed over fails if its database has another volume at the deadline',
      { restore: restore({ ...handedOver, deadlineAt: ago(1) }), database: database({ incarnation: 7 }) },
      { phase: 'failed', reason: 'OtherVolume' },
    ],
    [
      'switched goes on after its deadline',
      { database: database({ incarnation: 2 }), restore: restore({ ...running, deadlineAt: ago(1) }) },
      { phase: 'running', reason: 'Opening' },
    ],
  ])('%s', (_, more, expected) => {
    expect(summaryOf(more)).toMatchObject(expected)
  })
})

test('the volume is replaced only if the old Postgres has stopped, the new one answers, and the prerestore backup is completed or waived', () => {
  const bool = fc.boolean()
  const agreed = fc.boolean()
  const stops = fc.constantFrom('running' as const, 'stopped' as const, 'locked' as const)
  const prerestores = fc.constantFrom(
    undefined,
    'pending' as const,
    'running' as const,
    'completed' as const,
    'failed' as const,
  )
  fc.assert(
    fc.property(bool, stops, bool, bool, prerestores, bool, agreed, (...drawn) => {
      const [isFenced, old, isReady, isBlocked, taken, isRefused, isAgreed] = drawn
      const its = restore({
        ...running,
        ...(isFenced ? { fencedAt: ago(1) } : {}),
        ...(isRefused ? { anchorRefused: 'why' } : {}),
      })
      const seen = observed({
        restore: isAgreed ? discarding(its) : its,
        oldPostgres: old,
        candidate: isReady ? { state: 'ready', volume, actions: [], isBound: true } : making,
        suspensionBlock: isBlocked ? { reason: 'AwaitsBackup', message: '' } : undefined,
        prerestore: taken && prerestoreBackup(taken),
      })
      if (plan(seen, now, deadlines).status.volume === undefined) return
      expect([isFenced, old, isReady]).toEqual([true, 'locked', true])
      const isWithout = isAgreed && (isRefused || taken === 'failed')
      expect(isWithout || (taken === 'completed' && !isRefused)).toBe(true)
    }),
  )
})

describe('remaining objects', () => {
  const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'c', uid: 'old' } } as const
  const objects: Leftover[] = [
    { kind: 'StatefulSet', name: 's', uid: 's' },
    { kind: 'ConfigMap', name: 'm', uid: 'm' },
  ]
  const done = (sinceMs: number) =>
    restore({ ...running, phase: 'completed', switchedAt: ago(sinceMs), finishedAt: ago(sinceMs) })
  const failed = restore({ ...running, phase: 'failed', finishedAt: ago(1) })
  const lock: Leftover = { kind: 'Pod', name: 'p', uid: 'p' }
  const locked = (more: Partial<Observed['leftovers']> = {}) => ({
    lock,
    leftovers: { hasPod: false, objects: [], claim: undefined, ...more },
  })
  const deleted = (more: Partial<Observed>) =>
    plan(observed(more), now, deadlines).actions.map(action =>
      action.do === 'delete' ? action.leftover.kind : action.do,
    )
  test.each<[string, Partial<Observed>, string[]]>([
    [
      'of a failed restore: first the StatefulSet, while its pod exists',
      { restore: failed, leftovers: { hasPod: true, objects, claim } },
      ['StatefulSet'],
    ],
    [
      'of a failed restore: the rest once the pod has ended',
      { restore: failed, leftovers: { hasPod: false, objects, claim } },
      ['StatefulSet', 'ConfigMap'],
    ],
    [
      'of a failed restore: the claim last',
      { restore: failed, leftovers: { hasPod: false, objects: [], claim } },
      ['PersistentVolumeClaim'],
    ],
    [
      'a completed restore does not delete the replaced claim',
      { restore: done(31 * day), leftovers: { hasPod: false, objects: [], claim } },
      [],
    ],
    [
      'a failed restore deletes the lock before anything else, since the old data serve again',
      { restore: failed, ...locked({ objects, claim }) },
      ['Pod', 'StatefulSet', 'ConfigMap'],
    ],
    [
      'the lock is deleted before the finalizer is removed',
      { restore: { ...failed, metadata: { ...failed.metadata, deletionTimestamp: ago(1) } }, ...locked() },
      ['Pod'],
    ],
    [
      'a completed restore keeps the lock while the replaced Postgres could start',
      { restore: done(1), ...locked({ objects }) },
      ['StatefulSet', 'ConfigMap'],
    ],
    [
      'a completed restore keeps the lock while the replaced pod exists',
      { restore: done(1), ...locked({ hasPod: true }) },
      [],
    ],
    ['a completed restore deletes the lock once nothing can start', { restore: done(1), ...locked() }, ['Pod']],
    [
      'no claim is deleted while its pod exists',
      { restore: failed, leftovers: { hasPod: true, objects: [], claim } },
      [],
    ],
    ['the restore is deleted with its database', { restore: failed, database: undefined }, ['delete-restore']],
    [
      'the restore is deleted after a month',
      { restore: restore(done(31 * day).status, { labels: prerestoreBackup('completed').metadata.labels }) },
      ['delete-restore'],
    ],
    ['a restore that a user created is not deleted', { restore: done(31 * day) }, []],
    [
      'a restore with a deletion request loses its finalizer',
      { restore: restore({ ...running, phase: 'failed' }, { deletionTimestamp: ago(1) }), isRequested: false },
      ['remove-finalizer'],
    ],
    [
      'it keeps the finalizer while its database requests it, and would create it again',
      { restore: restore({ ...running, phase: 'failed' }, { deletionTimestamp: ago(1) }) },
      [],
    ],
    [
      'it loses the finalizer if its database is being deleted as well',
      {
        restore: restore({ ...running, phase: 'failed' }, { deletionTimestamp: ago(1) }),
        database: database({}, { deletionTimestamp: ago(1) }),
      },
      ['remove-finalizer'],
    ],
  ])('%s', (_, more, kinds) => {
    expect(deleted(more)).toEqual(kinds)
  })
})

test('a restore that its database has not recorded by the deadline continues, and reports since when it is overdue and why', () => {
  const conditions = [
    {
      type: 'Ready',
      status: 'False',
      reason: 'IdContested',
      message: 'two databases have its id',
      lastTransitionTime: ago(9),
    },
  ] as never
  const messageAt = (deadlineAt: string) => {
    const { status } = plan(
      observed({ restore: restore({ ...handedOver, deadlineAt }), database: database({ conditions }) }),
      now,
      deadlines,
    )
    expect(status).toMatchObject({ phase: 'running', deadlineAt })
    return conditionOf(status, 'Progressing')?.message
  }
  expect(messageAt(ago(1))).toMatch(/^overdue since .*Z: .*condition of the database: two databases have its id$/)
  expect(messageAt(timestamp(now + 60_000))).not.toContain('overdue')
})
