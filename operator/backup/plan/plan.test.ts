/** Edge cases of the plan that no test of a complete backup reaches. */
import { describe, expect, test } from 'vitest'
import { conditionOf } from '../../objects/conditions.ts'
import {
  ago,
  backup,
  deadlines,
  now,
  observed,
  ofBranch,
  point,
  ready,
  snapshot,
  source,
} from '../../testing/observed-backup.ts'
import type { Observed } from '../observed.ts'
import { plan } from './index.ts'

const summaryOf = (more: Partial<Observed>) => {
  const { actions, status, requeueAt } = plan(observed(more), now, deadlines)
  return {
    does: actions.map(action => action.do),
    phase: status.phase,
    reason: conditionOf(status, 'Progressing')?.reason,
    requeueAt,
  }
}
const blocked = (reason: string) => [ready('True'), { ...ready('True'), type: 'DeletionBlocked', reason }]
const ofBranchToCome = { ...backup(), spec: { ...backup().spec, purpose: 'prebranch' as const } }
const going = { deletionTimestamp: ago(1_000) }

describe('a plan', () => {
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof summaryOf>>]>([
    ['writes the id first', { id: undefined }, { does: ['identify'], phase: undefined }],
    [
      'writes the uid of a new backup first',
      { backup: backup(undefined, { annotations: {} }) },
      { does: ['identify'] },
    ],
    [
      'a running backup of an earlier release without the uid annotation continues',
      { backup: backup({ phase: 'running' }, { annotations: {} }) },
      { does: ['checkpoint'] },
    ],
    [
      'a backup restored from a copy of the cluster, without its snapshot, fails',
      { backup: backup(undefined, { uid: 'another' }) },
      { does: [], phase: 'failed', reason: 'PutBack' },
    ],
    [
      'the same, if its status was restored too',
      { backup: backup({ phase: 'pending' }, { uid: 'another' }) },
      { does: [], phase: 'failed', reason: 'PutBack' },
    ],
    [
      'a restored backup of an earlier release is detected by its id',
      { id: '019a0000-0000-7000-8000-000000000000', backup: backup(undefined, { annotations: {} }) },
      { does: [], phase: 'failed', reason: 'PutBack' },
    ],
    [
      'a restored backup whose snapshot is ready completes',
      { backup: backup(undefined, { uid: 'another' }), snapshot: snapshot({ cutAt: 1, isReady: true }) },
      { phase: 'completed' },
    ],
    [
      'a restored backup waits until its snapshot can be read',
      { backup: backup(undefined, { uid: 'another' }), snapshots: 'unknown', snapshot: 'unknown' },
      { does: [], phase: 'pending' },
    ],
    ['adds its finalizer first', { backup: backup(undefined, { finalizers: [] }) }, { does: ['identify'] }],
    [
      'waits until it is known whether the cluster has snapshots',
      { snapshots: 'unknown', snapshot: 'unknown' },
      { does: [], phase: 'pending' },
    ],
    [
      'fails if that is unknown at the deadline of a snapshot',
      { snapshots: 'unknown', snapshot: 'unknown', snapshotsQueriedAt: now - 600_000 },
      { phase: 'failed', reason: 'SnapshotsUnknown' },
    ],
    ['begins with a checkpoint', {}, { does: ['checkpoint'], phase: 'running', reason: 'Checkpointing' }],
    [
      'requests the checkpoint again if the worker had no free slot',
      { checkpoint: { state: 'waiting' } },
      { does: ['checkpoint'], requeueAt: now + 5_000 },
    ],
    [
      'requests no second checkpoint while one runs',
      { checkpoint: { state: 'running', since: now } },
      { does: [], phase: 'running' },
    ],
    [
      'creates the snapshot after the checkpoint',
      { checkpoint: { state: 'succeeded', point } },
      { does: ['create-snapshot'] },
    ],
    [
      'fails if the checkpoint ran on other data',
      { checkpoint: { state: 'succeeded', point: { ...point, systemIdentifier: '8' } } },
      { does: [], phase: 'failed', reason: 'OtherData' },
    ],
    [
      'fails if no volume is recorded to compare the checkpoint with',
      { checkpoint: { state: 'succeeded', point }, ...source({ volume: undefined }) },
      { does: [], phase: 'failed', reason: 'OtherData' },
    ],
    [
      'a running backup continues, although another one is ahead of it',
      { backup: backup({ phase: 'running' }), blockedBy: 'other' },
      { does: ['checkpoint'] },
    ],
    [
      'waits while another backup is ahead of it',
      { blockedBy: 'other' },
      { does: [], phase: 'pending', reason: 'Queued' },
    ],
    [
      'waits for a database that does not serve',
      source({ conditions: [ready('False', 20_000)] }),
      { does: [], phase: 'pending', reason: 'AwaitingDatabase', requeueAt: now - 1_000 + 60_000 },
    ],
    [
      'fails if the database does not serve at the deadline, counted from the request',
      {
        backup: backup(undefined, { creationTimestamp: ago(60_000) }),
        ...source({ conditions: [ready('False', 90_000)] }),
      },
      { phase: 'failed', reason: 'DatabaseNotServing' },
    ],
    [
      'counts the deadline from the moment the database stopped serving, if that is later',
      {
        backup: backup(undefined, { creationTimestamp: ago(600_000) }),
        ...source({ conditions: [ready('False', 10_000)] }),
      },
      { phase: 'pending', requeueAt: now + 50_000 },
    ],
    [
      'fails if the database is being deleted',
      source({ phase: 'deleting' }, going),
      { phase: 'failed', reason: 'DatabaseDeleting' },
    ],
    [
      'fails if the deletion of the database is stuck',
      source({ phase: 'deleting', conditions: blocked('DeletionStuck') }, going),
      { reason: 'DatabaseDeleting' },
    ],
    [
      'a serving database whose deletion is blocked by branches is backed up',
      source({ phase: 'deleting', conditions: blocked('HasBranches') }, going),
      { does: ['checkpoint'] },
    ],
    [
      'a serving database whose deletion is blocked by its protection is backed up',
      source({ phase: 'deleting', conditions: blocked('DeletionProtected') }, going),
      { does: ['checkpoint'] },
    ],
    [
      'a prebranch backup blocks the deletion of its database, and is taken',
      { ...source({ phase: 'available' }, going), backup: ofBranchToCome },
      { does: ['checkpoint'] },
    ],
    [
      'a prebranch backup fails once the deletion of its database has begun',
      {
        ...source({ phase: 'deleting', conditions: [{ ...ready('False'), reason: 'Deleting' }] }, going),
        backup: ofBranchToCome,
      },
      { reason: 'DatabaseDeleting' },
    ],
    ['fails if the database has failed', source({ phase: 'failed' }), { reason: 'DatabaseFailed' }],
    ['backs up a branch', ofBranch({}), { does: ['checkpoint'] }],
    ['fails if the branch does not exist', { ...ofBranch({}), source: undefined }, { reason: 'BranchMissing' }],
    [
      'fails if the deletion of the branch is requested',
      ofBranch({}, { deletionRequestedAt: ago(1_000) }),
      { reason: 'BranchDeleting' },
    ],
    ['fails if the branch is deleted', ofBranch({ phase: 'deleted' }), { reason: 'BranchDeleting' }],
    ['fails if the branch has failed', ofBranch({ phase: 'failed' }), { reason: 'BranchFailed' }],
    [
      'an existing snapshot continues, whatever the state of the database',
      { snapshot: snapshot(), claimUid: 'claim', source: source({ phase: 'failed' }).source },
      { does: [], phase: 'running', reason: 'Snapshotting', requeueAt: now - 1_000 + 600_000 },
    ],
    [
      'waits 30 s for the storage to recover from an error',
      { snapshot: snapshot({ error: 'busy' }) },
      { phase: 'running', requeueAt: now - 1_000 + 30_000 },
    ],
    [
      'fails 30 s after the request if the storage reports an error',
      { snapshot: snapshot({ error: 'full', requestedAt: now - 30_000 }) },
      { phase: 'failed', reason: 'SnapshotFailed' },
    ],
    [
      'fails if the snapshot is not taken at the deadline',
      { snapshot: snapshot({ requestedAt: now - 600_000 }) },
      { phase: 'failed', reason: 'SnapshotStalled' },
    ],
    [
      'counts the deadline of readiness from the cut',
      { snapshot: snapshot({ requestedAt: now - 600_000, cutAt: now - 5_000 }) },
      { does: [], phase: 'running', reason: 'Finishing', requeueAt: now - 5_000 + 3600_000 },
    ],
    [
      'the deadline of readiness is longer than that of the cut',
      { snapshot: snapshot({ requestedAt: now - 700_000, cutAt: now - 700_000 }) },
      { phase: 'running', reason: 'Finishing' },
    ],
    [
      'continues after the cut without the database',
      { snapshot: snapshot({ cutAt: now - 500 }), source: undefined },
      { phase: 'running', reason: 'Finishing' },
    ],
    [
      'counts from the request if the time of the cut is before it',
      { snapshot: snapshot({ cutAt: 0 }) },
      { phase: 'running', requeueAt: now - 1_000 + 3600_000 },
    ],
    [
      'completes with a ready snapshot, however long it took',
      { snapshot: snapshot({ requestedAt: 0, cutAt: 1, isReady: true }) },
      { phase: 'completed', reason: 'Completed' },
    ],
    [
      'completes with a ready snapshot without the database',
      { source: undefined, snapshot: snapshot({ cutAt: 1, isReady: true }) },
      { phase: 'completed' },
    ],
    [
      'fails if the annotation of the snapshot cannot be read',
      { snapshot: snapshot({ takenFrom: undefined, isReady: true }) },
      { phase: 'failed', reason: 'SnapshotUnknown' },
    ],
    [
      'fails if another owner has a snapshot of that name',
      { snapshot: snapshot({ isOwn: false }) },
      { does: [], phase: 'failed', reason: 'NameTaken' },
    ],
    [
      'a failed backup does not change, with or without a snapshot',
      { backup: backup({ phase: 'failed', finishedAt: ago(9_000) }) },
      { does: [], phase: 'failed', reason: undefined },
    ],
    [
      'fails if its recorded snapshot was deleted',
      { backup: backup({ phase: 'running', snapshotName: 'bkp-i' }) },
      { phase: 'failed', reason: 'SnapshotDeleted' },
    ],
    [
      'keeps the finalizer while it is unknown whether a snapshot remains',
      { backup: backup({}, going), snapshots: 'unknown', snapshot: 'unknown' },
      { does: [] },
    ],
    [
      'removes its finalizer if the snapshot belongs to another owner',
      { backup: backup({}, going), snapshot: snapshot({ isOwn: false }) },
      { does: ['remove-finalizer'] },
    ],
    [
      'keeps its finalizer until its database records its due time',
      { backup: backup({}, going), awaitsRecord: true },
      { does: [] },
    ],
    [
      'deletes its snapshot before that',
      { backup: backup({}, going), awaitsRecord: true, snapshot: snapshot() },
      { does: ['delete-snapshot'] },
    ],
    [
      'waits while its snapshot is being deleted',
      { backup: backup({}, going), snapshot: snapshot({ isDeleting: true }) },
      { does: [] },
    ],
    [
      'does nothing if only a finalizer of another controller remains',
      { backup: backup({}, { ...going, finalizers: ['other'] }) },
      { does: [] },
    ],
  ])('%s', (_, more, expected) => {
    expect(summaryOf(more)).toMatchObject(expected)
  })

  test('forgets its Task once that has ended, and not before', () => {
    const completed = backup({ phase: 'completed', finishedAt: ago(0), taskId: 't' })
    const more = { backup: completed, snapshot: snapshot({ cutAt: 1, isReady: true }) }
    expect(plan(observed(more), now, deadlines).status.taskId).toBe('t')
    expect(plan(observed({ ...more, hasTaskEnded: true }), now, deadlines).status.taskId).toBeUndefined()
  })
})
