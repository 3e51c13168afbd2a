/** The status of a backup during its life, which a restore relies on. */
import { describe, expect, test } from 'vitest'
import { teardownFinalizer } from '../../../crds/index.ts'
import { preciseTime, timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import {
  ago,
  backup,
  database,
  deadlines,
  now,
  observed,
  point,
  ready,
  region,
  snapshot,
  source,
  takenFrom,
} from '../../testing/observed-backup.ts'
import { plainSpec } from '../../testing/samples.ts'
import type { Observed } from '../observed.ts'
import { plan } from './index.ts'

const planOf = (more: Partial<Observed>, at = now) => plan(observed(more), at, deadlines)
const conditions = (more: Partial<Observed>, at = now) => {
  const { status } = planOf(more, at)
  const of = (type: string) => {
    const { status: is, reason, message } = conditionOf(status, type) ?? {}
    return [is, reason, message]
  }
  return { Ready: of('Ready'), Progressing: of('Progressing') }
}
const here = { database: database(), region, isReachable: true }
const notYet = ['False', 'NotCompleted', 'the backup is not completed']
const recorded = { snapshotName: 'bkp-i', startLsn: '0/1', endLsn: '0/2', timeline: 1, systemIdentifier: '7' }
const failedFor = (message: string | RegExp) => ({
  phase: 'failed',
  finishedAt: preciseTime(now),
  error: expect.stringMatching(message),
})

describe('a running backup', () => {
  test.each<[string, Partial<Observed>, object, [step: string, message: string], at?: number]>([
    [
      'before its snapshot is read',
      { snapshot: 'unknown' },
      { phase: 'pending' },
      ['Preparing', 'waiting for the list of volume snapshots'],
    ],
    [
      'while another backup is ahead',
      { blockedBy: 'other' },
      { phase: 'pending' },
      ['Queued', 'waiting for other: one backup of a database is taken at a time'],
    ],
    [
      'while the database does not serve',
      source({ conditions: [ready('False')] }),
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve: the pod is gone'],
    ],
    [
      'while the database is being created',
      source({ conditions: [] }, { creationTimestamp: ago(1_000) }),
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve yet'],
    ],
    [
      'while the database has no recorded volume',
      source({ volume: undefined }, { creationTimestamp: ago(1_000) }),
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve yet'],
    ],
    [
      'while the database is not reachable',
      { source: { database: database({}, { creationTimestamp: ago(1_000) }), region, isReachable: false } },
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve yet'],
    ],
    [
      'before its checkpoint',
      {},
      { phase: 'running', startedAt: timestamp(now) },
      ['Checkpointing', 'running a checkpoint'],
    ],
    [
      'during its checkpoint',
      { checkpoint: { state: 'running', since: now } },
      { phase: 'running' },
      ['Checkpointing', 'running a checkpoint'],
    ],
    [
      'before its snapshot',
      { checkpoint: { state: 'succeeded', point } },
      { phase: 'running' },
      ['Snapshotting', 'requesting a snapshot from the storage'],
    ],
    [
      'during its snapshot',
      { snapshot: snapshot() },
      { phase: 'running', ...recorded },
      ['Snapshotting', 'the storage takes the snapshot'],
    ],
    [
      'once the snapshot is taken',
      { snapshot: snapshot({ cutAt: now - 500 }) },
      { phase: 'running', ...recorded, cutAt: timestamp(now - 500) },
      ['Finishing', 'the snapshot is taken, but not ready yet'],
    ],
  ])('reports its step %s', (_, more, status, [step, message]) => {
    expect(planOf(more).status).toMatchObject({ taskId: 't', ...status })
    expect(conditions(more)).toEqual({ Ready: notYet, Progressing: ['True', step, message] })
  })

  test('records its start once, and is running from then on', () => {
    const begun = backup({ phase: 'running', startedAt: ago(5_000) })
    expect(planOf({ backup: begun, checkpoint: { state: 'running', since: now } }).status.startedAt).toBe(ago(5_000))
    const waiting = planOf({ backup: begun, ...source({ conditions: [ready('False')] }) }).status
    expect([waiting.phase, waiting.startedAt]).toEqual(['running', ago(5_000)])
    expect(planOf({ blockedBy: 'other' }).status).not.toHaveProperty('startedAt')
  })
  test('records the observed generation', () => {
    const of = (generation?: number) =>
      planOf({ backup: backup(undefined, generation === undefined ? {} : { generation }) }).status
    expect(of(3)).toMatchObject({
      observedGeneration: 3,
      conditions: [{ observedGeneration: 3 }, { observedGeneration: 3 }],
    })
    expect(of()).not.toHaveProperty('observedGeneration')
  })
  test('has a snapshot of the recorded volume, with the result of the checkpoint', () => {
    expect(planOf({ checkpoint: { state: 'succeeded', point } }).actions).toEqual([
      { do: 'create-snapshot', of: { ...takenFrom, pgVersion: '18', region: 'here' } },
    ])
  })
  test('has the full timeout from its last step on after an error of the storage', () => {
    const requeueAt = (more: Parameters<typeof snapshot>[0]) => planOf({ snapshot: snapshot(more) }).requeueAt
    const requestedAt = now - 20_000
    expect(requeueAt({ requestedAt })).toBe(requestedAt + deadlines.cutMs)
    expect(requeueAt({ requestedAt, error: 'busy' })).toBe(requestedAt + deadlines.errorMs)
    expect(requeueAt({ requestedAt, cutAt: now - 5_000 })).toBe(now - 5_000 + deadlines.readyMs)
    expect(requeueAt({ requestedAt, cutAt: now - 5_000, error: 'busy' })).toBe(now - 5_000 + deadlines.errorMs)
    expect(planOf({ snapshot: 'unknown', snapshotsQueriedAt: now - 1_000 }).requeueAt).toBe(
      now - 1_000 + deadlines.cutMs,
    )
  })
})

describe('completed', () => {
  const done = { snapshot: snapshot({ cutAt: now - 500, isReady: true, bytes: 7 }) }
  test('records its source, and can be restored', () => {
    const { status, actions, requeueAt } = planOf({
      ...done,
      backup: backup({ phase: 'running', startedAt: ago(5_000) }),
    })
    expect(status).toMatchObject({
      ...{
        phase: 'completed',
        startedAt: ago(5_000),
        finishedAt: preciseTime(now),
        duration: '5s',
        sizeBytes: 7,
        cutAt: timestamp(now - 500),
      },
      ...recorded,
    })
    expect([actions, requeueAt]).toEqual([[], undefined])
    expect(conditions(done)).toEqual({
      Ready: ['True', 'Completed', 'the backup can be restored'],
      Progressing: ['False', 'Completed', 'the backup is completed'],
    })
    expect(planOf(done).status.startedAt).toBe(timestamp(now))
    expect(planOf({ snapshot: snapshot({ cutAt: now, isReady: true }) }).status).not.toHaveProperty('sizeBytes')
  })
  test.each<[string, Observed['snapshot']]>([
    ['deleted', 'absent'],
    ['being deleted', snapshot({ isDeleting: true })],
    ['of another owner', snapshot({ isOwn: false })],
    ['without its content', snapshot({ cutAt: 1, error: 'VolumeSnapshotContent is missing' })],
  ])('is lost with a snapshot that is %s', (_, its) => {
    const more = { backup: backup({ phase: 'completed', finishedAt: ago(9_000), ...recorded }), snapshot: its }
    expect(planOf(more).status).toMatchObject({
      ...failedFor(/the backup can no longer be restored/),
      finishedAt: ago(9_000),
      ...recorded,
    })
    expect(planOf(more).actions).toEqual([])
    expect(conditions(more).Ready.slice(0, 2)).toEqual(['False', 'SnapshotLost'])
  })
  test('names the volume that its data have become, if it was only for that volume', () => {
    const more = {
      backup: backup({ phase: 'completed', finishedAt: ago(9_000), ...recorded }),
      snapshot: snapshot({ cutAt: 1, becameVolume: 'branch-1-data' }),
    }
    expect(planOf(more)).toMatchObject({ actions: [], status: { phase: 'completed' } })
    expect(conditions(more).Ready).toEqual([
      ...['False', 'BecameVolume'],
      expect.stringMatching(/into the volume of the claim branch-1-data: the backup can no longer be restored/),
    ])
  })
  test('is not lost while the state of its snapshot is unknown', () => {
    const status = { phase: 'completed' as const, finishedAt: ago(9_000) }
    for (const its of ['unknown' as const, snapshot({ cutAt: 1, isReady: true })])
      expect(planOf({ backup: backup(status), snapshot: its })).toEqual({ actions: [], status, requeueAt: undefined })
  })
})

describe('failed', () => {
  test.each<[string, Partial<Observed>, reason: string, error: RegExp]>([
    [
      'after an error of the checkpoint',
      { checkpoint: { state: 'failed', message: 'no room' } },
      'CheckpointFailed',
      /^the checkpoint before the snapshot failed: no room$/,
    ],
    [
      'if the database does not exist',
      { source: undefined },
      'DatabaseMissing',
      /^there is no database one with the id i$/,
    ],
    [
      'if it is durable and the durable tier is off',
      { backup: { ...backup(), spec: { ...backup().spec, kind: 'durable' } } },
      'DurableTierOff',
      /the durable tier is not enabled/,
    ],
    [
      'if the cluster has no snapshots',
      { snapshots: 'absent' },
      'SnapshotsNotServed',
      /^the cluster does not support volume snapshots/,
    ],
    [
      'if the region does not exist',
      { source: { database: database(), region: undefined, isReachable: true } },
      'RegionMissing',
      /^there is no region here$/,
    ],
    [
      'if the database is suspended',
      {
        source: { ...here, database: { ...database({ phase: 'suspended' }), spec: { ...plainSpec, suspended: true } } },
      },
      'DatabaseSuspended',
      /^the database is suspended: resume it first$/,
    ],
    [
      'if another claim has the name',
      { snapshot: snapshot(), claimUid: 'another' },
      'OtherData',
      /^the volume claim data was replaced by another one with the same name$/,
    ],
    [
      'if the database is deleted before the cut',
      { snapshot: snapshot(), source: undefined },
      'DatabaseMissing',
      /^the database was deleted before the snapshot was taken$/,
    ],
    [
      'after an error of the storage',
      { snapshot: snapshot({ error: 'full', requestedAt: now - 30_000 }) },
      'SnapshotFailed',
      /^the storage cannot take the snapshot: full$/,
    ],
    [
      'at the deadline of the cut',
      { snapshot: snapshot({ requestedAt: now - 600_400 }) },
      'SnapshotStalled',
      /^the snapshot is not taken after 600 s$/,
    ],
    [
      'at the deadline of readiness',
      { snapshot: snapshot({ cutAt: now - 3600_000, requestedAt: now - 3700_000 }) },
      'SnapshotStalled',
      /^the snapshot is taken, but not ready after 3600 s$/,
    ],
    [
      'if its snapshot is being deleted',
      { snapshot: snapshot({ isDeleting: true }) },
      'SnapshotDeleted',
      /^its snapshot was deleted before it was ready/,
    ],
  ])('%s, with reason and time', (_, more, reason, error) => {
    expect(planOf(more)).toMatchObject({ actions: [], requeueAt: undefined, status: failedFor(error) })
    const { Ready, Progressing } = conditions(more)
    expect([Ready, Progressing].map(([is, why]) => [is, why])).toEqual([
      ['False', reason],
      ['False', reason],
    ])
    expect(Ready[2]).toMatch(error)
  })
  test('records its own snapshot, so that it is deleted', () => {
    expect(planOf({ snapshot: snapshot({ isDeleting: true }) }).status.snapshotName).toBe('bkp-i')
    const ofAnotherOwner = planOf({ snapshot: snapshot({ isOwn: false }) })
    expect(ofAnotherOwner.status).toMatchObject(
      failedFor(/^VolumeSnapshot bkp-i exists and was not created for this backup/),
    )
    expect(ofAnotherOwner.status).not.toHaveProperty('snapshotName')
    const failedBackup = backup({ phase: 'failed', finishedAt: ago(1_000) })
    const uid = { do: 'delete-snapshot', name: 'bkp-i', uid: 'snapshot' }
    expect(planOf({ backup: failedBackup, snapshot: snapshot() }).actions).toEqual([uid])
    expect(planOf({ backup: failedBackup, snapshot: snapshot({ isDeleting: true }) }).actions).toEqual([])
    expect(planOf({ backup: failedBackup, snapshot: snapshot({ isOwn: false }) }).actions).toEqual([])
  })
  test('has messages no longer than the limit of the status', () => {
    const error = planOf({ checkpoint: { state: 'failed', message: 'x'.repeat(2000) } }).status.error
    expect(error).toHaveLength(1000)
  })
  test('of an earlier version is not changed', () => {
    const status = { phase: 'failed' as const }
    expect(planOf({ backup: backup(status), checkpoint: { state: 'succeeded', point } })).toEqual({
      actions: [],
      status,
      requeueAt: undefined,
    })
  })
})

describe('deletion', () => {
  const going = (finalizers = [teardownFinalizer]) =>
    backup({ phase: 'completed' }, { deletionTimestamp: ago(0), finalizers })
  test('deletes its snapshot, by uid, then the backup', () => {
    expect(planOf({ backup: going(), snapshot: snapshot() }).actions).toEqual([
      { do: 'delete-snapshot', name: 'bkp-i', uid: 'snapshot' },
    ])
    expect(planOf({ backup: going() })).toEqual({
      actions: [{ do: 'remove-finalizer' }],
      status: { phase: 'completed' },
      requeueAt: undefined,
    })
    expect(planOf({ backup: going([]), snapshot: snapshot() }).actions).toEqual([])
    expect(
      planOf({ backup: backup({ phase: 'completed' }, { deletionTimestamp: ago(0), finalizers: undefined }) }).actions,
    ).toEqual([])
  })
  test('it gets its id and finalizer in its first pass', () => {
    expect(planOf({ id: undefined }).actions).toEqual([{ do: 'identify', id: undefined }])
    expect(planOf({ backup: backup(undefined, { finalizers: undefined }) }).actions).toEqual([
      { do: 'identify', id: 'i' },
    ])
  })
})
