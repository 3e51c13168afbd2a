/** When a volume grows automatically, to what size, and when it does not grow. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { childNames, desiredHash, labels, type ManagedDatabase, visiblePhase } from '../../../../crds/index.ts'
import { sizeInBytes } from '../../../../values/quantity.ts'
import { conditionOf, no } from '../../../objects/conditions.ts'
import { type ClusterState, emptyClusterState, observedIn, round } from '../../../testing/cluster-state.ts'
import type { Observed } from '../../../workload/observed.ts'
import { sizeState } from '../../pod/plan/size.ts'
import { autogrowth, nextStorage } from './autogrow.ts'

const autogrow = { atPercent: 80, stepPercent: 25, maxSize: '2Gi' }
const gibibyte = 2 ** 30

const reconcile = (clusterState: ClusterState, rounds = 12) => {
  for (let count = 0; count < rounds; count++) round(clusterState)
}
const databaseIn = ({ database }: ClusterState): ManagedDatabase => {
  if (database === undefined) throw new Error('the database does not exist')
  return database
}
const edit = (clusterState: ClusterState, change: Partial<ManagedDatabase['spec']>) => {
  const database = databaseIn(clusterState)
  const metadata = { ...database.metadata, generation: (database.metadata.generation ?? 1) + 1 }
  clusterState.database = { ...database, metadata, spec: { ...database.spec, ...change } }
}
const claimIn = (clusterState: ClusterState) => {
  const id = databaseIn(clusterState).metadata.labels?.[labels.id] ?? ''
  const claim = clusterState.objects.get(`PersistentVolumeClaim/${childNames.claim(id, 1)}`)
  return claim as unknown as PersistentVolumeClaim // the cluster stores objects under their kind
}
const requested = (clusterState: ClusterState) => claimIn(clusterState).spec?.resources?.requests?.storage
const capacity = (clusterState: ClusterState) => claimIn(clusterState).status?.capacity?.storage
const growthCondition = (clusterState: ClusterState) => conditionOf(databaseIn(clusterState).status, 'VolumeGrown')
const taskNames = ({ tasks }: ClusterState) => [...tasks.values()].map(({ spec }) => spec.name)

/** A serving database with 1Gi, of which this share is used. */
function serving(share: number, storage: ManagedDatabase['spec']['storage'] = { autogrow }): ClusterState {
  const clusterState = emptyClusterState({ storage })
  reconcile(clusterState)
  clusterState.volumeUse = share * gibibyte
  return clusterState
}

test('a volume does not grow automatically by default', () => {
  const clusterState = serving(0.99, {})
  reconcile(clusterState)
  expect([requested(clusterState), growthCondition(clusterState), databaseIn(clusterState).status?.storage]).toEqual([
    '1Gi',
    undefined,
    undefined,
  ])
})

test('a request that a user raised in the claim is reported until the volume has grown', () => {
  const clusterState = serving(0, {})
  clusterState.growth = 'held'
  const { metadata, spec, status } = claimIn(clusterState)
  const changed = { metadata, spec: { ...spec, resources: { requests: { storage: '5Gi' } } }, status }
  clusterState.objects.set(`PersistentVolumeClaim/${metadata.name}`, changed)
  reconcile(clusterState)
  expect(growthCondition(clusterState)).toMatchObject({
    status: 'False',
    reason: 'Growing',
    message: expect.stringMatching(
      /^spec\.resources\.requests\.storage of the claim \S+ is 5Gi, above the 1Gi of the size: /,
    ),
  })
  expect(databaseIn(clusterState).status?.phase).toBe('available')
  clusterState.growth = 'answered'
  reconcile(clusterState)
  expect([requested(clusterState), growthCondition(clusterState)]).toEqual(['5Gi', undefined])
})

test('a volume grows by a step at the configured threshold, without an operation or a restart', () => {
  const clusterState = serving(0.79)
  reconcile(clusterState)
  expect(capacity(clusterState)).toBe('1Gi')
  const pod = [...clusterState.objects].find(([key]) => key.startsWith('Pod/'))?.[1]
  clusterState.volumeUse = 0.8 * gibibyte
  reconcile(clusterState)
  expect([requested(clusterState), capacity(clusterState)]).toEqual(['1280Mi', '1280Mi'])
  expect(growthCondition(clusterState)).toBeUndefined()
  expect(databaseIn(clusterState).status).toMatchObject({ phase: 'available', storage: { capacity: '1280Mi' } })
  expect(databaseIn(clusterState).status?.storage).not.toHaveProperty('growsTo')
  expect([...clusterState.objects].find(([key]) => key.startsWith('Pod/'))?.[1]).toEqual(pod)
  expect(taskNames(clusterState)).toEqual(['create-managed'])
})

test('automatic growth does not change the hash of the request', () => {
  const { spec } = databaseIn(serving(0))
  expect(desiredHash(spec)).toBe(desiredHash({ ...spec, storage: undefined } as typeof spec))
})

test('a growth that is not applied yet is reported, and blocks the next one', () => {
  const clusterState = serving(0.99)
  clusterState.growth = 'held'
  reconcile(clusterState, 30)
  expect([requested(clusterState), capacity(clusterState)]).toEqual(['1280Mi', '1Gi'])
  expect(growthCondition(clusterState)).toMatchObject({ status: 'False', reason: 'Growing' })
  expect(databaseIn(clusterState).status).toMatchObject({
    phase: 'available',
    storage: { capacity: '1Gi', growsTo: '1280Mi' },
  })
  expect(conditionOf(databaseIn(clusterState).status, 'SizeApplied')).toBeUndefined()
  clusterState.growth = 'answered'
  reconcile(clusterState)
  expect([requested(clusterState), capacity(clusterState), growthCondition(clusterState)]).toEqual([
    '1280Mi',
    '1280Mi',
    undefined,
  ])
})

test('a volume at its limit does not grow, and the limit is reported', () => {
  const clusterState = serving(3)
  reconcile(clusterState, 30)
  expect([requested(clusterState), capacity(clusterState)]).toEqual(['2Gi', '2Gi'])
  expect(growthCondition(clusterState)).toMatchObject({
    reason: 'AtMaximum',
    message: expect.stringMatching(/150 % full.*has 2Gi.*2Gi$/),
  })
  edit(clusterState, { storage: { autogrow: { ...autogrow, maxSize: '4Gi' } } })
  reconcile(clusterState, 30)
  // This use fills 77 % of the volume.
  expect([capacity(clusterState), growthCondition(clusterState)]).toEqual(['4000Mi', undefined])
})

test('a growth that the cluster refuses is reported, and requested again after a pause', () => {
  const clusterState = serving(0.9)
  clusterState.growth = 'refused'
  reconcile(clusterState)
  expect(requested(clusterState)).toBe('1Gi')
  expect(growthCondition(clusterState)).toMatchObject({
    reason: 'GrowthRefused',
    message: expect.stringMatching(/1280Mi: quota/),
  })
  expect(databaseIn(clusterState).status?.phase).toBe('available')
  clusterState.growth = 'answered'
  if (clusterState.growthRefusal) clusterState.growthRefusal = { ...clusterState.growthRefusal, isDue: true }
  reconcile(clusterState)
  expect([capacity(clusterState), growthCondition(clusterState)]).toEqual(['1280Mi', undefined])
})

describe('a full volume', () => {
  test('grows by one step for each report of Postgres after the last growth', () => {
    const clusterState = serving(0.1)
    reconcile(clusterState)
    clusterState.hasFreeSpace = false
    // An answer from before the volume had its current capacity does not count.
    clusterState.growth = 'held'
    reconcile(clusterState, 20)
    expect([requested(clusterState), capacity(clusterState)]).toEqual(['1280Mi', '1Gi'])
    clusterState.growth = 'answered'
    round(clusterState)
    clusterState.hasFreeSpace = true
    reconcile(clusterState, 20)
    expect([requested(clusterState), capacity(clusterState)]).toEqual(['1280Mi', '1280Mi'])
    expect(visiblePhase(databaseIn(clusterState))).toBe('available')
  })

  test('that stays full grows up to the limit', () => {
    const clusterState = serving(0.1)
    clusterState.hasFreeSpace = false
    reconcile(clusterState, 60)
    expect(capacity(clusterState)).toBe('2Gi')
    expect(growthCondition(clusterState)?.message).toMatch(/the volume is full and has reached its maximum: it has 2Gi/)
  })
})

test('a file system that is smaller than its volume blocks the next growth', () => {
  const clusterState = serving(0.99)
  round(clusterState)
  const { children, ...observed } = observedIn(clusterState)
  const claim = children.claim
  if (claim === undefined) throw new Error('the claim is missing')
  const conditions = [{ type: 'FileSystemResizePending', status: 'True' }]
  const lagging = {
    ...observed,
    children: { ...children, claim: { ...claim, status: { ...claim.status, conditions } } },
  }
  const { claim: grown, finding } = autogrowth(lagging, sizeState(observedIn(clusterState)), clusterState.now)
  expect([grown, finding?.reason]).toEqual([undefined, 'Growing'])
})

describe('a measurement', () => {
  /** A volume that reached its current capacity just now. */
  const decided = (change: (observed: Observed, since: number) => Partial<Observed>) => {
    const clusterState = serving(0.1)
    reconcile(clusterState)
    const observed = observedIn(clusterState)
    const since = Date.parse(databaseIn(clusterState).status?.storage?.since ?? '')
    const changed = { ...observed, ...change(observed, since) }
    return autogrowth(changed, sizeState(changed), clusterState.now)
  }
  const answered = ({ postgres }: Observed, at: number): Partial<Observed> => {
    if (postgres?.answer?.state !== 'answered') throw new Error('Postgres does not answer')
    return { postgres: { ...postgres, at, answer: { ...postgres.answer, hasFreeSpace: false } } }
  }
  const ended = ({ pod }: Observed, endedAt: number): Partial<Observed> => {
    if (pod === undefined) throw new Error('the pod does not exist')
    const problem = { reason: 'ContainerFailed', message: 'no space', refusal: undefined, diskFull: true, endedAt }
    return { pod: { ...pod, address: undefined, problem } }
  }

  test.each<[string, typeof answered]>([
    ['reported by a probe', answered],
    ['reported when Postgres ended', ended],
  ])('of a full volume, %s, counts only if it is newer than the current capacity', (_, found) => {
    expect(decided((observed, since) => found(observed, since + 999)).claim).toBeUndefined()
    const grown = decided((observed, since) => found(observed, since + 1_000))
    expect(grown.claim?.spec?.resources?.requests?.storage).toBe('1280Mi')
    expect(grown.finding).toMatchObject({
      reason: 'Growing',
      message: 'the volume is full and grows from 1Gi to 1280Mi',
    })
  })

  test('at an earlier capacity does not count', () => {
    const { claim, status } = decided(({ instance }) => {
      const storage = { capacity: '512Mi', since: '2020-01-01T00:00:00Z' }
      return { instance: { ...instance, status: { ...instance.status, storage } }, volumeUse: gibibyte }
    })
    expect([claim, status?.capacity]).toEqual([undefined, '1Gi'])
  })

  test('is ignored while another size is requested', () => {
    const { claim, finding } = decided(observed => {
      const { instance } = observed
      const spec = { ...instance.spec, size: { name: 'large', version: 1 } }
      return { instance: { ...instance, spec }, volumeUse: gibibyte }
    })
    expect([claim, finding]).toEqual([undefined, undefined])
  })
})

describe('a claim', () => {
  const now = Date.parse('2026-02-01T00:00:00Z')
  const since = '2026-01-01T00:00:00Z'
  const clusterState = serving(0.899)
  const { instance, ...serves } = observedIn(clusterState)
  const { claim } = serves.children
  if (claim === undefined) throw new Error('the claim does not exist')
  type Given = { claim?: object | undefined; spec?: object; changes?: Partial<Observed>; size?: object }
  /** A volume that is 89 % full, and has had 1Gi for a month. */
  function decided(given: Given = {}) {
    const observed: Observed = {
      ...{ ...serves, ...given.changes },
      instance: {
        ...instance,
        spec: { ...instance.spec, ...given.spec },
        status: { ...instance.status, storage: { capacity: '1Gi', since } },
      },
      children: {
        ...serves.children,
        claim:
          Object.hasOwn(given, 'claim') && given.claim === undefined
            ? undefined
            : ({ ...claim, ...given.claim } as typeof claim),
      },
    }
    return autogrowth(observed, { ...sizeState(observed), ...given.size }, now)
  }
  const before = { capacity: '1Gi', since }
  const refusing = { ...serves.postgres, at: now, answer: { state: 'refused', reason: 'starting', message: '' } }

  test('requests more storage, and the request is recorded', () => {
    expect(decided()).toEqual({
      storage: '1280Mi',
      claim: { ...claim, spec: { ...claim?.spec, resources: { requests: { storage: '1280Mi' } } } },
      finding: { status: 'False', reason: 'Growing', message: 'the volume is 89 % full and grows from 1Gi to 1280Mi' },
      status: { ...before, growsTo: '1280Mi' },
    })
  })

  test.each<[string, Given]>([
    ['that does not exist', { claim: undefined }],
    ['that belongs to another database', { changes: { isOrphanClaim: true } }],
    ['that is not recorded', { claim: { metadata: { ...claim.metadata, uid: 'another' } } }],
    ['that is being deleted', { claim: { metadata: { ...claim.metadata, deletionTimestamp: since } } }],
    ['that has no volume yet', { claim: { status: { ...claim.status, phase: 'Pending' } } }],
    ['without a reported capacity', { claim: { status: { phase: 'Bound' } } }],
    ['of a suspended database without a pod', { spec: { suspended: true }, changes: { pod: undefined } }],
  ])('%s requests nothing, and the record is kept', (_, given) => {
    const nothing = { storage: undefined, claim: undefined, finding: undefined }
    expect(decided(given)).toEqual({ ...nothing, status: before })
  })

  test('of a database that waits for its suspension requests more storage', () => {
    expect(decided({ spec: { suspended: true } }).storage).toBe('1280Mi')
    expect(decided({ changes: { pod: undefined, volumeUse: 0.9 * gibibyte } }).storage).toBe('1280Mi')
  })

  test.each<[string, Given]>([
    [
      'a requested size that is not applied yet',
      { changes: { appliedSize: { ...serves.appliedSize, pinned: { name: 'small', version: 2 } } } },
    ],
    [
      'another applied size',
      { changes: { appliedSize: { ...serves.appliedSize, pinned: { name: 'large', version: 1 } } } },
    ],
    ['a blocked size', { size: { blocker: no('SizeNotFound', '') } }],
    ['a volume smaller than its size', { size: { shortfall: no('Growing', '') } }],
    ['a crash of Postgres at an unknown time', { changes: { volumeUse: undefined, ...endedAt(undefined) } }],
    [
      'a Postgres that does not answer',
      { changes: { volumeUse: undefined, postgres: refusing as Observed['postgres'] } },
    ],
    ['an unknown use of the volume', { changes: { volumeUse: undefined } }],
  ])('requests nothing because of %s', (_, given) => {
    expect(decided(given)).toEqual({ storage: undefined, claim: undefined, finding: undefined, status: before })
  })
  function endedAt(at: number | undefined): Partial<Observed> {
    const problem = { reason: 'ContainerFailed', message: 'no space', refusal: undefined, diskFull: true, endedAt: at }
    return { pod: serves.pod && ({ ...serves.pod, address: undefined, problem } as Observed['pod']) }
  }

  const requesting = { spec: { ...claim.spec, resources: { requests: { storage: '1280Mi' } } } }
  const condition = (type: string, message?: string) => ({ conditions: [{ type, status: 'True', message }] })
  const refusal = { claim: claim.metadata.uid, storage: '1280Mi', message: 'quota', retryAt: 9, isDue: true }
  test.each<[string, object, Partial<Observed>, reason: string, message: string]>([
    ['is in progress', {}, {}, 'Growing', 'the volume is growing from 1Gi to 1280Mi'],
    ['waits for its file system', condition('FileSystemResizePending'), {}, 'Growing', 'the file system is growing'],
    [
      'fails and is retried',
      condition('ControllerResizeError', 'the pool is full'),
      {},
      'GrowthFailing',
      'the volume does not grow to 1280Mi: the pool is full',
    ],
    [
      'is impossible',
      { allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' } },
      {},
      'GrowthInfeasible',
      'the volume does not grow to 1280Mi: the storage driver reports ControllerResizeInfeasible',
    ],
    [
      'is refused',
      {},
      { growthRefusal: refusal as Observed['growthRefusal'] },
      'GrowthRefused',
      'the volume does not grow to 1280Mi: quota',
    ],
  ])('with a pending request reports that it %s', (_, status, changes, reason, message) => {
    expect(decided({ claim: { ...requesting, status: { ...claim.status, ...status } }, changes })).toEqual({
      storage: '1280Mi',
      claim: undefined,
      finding: { status: 'False', reason, message },
      status: { ...before, growsTo: '1280Mi' },
    })
  })

  test('without a pending growth keeps its requested storage', () => {
    expect(decided({ claim: { spec: {} }, changes: { volumeUse: 0 } }).finding).toBeUndefined()
  })

  test('whose capacity differs from the record starts a new record', () => {
    const grown = { status: { phase: 'Bound', capacity: { storage: '1280Mi' } }, ...requesting }
    expect(decided({ claim: grown, changes: { volumeUse: 2 * gibibyte } }).status).toEqual({
      ...{ capacity: '1280Mi', since: '2026-02-01T00:00:00Z' },
    })
  })
})

test.each([
  ['1Gi', 25, '2Gi', '1280Mi'],
  ['1Gi', 100, '2Gi', '2Gi'],
  ['1900Mi', 25, '2Gi', '2Gi'],
  ['2Gi', 25, '2Gi', undefined],
  ['3Gi', 25, '2Gi', undefined],
  ['1G', 10, '2G', '1050Mi'],
])('the next step from %s by %i %, up to %s, is %s', (capacity, stepPercent, maxSize, next) => {
  expect(nextStorage(capacity, { atPercent: 80, stepPercent, maxSize })).toBe(next)
})

describe('automatic growth', () => {
  const large = { name: 'large', version: 1 }

  test('does not start while another size is requested', () => {
    const clusterState = serving(0.9)
    clusterState.growth = 'held'
    edit(clusterState, { size: large })
    reconcile(clusterState)
    expect(requested(clusterState)).toBe('2Gi')
    clusterState.growth = 'answered'
    reconcile(clusterState, 30)
    expect(capacity(clusterState)).toBe('2Gi')
    expect(databaseIn(clusterState).status).toMatchObject({ phase: 'available', size: large })
    expect(taskNames(clusterState)).toEqual(['create-managed', 'update-managed-size'])
  })

  test('keeps the capacity after a change to a size with less storage', () => {
    const clusterState = serving(3, { autogrow: { ...autogrow, maxSize: '3Gi' } })
    reconcile(clusterState, 40)
    expect(capacity(clusterState)).toBe('3Gi')
    edit(clusterState, { size: large })
    reconcile(clusterState, 30)
    expect([requested(clusterState), capacity(clusterState)]).toEqual(['3Gi', '3Gi'])
    expect(databaseIn(clusterState).status).toMatchObject({ phase: 'available', size: large })
  })

  test('keeps the capacity after a user disables it', () => {
    const clusterState = serving(0.9)
    reconcile(clusterState)
    edit(clusterState, { storage: {} })
    clusterState.volumeUse = 3 * gibibyte
    reconcile(clusterState)
    expect([requested(clusterState), capacity(clusterState), growthCondition(clusterState)]).toEqual([
      '1280Mi',
      '1280Mi',
      undefined,
    ])
  })
})

test('a volume of a suspended database does not grow', () => {
  const clusterState = serving(0.1)
  edit(clusterState, { suspended: true })
  reconcile(clusterState)
  clusterState.volumeUse = 3 * gibibyte
  reconcile(clusterState)
  expect([requested(clusterState), databaseIn(clusterState).status?.phase]).toEqual(['1Gi', 'suspended'])
})

test('a step is a growth by whole MiB, up to the limit', () => {
  const sizes = fc.tuple(fc.integer({ min: 1, max: 100_000 }), fc.constantFrom('Mi', 'Gi', 'M', 'G'))
  const step = fc.integer({ min: 5, max: 100 })
  fc.assert(
    fc.property(sizes, sizes, step, ([has, unit], [most, mostUnit], stepPercent) => {
      const [from, maxSize] = [`${has}${unit}`, `${most}${mostUnit}`]
      const next = nextStorage(from, { atPercent: 80, stepPercent, maxSize })
      const [bytes = 0, limit = 0] = [sizeInBytes(from), sizeInBytes(maxSize)]
      if (bytes >= limit) {
        expect(next).toBeUndefined()
        return
      }
      expect(sizeInBytes(next)).toBeGreaterThan(bytes)
      expect(sizeInBytes(next)).toBeLessThanOrEqual(limit)
    }),
  )
})
