/** When a database is taken away, and what goes with it. */
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
import { emptyWorld, observedIn, round } from '../../testing/plan-world.ts'
import type { Observed } from '../observed.ts'
import { deletionBlock, teardownStep } from './deletion.ts'

const at = '2026-01-01T00:00:00Z'
const now = Date.parse(at)
const world = emptyWorld()
for (let count = 0; count < 15; count++) round(world)
const settled = observedIn(world)

const named = <T>(kind: string, more: object = {}): T =>
  ({ kind, metadata: { name: 'its', namespace: 'there', uid: `${kind}-uid`, ...more } }) as T
const branch = { ...named<Branch>('Branch'), spec: {} } as Branch
const goingBranch = { ...branch, metadata: { ...branch.metadata, deletionTimestamp: at } }
/** `connectableAt`: it had data that somebody could have written to. */
const failed = (reason: string, phase = 'failed', connectableAt?: string) =>
  ({ ...branch, status: { phase, connectableAt, conditions: [{ type: 'Ready', status: 'False', reason }] } }) as Branch
const createdAt = (ms: number) => ({
  ...branch,
  metadata: { ...branch.metadata, creationTimestamp: timestamp(now + ms) },
})
const doomed = { ...branch, spec: { ...branch.spec, deletionRequestedAt: at } }
const backup = named<Backup>('Backup')
const gone = { do: 'delete', name: 'its', namespace: 'there' }

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
  /** A pass has said that it is being deleted. */
  hasBegun?: boolean
  /** Nothing of its own is left. */
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
  const { database } = settled
  const marks: Record<string, string> = {
    ...(force === undefined ? {} : { [annotations.force]: force }),
    ...(slots === undefined ? {} : { [slotsAnnotation]: slots }),
  }
  const owned = Object.fromEntries(Object.keys(settled.owned).map(field => [field, []])) as never
  return {
    ...settled,
    database: {
      ...database,
      metadata: {
        ...database.metadata,
        deletionTimestamp: at,
        annotations: { ...database.metadata.annotations, ...marks },
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
    ['goes on', {}, undefined],
    ['is held up by its protection', { spec: { deletionProtection: true } }, 'DeletionProtected'],
    [
      'is held up by its protection, also by force',
      { spec: { deletionProtection: true }, force: 'true' },
      'DeletionProtected',
    ],
    ['is held up by branches', { branches: [branch] }, 'HasBranches'],
    ['is not held up by branches by force', { branches: [branch], force: 'true' }, undefined],
    ['is held up by branches where force is said to be no', { branches: [branch], force: 'false' }, 'HasBranches'],
    ['is not held up by branches that go', { branches: [doomed] }, undefined],
    ['is held up by branches that failed before they served', { branches: [failed('Broken')] }, 'HasBranches'],
    ['is not held up by the records of deleted branches', { branches: [failed('Deleted', 'deleted')] }, undefined],
    ['is held up by branches of the same second', { branches: [createdAt(0)] }, 'HasBranches'],
    ['is held up by branches where clocks differ', { branches: [createdAt(5_000)] }, 'HasBranches'],
    ['is not held up by branches that were created after it', { branches: [createdAt(6_000)] }, undefined],
    ['is held up by a branch that the API is creating', { slots: `an-id@${now - 59_000}` }, 'HasBranches'],
    ['is not held up by one that never came', { slots: `an-id@${now - 60_000}` }, undefined],
    [
      'is not held up by one that is there, and deleted',
      {
        slots: `an-id@${now}`,
        branches: [{ ...doomed, metadata: { ...doomed.metadata, labels: { [labels.id]: 'an-id' } } }],
      },
      undefined,
    ],
    ['is not held up once it has begun', { branches: [branch], hasBegun: true }, undefined],
    ['is held up by branches that served and failed', { branches: [failed('Broken', 'failed', at)] }, 'HasBranches'],
    ['is held up by branches that may come', { branches: [failed('NotAvailable', 'creating')] }, 'HasBranches'],
    ['is held up by one that does not', { branches: [doomed, branch] }, 'HasBranches'],
  ])('%s', (_, given, reason) => {
    expect(deletionBlock(observedOf(given), now)?.reason).toBe(reason)
  })

  const step = (given: Given) => {
    const { actions, progress } = teardownStep(observedOf(given), settled.owner, now)
    return { actions, progress }
  }
  const finished = { actions: [{ do: 'finish-deletion' }], progress: 95 }
  test.each<[string, Branch[], string]>([
    ['one', [branch], 'deleting a branch'],
    ['several', [branch, goingBranch], 'deleting 2 branches'],
    ['one, and the record of another', [branch, failed('Deleted', 'deleted')], 'deleting a branch'],
    ['records alone', [failed('Deleted', 'deleted')], 'deleting what is on record of branches'],
  ])('reports how many branches are deleted: %s', (_, branches, message) => {
    expect(teardownStep(observedOf({ branches }), settled.owner, now).message).toBe(message)
  })

  test('deletes branches first', () => {
    const taken = { ...gone, kind: 'Branch', uid: 'Branch-uid' }
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
    const taken = { ...gone, kind: 'Backup', uid: 'Backup-uid' }
    expect(step({ backups: [backup] })).toEqual({ actions: [taken], progress: 85 })
    expect(step({ backups: [backup], spec: { deletion: { keepBackups: true } } })).toEqual(finished)
  })
  test('ends when nothing is left', () => {
    expect(step({})).toEqual(finished)
    expect(step({ isEmpty: false }).actions).not.toContainEqual({ do: 'finish-deletion' })
  })
})
