/** The backup that a restore takes of the volume it is about to replace, and what holds a backup that goes. */
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
import type { AnchorFacts, Observed } from '../observed.ts'
import { plan } from './index.ts'

const planOf = (more: Partial<Observed>) => plan(observed(more), now, deadlines)
const progressing = (more: Partial<Observed>) => conditionOf(planOf(more).status, 'Progressing')

describe('an anchor', () => {
  const { systemIdentifier } = point
  const volume = { claim: 'data', claimUid: 'claim', systemIdentifier }
  const stopped: AnchorFacts = { state: 'stopped', ...volume, isThere: true }

  test('is of the stopped volume; no Postgres is asked', () => {
    const { actions, status, wakeAt } = planOf({ anchorOf: stopped, ...source({ conditions: [ready('False')] }) })
    expect(actions).toEqual([{ do: 'create-snapshot', of: { ...volume, pgVersion: '18', region: 'here' } }])
    expect([status.phase, status.startedAt, wakeAt]).toEqual(['running', timestamp(now), undefined])
    expect(progressing({ anchorOf: stopped })?.reason).toBe('Snapshotting')
  })
  test.each<[AnchorFacts['state'] & ('running' | 'stopping'), number | undefined]>([
    ['running', undefined],
    ['stopping', now + 250],
  ])('waits for one that is %s', (state, wakeAt) => {
    const { actions, status, wakeAt: wakes } = planOf({ anchorOf: { state } })
    expect([actions, status.phase, wakes]).toEqual([[], 'pending', wakeAt])
    expect(progressing({ anchorOf: { state } })?.reason).toBe('AwaitingStop')
  })
  test.each<[string, AnchorFacts, RegExp]>([
    ['RestoreEnded', { state: 'over' }, /^its restore ended/],
    ['VolumeLost', { ...stopped, isThere: false }, /^the volume claim data is not there any more$/],
  ])('comes to nothing: %s', (reason, anchorOf, error) => {
    const { actions, status } = planOf({ anchorOf })
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', finishedAt: preciseTime(now), error: expect.stringMatching(error) })
    expect(progressing({ anchorOf })?.reason).toBe(reason)
  })

  const uneven = { ...region, spec: { ...region.spec, snapshotClass: { name: 'fast', atomic: false } } }
  test('is taken whatever has become of its database', () => {
    const failed = { database: database({ phase: 'failed' }), region, isReachable: false }
    expect(planOf({ anchorOf: stopped, source: failed }).actions).toHaveLength(1)
  })
  test('is not where snapshots are not declared to be of one instant, as any other', () => {
    const its = { database: database(), region: uneven, isReachable: true }
    expect(progressing({ anchorOf: stopped, source: its })?.reason).toBe('NotAtomic')
    expect(progressing({ source: its })?.reason).toBe('NotAtomic')
  })
  test('is not where the region has no snapshots at all', () => {
    const nowhere = { database: database(), region: undefined, isReachable: true }
    expect(progressing({ anchorOf: stopped, source: nowhere })?.reason).toBe('RegionMissing')
  })
})

describe('taken away', () => {
  const going = backup({ phase: 'completed', finishedAt: ago(9_000) }, { deletionTimestamp: ago(0) })
  const checked = { ...observed().verification, isThere: true }

  test.each<[string, Observed['snapshot']]>([
    ['there', snapshot()],
    ['unknown', 'unknown'],
  ])('it stays while something is made of its snapshot, which is %s', (_, its) => {
    const more = { backup: going, snapshot: its, usedBy: 'the database copy' }
    expect(planOf(more)).toMatchObject({ actions: [], wakeAt: undefined, status: going.status ?? {} })
    expect(progressing(more)).toMatchObject({
      ...{ status: 'True', reason: 'InUse' },
      message: 'the database copy needs it: it is deleted when that has its data',
    })
  })
  test('without a status it stays as well', () => {
    const { status: _, ...unsaid } = going
    expect(planOf({ backup: unsaid, snapshot: snapshot(), usedBy: 'the restore r' }).actions).toEqual([])
  })
  test('it waits for nobody once there is no snapshot', () => {
    expect(planOf({ backup: going, snapshot: 'absent', usedBy: 'the database copy' }).actions).toEqual([
      { do: 'release' },
    ])
  })
  test('what it was checked with goes first', () => {
    const { status } = going
    expect(planOf({ backup: going, snapshot: snapshot(), verification: checked })).toEqual({
      ...{ actions: [{ do: 'end-verification' }], status, wakeAt: undefined },
    })
  })
})
