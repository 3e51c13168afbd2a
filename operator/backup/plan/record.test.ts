/** What is said of a backup as it goes: its status is what a restore goes by. */
import { describe, expect, test } from 'vitest'
import { teardownFinalizer } from '../../../crds/index.ts'
import { preciseTime, timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import {
  ago,
  backup,
  cutOf,
  database,
  deadlines,
  now,
  observed,
  point,
  ready,
  region,
  snapshot,
  source,
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

describe('on its way', () => {
  test.each<[string, Partial<Observed>, object, [step: string, message: string], at?: number]>([
    ['to be looked for', { snapshot: 'unknown' }, { phase: 'pending' }, ['Preparing', 'looking for its snapshot']],
    [
      'to its turn',
      { ahead: 'other' },
      { phase: 'pending' },
      ['Queued', 'waiting for other: one backup of a database is taken at a time'],
    ],
    [
      'to a database that serves',
      source({ conditions: [ready('False')] }),
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve: the pod is gone'],
    ],
    [
      'to a database that comes',
      source({ conditions: [] }, { creationTimestamp: ago(1_000) }),
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve yet'],
    ],
    [
      'to a database whose volume is not on record',
      source({ volume: undefined }, { creationTimestamp: ago(1_000) }),
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve yet'],
    ],
    [
      'to a database that is out of reach',
      { source: { database: database({}, { creationTimestamp: ago(1_000) }), region, isReachable: false } },
      { phase: 'pending' },
      ['AwaitingDatabase', 'the database does not serve yet'],
    ],
    [
      'to a checkpoint',
      {},
      { phase: 'running', startedAt: timestamp(now) },
      ['Checkpointing', 'writing what Postgres holds to its files'],
    ],
    [
      'by a checkpoint',
      { checkpoint: { state: 'running', since: now } },
      { phase: 'running' },
      ['Checkpointing', 'writing what Postgres holds to its files'],
    ],
    [
      'to a snapshot',
      { checkpoint: { state: 'succeeded', point } },
      { phase: 'running' },
      ['Snapshotting', 'asking the storage for a snapshot'],
    ],
    [
      'by a snapshot',
      { snapshot: snapshot() },
      { phase: 'running', ...recorded },
      ['Snapshotting', 'the storage makes the snapshot'],
    ],
    [
      'to a snapshot that is ready',
      { snapshot: snapshot({ cutAt: now - 500 }) },
      { phase: 'running', ...recorded, cutAt: timestamp(now - 500) },
      ['Finishing', 'the snapshot is cut, and is being made ready'],
    ],
  ])('%s it says so', (_, more, status, [step, message]) => {
    expect(planOf(more).status).toMatchObject({ taskId: 't', ...status })
    expect(conditions(more)).toEqual({ Ready: notYet, Progressing: ['True', step, message] })
  })

  test('it was begun when it was begun, and runs from then on', () => {
    const begun = backup({ phase: 'running', startedAt: ago(5_000) })
    expect(planOf({ backup: begun, checkpoint: { state: 'running', since: now } }).status.startedAt).toBe(ago(5_000))
    const waiting = planOf({ backup: begun, ...source({ conditions: [ready('False')] }) }).status
    expect([waiting.phase, waiting.startedAt]).toEqual(['running', ago(5_000)])
    expect(planOf({ ahead: 'other' }).status).not.toHaveProperty('startedAt')
  })
  test('it says which generation it is of', () => {
    const of = (generation?: number) =>
      planOf({ backup: backup(undefined, generation === undefined ? {} : { generation }) }).status
    expect(of(3)).toMatchObject({
      observedGeneration: 3,
      conditions: [{ observedGeneration: 3 }, { observedGeneration: 3 }],
    })
    expect(of()).not.toHaveProperty('observedGeneration')
  })
  test('its snapshot is of the volume on record, and says what the checkpoint said', () => {
    expect(planOf({ checkpoint: { state: 'succeeded', point } }).actions).toEqual([
      { do: 'create-snapshot', of: { ...cutOf, pgVersion: '18', region: 'here' } },
    ])
  })
  test('an error of the storage leaves it as much time as is said, from its last step on', () => {
    const wakeAt = (more: Parameters<typeof snapshot>[0]) => planOf({ snapshot: snapshot(more) }).wakeAt
    const askedAt = now - 20_000
    expect(wakeAt({ askedAt })).toBe(askedAt + deadlines.cutMs)
    expect(wakeAt({ askedAt, error: 'busy' })).toBe(askedAt + deadlines.errorMs)
    expect(wakeAt({ askedAt, cutAt: now - 5_000 })).toBe(now - 5_000 + deadlines.readyMs)
    expect(wakeAt({ askedAt, cutAt: now - 5_000, error: 'busy' })).toBe(now - 5_000 + deadlines.errorMs)
    expect(planOf({ snapshot: 'unknown', snapshotsAskedAt: now - 1_000 }).wakeAt).toBe(now - 1_000 + deadlines.cutMs)
  })
})

describe('completed', () => {
  const done = { snapshot: snapshot({ cutAt: now - 500, isReady: true, bytes: 7 }) }
  test('it says what it is of, and can be restored', () => {
    const { status, actions, wakeAt } = planOf({ ...done, backup: backup({ phase: 'running', startedAt: ago(5_000) }) })
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
    expect([actions, wakeAt]).toEqual([[], undefined])
    expect(conditions(done)).toEqual({
      Ready: ['True', 'Completed', 'it can be restored'],
      Progressing: ['False', 'Completed', 'the backup is completed'],
    })
    expect(planOf(done).status.startedAt).toBe(timestamp(now))
    expect(planOf({ snapshot: snapshot({ cutAt: now, isReady: true }) }).status).not.toHaveProperty('sizeBytes')
  })
  test.each<[string, Observed['snapshot']]>([
    ['taken away', 'absent'],
    ['being taken away', snapshot({ isGoing: true })],
    ["somebody else's", snapshot({ isOurs: false })],
    ['without its content', snapshot({ cutAt: 1, error: 'VolumeSnapshotContent is missing' })],
  ])('it is lost with a snapshot that is %s', (_, its) => {
    const more = { backup: backup({ phase: 'completed', finishedAt: ago(9_000), ...recorded }), snapshot: its }
    expect(planOf(more).status).toMatchObject({
      ...failedFor(/nothing to restore from/),
      finishedAt: ago(9_000),
      ...recorded,
    })
    expect(planOf(more).actions).toEqual([])
    expect(conditions(more).Ready.slice(0, 2)).toEqual(['False', 'SnapshotLost'])
  })
  test('it says which volume its data have become, where it was for that alone', () => {
    const more = {
      backup: backup({ phase: 'completed', finishedAt: ago(9_000), ...recorded }),
      snapshot: snapshot({ cutAt: 1, becameVolume: 'branch-1-data' }),
    }
    expect(planOf(more)).toMatchObject({ actions: [], status: { phase: 'completed' } })
    expect(conditions(more).Ready).toEqual([
      ...['False', 'BecameVolume'],
      expect.stringMatching(/become the volume of the claim branch-1-data: there is nothing to restore from/),
    ])
  })
  test('it is not lost while nobody knows of its snapshot', () => {
    const status = { phase: 'completed' as const, finishedAt: ago(9_000) }
    for (const its of ['unknown' as const, snapshot({ cutAt: 1, isReady: true })])
      expect(planOf({ backup: backup(status), snapshot: its })).toEqual({ actions: [], status, wakeAt: undefined })
  })
})

describe('failed', () => {
  test.each<[string, Partial<Observed>, reason: string, error: RegExp]>([
    [
      'with its checkpoint',
      { checkpoint: { state: 'failed', message: 'no room' } },
      'CheckpointFailed',
      /^the checkpoint before the snapshot failed: no room$/,
    ],
    ['with its database', { source: undefined }, 'DatabaseMissing', /^there is no database one with the id i$/],
    [
      'with what it asks for',
      { backup: { ...backup(), spec: { ...backup().spec, kind: 'durable' } } },
      'NotAvailable',
      /takes no durable backups/,
    ],
    [
      'without snapshots in the cluster',
      { snapshots: 'absent' },
      'SnapshotsNotServed',
      /^the cluster knows no snapshots of volumes/,
    ],
    [
      'without snapshots in the region',
      { source: { database: database(), region: undefined, isReachable: true } },
      'RegionMissing',
      /^there is no region here$/,
    ],
    [
      'with a suspended database',
      {
        source: { ...here, database: { ...database({ phase: 'suspended' }), spec: { ...plainSpec, suspended: true } } },
      },
      'DatabaseSuspended',
      /^the database is suspended: resume it first$/,
    ],
    [
      'with its claim',
      { snapshot: snapshot(), claimUid: 'another' },
      'OtherData',
      /^another volume claim has taken the name data meanwhile$/,
    ],
    [
      'with the database, before the cut',
      { snapshot: snapshot(), source: undefined },
      'DatabaseMissing',
      /^the database was deleted before the snapshot was cut$/,
    ],
    [
      'with the storage',
      { snapshot: snapshot({ error: 'full', askedAt: now - 30_000 }) },
      'SnapshotFailed',
      /^the storage makes no snapshot: full$/,
    ],
    [
      'with the time, before the cut',
      { snapshot: snapshot({ askedAt: now - 600_400 }) },
      'SnapshotStalled',
      /^the snapshot is not cut after 600 s$/,
    ],
    [
      'with the time, after the cut',
      { snapshot: snapshot({ cutAt: now - 3600_000, askedAt: now - 3700_000 }) },
      'SnapshotStalled',
      /^the snapshot is cut, and not ready after 3600 s$/,
    ],
    [
      'with its snapshot',
      { snapshot: snapshot({ isGoing: true }) },
      'SnapshotDeleted',
      /^its snapshot was deleted by somebody/,
    ],
  ])('%s it says why, and when', (_, more, reason, error) => {
    expect(planOf(more)).toMatchObject({ actions: [], wakeAt: undefined, status: failedFor(error) })
    const { Ready, Progressing } = conditions(more)
    expect([Ready, Progressing].map(([is, why]) => [is, why])).toEqual([
      ['False', reason],
      ['False', reason],
    ])
    expect(Ready[2]).toMatch(error)
  })
  test('its snapshot is on record where it is its own, so that it is taken away', () => {
    expect(planOf({ snapshot: snapshot({ isGoing: true }) }).status.snapshotName).toBe('bkp-i')
    const theirs = planOf({ snapshot: snapshot({ isOurs: false }) })
    expect(theirs.status).toMatchObject(failedFor(/^VolumeSnapshot bkp-i belongs to someone else/))
    expect(theirs.status).not.toHaveProperty('snapshotName')
    const left = backup({ phase: 'failed', finishedAt: ago(1_000) })
    const uid = { do: 'delete-snapshot', name: 'bkp-i', uid: 'snapshot' }
    expect(planOf({ backup: left, snapshot: snapshot() }).actions).toEqual([uid])
    expect(planOf({ backup: left, snapshot: snapshot({ isGoing: true }) }).actions).toEqual([])
    expect(planOf({ backup: left, snapshot: snapshot({ isOurs: false }) }).actions).toEqual([])
  })
  test('it says no more than a status holds', () => {
    const error = planOf({ checkpoint: { state: 'failed', message: 'x'.repeat(2000) } }).status.error
    expect(error).toHaveLength(1000)
  })
  test('by an earlier version it stays as it was', () => {
    const status = { phase: 'failed' as const }
    expect(planOf({ backup: backup(status), checkpoint: { state: 'succeeded', point } })).toEqual({
      actions: [],
      status,
      wakeAt: undefined,
    })
  })
})

describe('taken away', () => {
  const going = (finalizers = [teardownFinalizer]) =>
    backup({ phase: 'completed' }, { deletionTimestamp: ago(0), finalizers })
  test('it takes its snapshot with it, by uid, and goes after that', () => {
    expect(planOf({ backup: going(), snapshot: snapshot() }).actions).toEqual([
      { do: 'delete-snapshot', name: 'bkp-i', uid: 'snapshot' },
    ])
    expect(planOf({ backup: going() })).toEqual({
      actions: [{ do: 'release' }],
      status: { phase: 'completed' },
      wakeAt: undefined,
    })
    expect(planOf({ backup: going([]), snapshot: snapshot() }).actions).toEqual([])
    expect(
      planOf({ backup: backup({ phase: 'completed' }, { deletionTimestamp: ago(0), finalizers: undefined }) }).actions,
    ).toEqual([])
  })
  test('it is given its id and held from its first pass on', () => {
    expect(planOf({ id: undefined }).actions).toEqual([{ do: 'identify', id: undefined }])
    expect(planOf({ backup: backup(undefined, { finalizers: undefined }) }).actions).toEqual([
      { do: 'identify', id: 'i' },
    ])
  })
})
