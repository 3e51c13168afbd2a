/** What a plan comes to at the edges that no life of a backup meets by itself. */
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

const told = (more: Partial<Observed>) => {
  const { actions, status, wakeAt } = plan(observed(more), now, deadlines)
  return {
    does: actions.map(action => action.do),
    phase: status.phase,
    reason: conditionOf(status, 'Progressing')?.reason,
    wakeAt,
  }
}
const blocked = (reason: string) => [ready('True'), { ...ready('True'), type: 'DeletionBlocked', reason }]
const ofBranchToCome = { ...backup(), spec: { ...backup().spec, purpose: 'prebranch' as const } }
const going = { deletionTimestamp: ago(1_000) }

describe('a plan', () => {
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof told>>]>([
    ['gives an id first', { id: undefined }, { does: ['identify'], phase: undefined }],
    ['marks a new one first', { backup: backup(undefined, { annotations: {} }) }, { does: ['identify'] }],
    [
      'but none of an earlier release that is under way',
      { backup: backup({ phase: 'running' }, { annotations: {} }) },
      { does: ['checkpoint'] },
    ],
    [
      'takes none again that is put back without its snapshot',
      { backup: backup(undefined, { uid: 'another' }) },
      { does: [], phase: 'failed', reason: 'PutBack' },
    ],
    [
      'whatever is on record of it meanwhile',
      { backup: backup({ phase: 'pending' }, { uid: 'another' }) },
      { does: [], phase: 'failed', reason: 'PutBack' },
    ],
    [
      'nor one of an earlier release, by its id',
      { id: '019a0000-0000-7000-8000-000000000000', backup: backup(undefined, { annotations: {} }) },
      { does: [], phase: 'failed', reason: 'PutBack' },
    ],
    [
      'is content with the snapshot of one that is put back',
      { backup: backup(undefined, { uid: 'another' }), snapshot: snapshot({ cutAt: 1, isReady: true }) },
      { phase: 'completed' },
    ],
    [
      'does not know of one that is put back before it is known whether there are snapshots',
      { backup: backup(undefined, { uid: 'another' }), snapshots: 'unknown', snapshot: 'unknown' },
      { does: [], phase: 'pending' },
    ],
    ['takes hold first', { backup: backup(undefined, { finalizers: [] }) }, { does: ['identify'] }],
    [
      'waits until it is known whether there are snapshots',
      { snapshots: 'unknown', snapshot: 'unknown' },
      { does: [], phase: 'pending' },
    ],
    [
      'and no longer than for a snapshot',
      { snapshots: 'unknown', snapshot: 'unknown', snapshotsAskedAt: now - 600_000 },
      { phase: 'failed', reason: 'SnapshotsUnknown' },
    ],
    ['begins with a checkpoint', {}, { does: ['checkpoint'], phase: 'running', reason: 'Checkpointing' }],
    [
      'asks again for one that found no room',
      { checkpoint: { state: 'waiting' } },
      { does: ['checkpoint'], wakeAt: now + 5_000 },
    ],
    ['asks for no second one', { checkpoint: { state: 'running', since: now } }, { does: [], phase: 'running' }],
    ['goes on to the snapshot', { checkpoint: { state: 'succeeded', point } }, { does: ['create-snapshot'] }],
    [
      'takes no snapshot of other data than it made a checkpoint of',
      { checkpoint: { state: 'succeeded', point: { ...point, systemIdentifier: '8' } } },
      { does: [], phase: 'failed', reason: 'OtherData' },
    ],
    [
      'does not count on a volume that is on no record',
      { checkpoint: { state: 'succeeded', point }, ...source({ volume: undefined }) },
      { does: [], phase: 'failed', reason: 'OtherData' },
    ],
    [
      'leaves one that runs to run, whoever is ahead',
      { backup: backup({ phase: 'running' }), ahead: 'other' },
      { does: ['checkpoint'] },
    ],
    ['waits its turn', { ahead: 'other' }, { does: [], phase: 'pending', reason: 'Queued' }],
    [
      'waits for a database that does not serve',
      source({ conditions: [ready('False', 20_000)] }),
      { does: [], phase: 'pending', reason: 'AwaitingDatabase', wakeAt: now - 1_000 + 60_000 },
    ],
    [
      'and no longer than said, from when it was asked on',
      {
        backup: backup(undefined, { creationTimestamp: ago(60_000) }),
        ...source({ conditions: [ready('False', 90_000)] }),
      },
      { phase: 'failed', reason: 'DatabaseNotServing' },
    ],
    [
      'or from when it stopped serving',
      {
        backup: backup(undefined, { creationTimestamp: ago(600_000) }),
        ...source({ conditions: [ready('False', 10_000)] }),
      },
      { phase: 'pending', wakeAt: now + 50_000 },
    ],
    [
      'refuses a database that is being deleted',
      source({ phase: 'deleting' }, going),
      { phase: 'failed', reason: 'DatabaseDeleting' },
    ],
    [
      'and one whose deletion is stuck',
      source({ phase: 'deleting', conditions: blocked('DeletionStuck') }, going),
      { reason: 'DatabaseDeleting' },
    ],
    [
      'but none whose deletion is held up, and which serves',
      source({ phase: 'deleting', conditions: blocked('HasBranches') }, going),
      { does: ['checkpoint'] },
    ],
    [
      'whether by branches or by protection',
      source({ phase: 'deleting', conditions: blocked('DeletionProtected') }, going),
      { does: ['checkpoint'] },
    ],
    [
      'takes what a branch is made of as long as that holds the deletion up',
      { ...source({ phase: 'available' }, going), backup: ofBranchToCome },
      { does: ['checkpoint'] },
    ],
    [
      'and no longer',
      {
        ...source({ phase: 'deleting', conditions: [{ ...ready('False'), reason: 'Deleting' }] }, going),
        backup: ofBranchToCome,
      },
      { reason: 'DatabaseDeleting' },
    ],
    ['refuses one that has failed', source({ phase: 'failed' }), { reason: 'DatabaseFailed' }],
    ['is of a branch as well', ofBranch({}), { does: ['checkpoint'] }],
    ['refuses a branch that there is not', { ...ofBranch({}), source: undefined }, { reason: 'BranchMissing' }],
    ['and one that is going', ofBranch({}, { deletionRequestedAt: ago(1_000) }), { reason: 'BranchDeleting' }],
    ['and one that is gone', ofBranch({ phase: 'deleted' }), { reason: 'BranchDeleting' }],
    ['and one that has failed', ofBranch({ phase: 'failed' }), { reason: 'BranchFailed' }],
    [
      'looks at a snapshot before anything else',
      { snapshot: snapshot(), claimUid: 'claim', source: source({ phase: 'failed' }).source },
      { does: [], phase: 'running', reason: 'Snapshotting', wakeAt: now - 1_000 + 600_000 },
    ],
    [
      'gives the storage time to mend an error',
      { snapshot: snapshot({ error: 'busy' }) },
      { phase: 'running', wakeAt: now - 1_000 + 30_000 },
    ],
    [
      'and no more',
      { snapshot: snapshot({ error: 'full', askedAt: now - 30_000 }) },
      { phase: 'failed', reason: 'SnapshotFailed' },
    ],
    [
      'gives up on a cut',
      { snapshot: snapshot({ askedAt: now - 600_000 }) },
      { phase: 'failed', reason: 'SnapshotStalled' },
    ],
    [
      'counts from the cut on, once there is one',
      { snapshot: snapshot({ askedAt: now - 600_000, cutAt: now - 5_000 }) },
      { does: [], phase: 'running', reason: 'Finishing', wakeAt: now - 5_000 + 3600_000 },
    ],
    [
      'and waits for the storage longer than for a cut',
      { snapshot: snapshot({ askedAt: now - 700_000, cutAt: now - 700_000 }) },
      { phase: 'running', reason: 'Finishing' },
    ],
    [
      'from the cut on without the database',
      { snapshot: snapshot({ cutAt: now - 500 }), source: undefined },
      { phase: 'running', reason: 'Finishing' },
    ],
    [
      'believes no clock that is behind',
      { snapshot: snapshot({ cutAt: 0 }) },
      { phase: 'running', wakeAt: now - 1_000 + 3600_000 },
    ],
    [
      'is content with what is ready, however long it took',
      { snapshot: snapshot({ askedAt: 0, cutAt: 1, isReady: true }) },
      { phase: 'completed', reason: 'Completed' },
    ],
    [
      'and does not need the database for that',
      { source: undefined, snapshot: snapshot({ cutAt: 1, isReady: true }) },
      { phase: 'completed' },
    ],
    [
      'takes no snapshot that nobody can read',
      { snapshot: snapshot({ cutOf: undefined, isReady: true }) },
      { phase: 'failed', reason: 'SnapshotUnknown' },
    ],
    [
      "takes no snapshot of another's",
      { snapshot: snapshot({ isOurs: false }) },
      { does: [], phase: 'failed', reason: 'NameTaken' },
    ],
    [
      'leaves one that failed as it is, with or without a snapshot',
      { backup: backup({ phase: 'failed', finishedAt: ago(9_000) }) },
      { does: [], phase: 'failed', reason: undefined },
    ],
    [
      'sees that its snapshot was taken away',
      { backup: backup({ phase: 'running', snapshotName: 'bkp-i' }) },
      { phase: 'failed', reason: 'SnapshotDeleted' },
    ],
    [
      'lets nothing go before it is known what is left',
      { backup: backup({}, going), snapshots: 'unknown', snapshot: 'unknown' },
      { does: [] },
    ],
    [
      'lets go of what is not its own, too',
      { backup: backup({}, going), snapshot: snapshot({ isOurs: false }) },
      { does: ['release'] },
    ],
    [
      'keeps its finalizer until its database records when it was due',
      { backup: backup({}, going), awaitsRecord: true },
      { does: [] },
    ],
    [
      'deletes its snapshot before that',
      { backup: backup({}, going), awaitsRecord: true, snapshot: snapshot() },
      { does: ['delete-snapshot'] },
    ],
    ['waits for what goes already', { backup: backup({}, going), snapshot: snapshot({ isGoing: true }) }, { does: [] }],
    [
      'does nothing for another that holds it',
      { backup: backup({}, { ...going, finalizers: ['other'] }) },
      { does: [] },
    ],
  ])('%s', (_, more, expected) => {
    expect(told(more)).toMatchObject(expected)
  })

  test('forgets its Task once that has ended, and not before', () => {
    const completed = backup({ phase: 'completed', finishedAt: ago(0), taskId: 't' })
    const more = { backup: completed, snapshot: snapshot({ cutAt: 1, isReady: true }) }
    expect(plan(observed(more), now, deadlines).status.taskId).toBe('t')
    expect(plan(observed({ ...more, isTaskOver: true }), now, deadlines).status.taskId).toBeUndefined()
  })
})
