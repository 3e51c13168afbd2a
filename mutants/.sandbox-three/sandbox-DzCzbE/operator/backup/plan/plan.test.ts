/** What a plan comes to at the edges that no life of a backup meets by itself. */
// @ts-nocheck

import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, type ManagedDatabase, type Region, teardownFinalizer } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { plainSpec } from '../../testing/samples.ts'
import type { Observed, SnapshotFacts } from '../observed.ts'
import { plan } from './index.ts'

const now = Date.parse('2026-11-22T12:00:00Z')
const deadlines = { servingMs: 60_000, errorMs: 30_000, cutMs: 600_000, readyMs: 3600_000 }
const ago = (ms: number): string => timestamp(now - ms)
const point = { systemIdentifier: '7', timeline: 1, startLsn: '0/1', endLsn: '0/2' }
const cutOf = { ...point, claim: 'data', claimUid: 'claim' }

const ready = (status: 'True' | 'False', sinceMs = 0) => ({
  ...{ type: 'Ready', status, reason: 'R', message: 'the pod is gone', lastTransitionTime: ago(sinceMs) },
})
const database = (status: ManagedDatabase['status'] = {}, metadata = {}): ManagedDatabase => ({
  apiVersion,
  kind: 'ManagedDatabase',
  metadata: { name: 'one', namespace: 'n', creationTimestamp: ago(10 ** 9), ...metadata },
  spec: plainSpec,
  status: {
    phase: 'available',
    conditions: [ready('True')],
    volume: { claim: 'data', uid: 'claim', systemIdentifier: '7' },
    ...status,
  },
})
const region: Region = {
  apiVersion,
  kind: 'Region',
  metadata: { name: 'here' },
  spec: {
    domain: 'db.test',
    snapshotClass: { name: 'fast', atomic: true },
    gateway: { ports: { first: 1, last: 2 } },
  },
}
const backup = (status?: Backup['status'], metadata = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: {
    ...{ name: 'one-1', namespace: 'n', creationTimestamp: ago(1_000), finalizers: [teardownFinalizer] },
    ...metadata,
  },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'user' },
  ...(status === undefined ? {} : { status }),
})
const snapshot = (more: Partial<SnapshotFacts> = {}): SnapshotFacts => ({
  ...{ name: 'bkp-i', uid: 'snapshot', isOurs: true, isGoing: false, cutOf, askedAt: now - 1_000 },
  ...{ cutAt: undefined, isReady: false, bytes: undefined, error: undefined },
  ...more,
})
const observed = (more: Partial<Observed> = {}): Observed => ({
  backup: backup(),
  id: 'i',
  source: { database: database(), region, isReachable: true },
  snapshots: 'served',
  snapshot: 'absent',
  ahead: undefined,
  checkpoint: { state: 'unasked' },
  claimUid: undefined,
  taskId: 't',
  isTaskOver: false,
  ...more,
})
const source = (status: ManagedDatabase['status'], metadata = {}) => ({
  source: { database: database(status, metadata), region, isReachable: true },
})
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
const going = { deletionTimestamp: ago(1_000) }

describe('a plan', () => {
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof told>>]>([
    ['gives an id first', { id: undefined }, { does: ['identify'], phase: undefined }],
    ['takes hold first', { backup: backup(undefined, { finalizers: [] }) }, { does: ['identify'] }],
    [
      'waits until it is known whether there are snapshots',
      { snapshots: 'unknown', snapshot: 'unknown' },
      { does: [], phase: 'pending' },
    ],
    ['begins with a checkpoint', {}, { does: ['checkpoint'], phase: 'running', reason: 'Checkpointing' }],
    [
      'asks again for one that found no room',
      { checkpoint: { state: 'waiting' } },
      { does: ['checkpoint'], wakeAt: now + 5_000 },
    ],
    ['asks for no second one', { checkpoint: { state: 'running' } }, { does: [], phase: 'running' }],
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
    ['refuses one that has failed', source({ phase: 'failed' }), { reason: 'DatabaseFailed' }],
    [
      'looks at a snapshot before anything else',
      { snapshot: snapshot(), source: source({ phase: 'failed' }).source },
      { phase: 'running', reason: 'Snapshotting', wakeAt: now - 1_000 + 600_000 },
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
      { phase: 'running', reason: 'Finishing', wakeAt: now - 5_000 + 3600_000 },
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
