/** When a database is deleted, and which objects are deleted with it. */
import { describe, expect, test } from 'vitest'
import {
  annotations,
  type Backup,
  type Branch,
  labels,
  type ManagedDatabase,
  slotsAnnotation,
  teardownReason,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { emptyClusterState, observedIn, round } from '../../testing/cluster-state.ts'
import type { Observed } from '../observed.ts'
import { deletionBlock, teardownStep } from './deletion.ts'

const at = '2026-01-01T00:00:00Z'
const now = Date.parse(at)
const clusterState = emptyClusterState()
for (let count = 0; count < 15; count++) round(clusterState)
const reconciled = observedIn(clusterState)

const named = <T>(kind: string, more: object = {}): T =>
  ({ kind, metadata: { name: 'its', namespace: 'there', uid: `${kind}-uid`, ...more } }) as T
const branch = { ...named<Branch>('Branch'), spec: {} } as Branch
const goingBranch = { ...branch, metadata: { ...branch.metadata, deletionTimestamp: at } }
/** `connectableAt`: it had data, possibly of clients. */
const failed = (reason: string, phase = 'failed', connectableAt?: string) =>
  ({ ...branch, status: { phase, connectableAt, conditions: [{ type: 'Ready', status: 'False', reason }] } }) as Branch
const createdAt = (ms: number) => ({
  ...branch,
  metadata: { ...branch.metadata, creationTimestamp: timestamp(now + ms) },
})
const doomed = { ...branch, spec: { ...branch.spec, deletionRequestedAt: at } }
const backup = { ...named<Backup>('Backup'), spec: { kind: 'hot' } } as Backup
const deletion = { do: 'delete', name: 'its', namespace: 'there' }

const deletingReady = {
  ...{ type: 'Ready', status: 'False' as const, reason: teardownReason, message: '', lastTransitionTime: at },
}

type Given = {
  spec?: Partial<ManagedDatabase['spec']>
  force?: string
  branches?: Branch[]
  backups?: Backup[]
  /** The annotation of the API. */
  slots?: string
  /** A pass has reported that it is being deleted. */
  hasBegun?: boolean
  /** None of its own objects remains. */
  isEmpty?: boolean
}

function observedOf({
  spec = {},
  force,
  slots,
  branches = [],
  backups = [],
  hasBegun = false,
  isEmpty = true,
}: Given): Observed {
  const { database } = reconciled
  const objectAnnotations: Record<string, string> = {
    ...(force === undefined ? {} : { [annotations.force]: force }),
    ...(slots === undefined ? {} : { [slotsAnnotation]: slots }),
  }
  const owned = Object.fromEntries(Object.keys(reconciled.owned).map(field => [field, []])) as never
  return {
    ...reconciled,
    database: {
      ...database,
      metadata: {
        ...database.metadata,
        deletionTimestamp: at,
        annotations: { ...database.metadata.annotations, ...objectAnnotations },
      },
      spec: { ...database.spec, ...spec },
      ...(hasBegun ? { status: { ...database.status, phase: 'deleting', conditions: [deletingReady] } } : {}),
    },
    branches,
    backups,
    ...(isEmpty ? { owned, route: undefined } : {}),
  }
}

describe('a deletion', () => {
  test.each<[string, Given, string | undefined]>([
    ['proceeds', {}, undefined],
    ['is blocked by its protection', { spec: { deletionProtection: true } }, 'DeletionProtected'],
    [
      'is blocked by its protection, also with force',
      { spec: { deletionProtection: true }, force: 'true' },
      'DeletionProtected',
    ],
    ['is blocked by branches', { branches: [branch] }, 'HasBranches'],
    ['is not blocked by branches with force', { branches: [branch], force: 'true' }, undefined],
    ['is blocked by branches if force is false', { branches: [branch], force: 'false' }, 'HasBranches'],
    ['is not blocked by branches that are being deleted', { branches: [doomed] }, undefined],
    ['is blocked by branches that failed before they served', { branches: [failed('Broken')] }, 'HasBranches'],
    ['is not blocked by records of deleted branches', { branches: [failed('Deleted', 'deleted')] }, undefined],
    ['is blocked by branches of the same second', { branches: [createdAt(0)] }, 'HasBranches'],
    [
      'is blocked by branches that are newer by no more than the clock tolerance',
      { branches: [createdAt(5_000)] },
      'HasBranches',
    ],
    ['is not blocked by branches that were created later', { branches: [createdAt(6_000)] }, undefined],
    ['is blocked by a branch that the API is creating', { slots: `an-id@${now - 59_000}` }, 'HasBranches'],
    ['is not blocked by a branch whose creation was abandoned', { slots: `an-id@${now - 60_000}` }, undefined],
    [
      'is not blocked by a created branch that is being deleted',
      {
        slots: `an-id@${now}`,
        branches: [{ ...doomed, metadata: { ...doomed.metadata, labels: { [labels.id]: 'an-id' } } }],
      },
      undefined,
    ],
    ['is not blocked once it has begun', { branches: [branch], hasBegun: true }, undefined],
    ['is blocked by branches that served and failed', { branches: [failed('Broken', 'failed', at)] }, 'HasBranches'],
    [
      'is blocked by branches that are being created',
      { branches: [failed('NotAvailable', 'creating')] },
      'HasBranches',
    ],
    ['is blocked by one branch among others that are being deleted', { branches: [doomed, branch] }, 'HasBranches'],
  ])('%s', (_, given, reason) => {
    expect(deletionBlock(observedOf(given), now)?.reason).toBe(reason)
  })

  const step = (given: Given) => {
    const { actions, progress } = teardownStep(observedOf(given), reconciled.owner, now)
    return { actions, progress }
  }
  const finished = { actions: [{ do: 'finish-deletion' }], progress: 95 }
  test.each<[string, Branch[], string]>([
    ['one', [branch], 'deleting a branch'],
    ['several', [branch, goingBranch], 'deleting 2 branches'],
    ['one, and a record of another', [branch, failed('Deleted', 'deleted')], 'deleting a branch'],
    ['only records', [failed('Deleted', 'deleted')], 'deleting the records of branches'],
  ])('reports how many branches are deleted: %s', (_, branches, message) => {
    expect(teardownStep(observedOf({ branches }), reconciled.owner, now).message).toBe(message)
  })

  test('deletes branches first', () => {
    const taken = { ...deletion, kind: 'Branch', uid: 'Branch-uid' }
    expect(step({ branches: [branch], backups: [backup], isEmpty: false })).toEqual({ actions: [taken], progress: 10 })
    expect(step({ branches: [goingBranch], isEmpty: false }), 'and waits for them').toEqual({
      actions: [],
      progress: 10,
    })
  })
  test('keeps branches that wait for a database of its name', () => {
    const waiting = { ...branch, spec: { ...branch.spec, databaseId: '' } }
    expect(step({ branches: [waiting] })).toEqual(finished)
  })
  test('deletes the children before the backups', () => {
    expect(step({ backups: [backup], isEmpty: false })).toMatchObject({ progress: 20 })
  })
  test('deletes the backups unless they are to be kept', () => {
    const taken = { ...deletion, kind: 'Backup', uid: 'Backup-uid' }
    expect(step({ backups: [backup] })).toEqual({ actions: [taken], progress: 85 })
    expect(step({ backups: [backup], spec: { deletion: { keepBackups: true } } })).toEqual(finished)
  })
  test('ends when nothing remains', () => {
    expect(step({})).toEqual(finished)
    expect(step({ isEmpty: false }).actions).not.toContainEqual({ do: 'finish-deletion' })
  })
})
