/** The backup of a volume that a restore is about to replace, and what delays the deletion of a backup. */
import { describe, expect, test } from 'vitest'
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
} from '../../testing/observed-backup.ts'
import type { Observed, PrerestoreFacts } from '../observed.ts'
import { plan } from './index.ts'

const planOf = (more: Partial<Observed>) => plan(observed(more), now, deadlines)
const progressing = (more: Partial<Observed>) => conditionOf(planOf(more).status, 'Progressing')

describe('a prerestore backup', () => {
  const { systemIdentifier } = point
  const volume = { claim: 'data', claimUid: 'claim', systemIdentifier }
  const stopped: PrerestoreFacts = { state: 'stopped', ...volume, claimExists: true }

  test('is of the stopped volume; Postgres is not queried', () => {
    const { actions, status, requeueAt } = planOf({
      prerestoreOf: stopped,
      ...source({ conditions: [ready('False')] }),
    })
    expect(actions).toEqual([{ do: 'create-snapshot', of: { ...volume, pgVersion: '18', region: 'here' } }])
    expect([status.phase, status.startedAt, requeueAt]).toEqual(['running', timestamp(now), undefined])
    expect(progressing({ prerestoreOf: stopped })?.reason).toBe('Snapshotting')
  })
  test.each<[PrerestoreFacts['state'] & ('running' | 'stopping'), number | undefined]>([
    ['running', undefined],
    ['stopping', now + 250],
  ])('waits for a backup that is %s', (state, requeueAt) => {
    const { actions, status, requeueAt: requeues } = planOf({ prerestoreOf: { state } })
    expect([actions, status.phase, requeues]).toEqual([[], 'pending', requeueAt])
    expect(progressing({ prerestoreOf: { state } })?.reason).toBe('AwaitingStop')
  })
  test.each<[string, PrerestoreFacts, RegExp]>([
    ['RestoreEnded', { state: 'over' }, /^the restore ended/],
    ['VolumeLost', { ...stopped, claimExists: false }, /^the volume claim data no longer exists$/],
  ])('fails: %s', (reason, prerestoreOf, error) => {
    const { actions, status } = planOf({ prerestoreOf })
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', finishedAt: preciseTime(now), error: expect.stringMatching(error) })
    expect(progressing({ prerestoreOf })?.reason).toBe(reason)
  })

  const uneven = { ...region, spec: { ...region.spec, snapshotClass: { name: 'fast', atomic: false } } }
  test('is taken whatever the state of its database', () => {
    const failed = { database: database({ phase: 'failed' }), region, isReachable: false }
    expect(planOf({ prerestoreOf: stopped, source: failed }).actions).toHaveLength(1)
  })
  test('is not taken if snapshots are not declared to be of one instant, like any other', () => {
    const its = { database: database(), region: uneven, isReachable: true }
    expect(progressing({ prerestoreOf: stopped, source: its })?.reason).toBe('NotAtomic')
    expect(progressing({ source: its })?.reason).toBe('NotAtomic')
  })
  test('is not taken if the region has no snapshots at all', () => {
    const nowhere = { database: database(), region: undefined, isReachable: true }
    expect(progressing({ prerestoreOf: stopped, source: nowhere })?.reason).toBe('RegionMissing')
  })
})

describe('deletion', () => {
  const going = backup({ phase: 'completed', finishedAt: ago(9_000) }, { deletionTimestamp: ago(0) })
  const checked = { ...observed().verification, hasObjects: true }

  test.each<[string, Observed['snapshot']]>([
    ['there', snapshot()],
    ['unknown', 'unknown'],
  ])('waits while something is created from its snapshot, which is %s', (_, its) => {
    const more = { backup: going, snapshot: its, usedBy: 'the database copy' }
    expect(planOf(more)).toMatchObject({ actions: [], requeueAt: undefined, status: going.status ?? {} })
    expect(progressing(more)).toMatchObject({
      ...{ status: 'True', reason: 'InUse' },
      message: 'the database copy still reads from this backup: the operator deletes the backup after that',
    })
  })
  test('waits without a status too', () => {
    const { status: _, ...withoutStatus } = going
    expect(planOf({ backup: withoutStatus, snapshot: snapshot(), usedBy: 'the restore r' }).actions).toEqual([])
  })
  test('does not wait if there is no snapshot', () => {
    expect(planOf({ backup: going, snapshot: 'absent', usedBy: 'the database copy' }).actions).toEqual([
      { do: 'remove-finalizer' },
    ])
  })
  test('first deletes the objects of its verification', () => {
    const { status } = going
    expect(planOf({ backup: going, snapshot: snapshot(), verification: checked })).toEqual({
      ...{ actions: [{ do: 'end-verification' }], status, requeueAt: undefined },
    })
  })
})
