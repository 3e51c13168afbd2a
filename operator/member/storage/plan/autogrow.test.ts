/** When a volume grows by itself, how far, and when not. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { childNames, desiredHash, labels, type ManagedDatabase, visiblePhase } from '../../../../crds/index.ts'
import { bytesTold } from '../../../../values/quantity.ts'
import { conditionOf, no } from '../../../objects/conditions.ts'
import { emptyWorld, observedIn, round, type World } from '../../../testing/plan-world.ts'
import type { Observed } from '../../../workload/observed.ts'
import { sizeState } from '../../pod/plan/size.ts'
import { autogrowth, nextStorage } from './autogrow.ts'

const autogrow = { atPercent: 80, stepPercent: 25, maxSize: '2Gi' }
const gibibyte = 2 ** 30

const settle = (world: World, rounds = 12) => {
  for (let count = 0; count < rounds; count++) round(world)
}
const databaseIn = ({ database }: World): ManagedDatabase => {
  if (database === undefined) throw new Error('the database is there')
  return database
}
const edit = (world: World, change: Partial<ManagedDatabase['spec']>) => {
  const database = databaseIn(world)
  const metadata = { ...database.metadata, generation: (database.metadata.generation ?? 1) + 1 }
  world.database = { ...database, metadata, spec: { ...database.spec, ...change } }
}
const claimIn = (world: World) => {
  const id = databaseIn(world).metadata.labels?.[labels.id] ?? ''
  const claim = world.objects.get(`PersistentVolumeClaim/${childNames.claim(id, 1)}`)
  return claim as unknown as PersistentVolumeClaim // objects are kept under their kind
}
const requested = (world: World) => claimIn(world).spec?.resources?.requests?.storage
const capacity = (world: World) => claimIn(world).status?.capacity?.storage
const told = (world: World) => conditionOf(databaseIn(world).status, 'VolumeGrown')
const taskNames = ({ tasks }: World) => [...tasks.values()].map(({ spec }) => spec.name)

/** A database on 1Gi that serves, and uses this share of it. */
function serving(share: number, storage: ManagedDatabase['spec']['storage'] = { autogrow }): World {
  const world = emptyWorld({ storage })
  settle(world)
  world.volumeUse = share * gibibyte
  return world
}

test('a volume does not grow automatically by default', () => {
  const world = serving(0.99, {})
  settle(world)
  expect([requested(world), told(world), databaseIn(world).status?.storage]).toEqual(['1Gi', undefined, undefined])
})

test('a claim whose request somebody raised is reported with its field until the volume has grown', () => {
  const world = serving(0, {})
  world.growth = 'held'
  const { metadata, spec, status } = claimIn(world)
  const asked = { metadata, spec: { ...spec, resources: { requests: { storage: '5Gi' } } }, status }
  world.objects.set(`PersistentVolumeClaim/${metadata.name}`, asked)
  settle(world)
  expect(told(world)).toMatchObject({
    status: 'False',
    reason: 'Growing',
    message: expect.stringMatching(
      /^spec\.resources\.requests\.storage of the claim \S+ is 5Gi, above the 1Gi of the size: /,
    ),
  })
  expect(databaseIn(world).status?.phase).toBe('available')
  world.growth = 'answered'
  settle(world)
  expect([requested(world), told(world)]).toEqual(['5Gi', undefined])
})

test('a volume grows by a step at the configured threshold, without an operation or a restart', () => {
  const world = serving(0.79)
  settle(world)
  expect(capacity(world)).toBe('1Gi')
  const pod = [...world.objects].find(([key]) => key.startsWith('Pod/'))?.[1]
  world.volumeUse = 0.8 * gibibyte
  settle(world)
  expect([requested(world), capacity(world)]).toEqual(['1280Mi', '1280Mi'])
  expect(told(world)).toBeUndefined()
  expect(databaseIn(world).status).toMatchObject({ phase: 'available', storage: { capacity: '1280Mi' } })
  expect(databaseIn(world).status?.storage).not.toHaveProperty('growsTo')
  expect([...world.objects].find(([key]) => key.startsWith('Pod/'))?.[1]).toEqual(pod)
  expect(taskNames(world)).toEqual(['create-managed'])
})

test('automatic growth is not part of the hash of the request', () => {
  const { spec } = databaseIn(serving(0))
  expect(desiredHash(spec)).toBe(desiredHash({ ...spec, storage: undefined } as typeof spec))
})

test('a growth that is not applied yet is reported, and blocks the next one', () => {
  const world = serving(0.99)
  world.growth = 'held'
  settle(world, 30)
  expect([requested(world), capacity(world)]).toEqual(['1280Mi', '1Gi'])
  expect(told(world)).toMatchObject({ status: 'False', reason: 'Growing' })
  expect(databaseIn(world).status).toMatchObject({
    phase: 'available',
    storage: { capacity: '1Gi', growsTo: '1280Mi' },
  })
  expect(conditionOf(databaseIn(world).status, 'SizeApplied')).toBeUndefined()
  world.growth = 'answered'
  settle(world)
  expect([requested(world), capacity(world), told(world)]).toEqual(['1280Mi', '1280Mi', undefined])
})

test('a volume at its limit does not grow, and reports it', () => {
  const world = serving(3)
  settle(world, 30)
  expect([requested(world), capacity(world)]).toEqual(['2Gi', '2Gi'])
  expect(told(world)).toMatchObject({
    reason: 'AtMaximum',
    message: expect.stringMatching(/150 % full.*has 2Gi.*2Gi$/),
  })
  edit(world, { storage: { autogrow: { ...autogrow, maxSize: '4Gi' } } })
  settle(world, 30)
  // By which it is 77 % full.
  expect([capacity(world), told(world)]).toEqual(['4000Mi', undefined])
})

test('a growth that the cluster refuses is reported, and requested again when it is due', () => {
  const world = serving(0.9)
  world.growth = 'refused'
  settle(world)
  expect(requested(world)).toBe('1Gi')
  expect(told(world)).toMatchObject({ reason: 'GrowthRefused', message: expect.stringMatching(/1280Mi: quota/) })
  expect(databaseIn(world).status?.phase).toBe('available')
  world.growth = 'answered'
  if (world.growthRefusal) world.growthRefusal = { ...world.growthRefusal, isDue: true }
  settle(world)
  expect([capacity(world), told(world)]).toEqual(['1280Mi', undefined])
})

describe('a full volume', () => {
  test('grows by one step for each report of Postgres since the last growth', () => {
    const world = serving(0.1)
    settle(world)
    world.hasRoom = false
    // What was answered as the volume came to have what it has says nothing of it any more.
    world.growth = 'held'
    settle(world, 20)
    expect([requested(world), capacity(world)]).toEqual(['1280Mi', '1Gi'])
    world.growth = 'answered'
    round(world)
    world.hasRoom = true
    settle(world, 20)
    expect([requested(world), capacity(world)]).toEqual(['1280Mi', '1280Mi'])
    expect(visiblePhase(databaseIn(world))).toBe('available')
  })

  test('that stays full grows up to the limit', () => {
    const world = serving(0.1)
    world.hasRoom = false
    settle(world, 60)
    expect(capacity(world)).toBe('2Gi')
    expect(told(world)?.message).toMatch(/the volume is full, and has 2Gi/)
  })
})

test('a file system that is smaller than its volume blocks the next growth', () => {
  const world = serving(0.99)
  round(world)
  const { children, ...observed } = observedIn(world)
  const claim = children.claim
  if (claim === undefined) throw new Error('there is a claim')
  const conditions = [{ type: 'FileSystemResizePending', status: 'True' }]
  const lagging = {
    ...observed,
    children: { ...children, claim: { ...claim, status: { ...claim.status, conditions } } },
  }
  const { claim: grown, finding } = autogrowth(lagging, sizeState(observedIn(world)), world.now)
  expect([grown, finding?.reason]).toEqual([undefined, 'Growing'])
})

describe('a measurement', () => {
  /** Of a volume that came to have what it has just now. */
  const decided = (change: (observed: Observed, since: number) => Partial<Observed>) => {
    const world = serving(0.1)
    settle(world)
    const observed = observedIn(world)
    const since = Date.parse(databaseIn(world).status?.storage?.since ?? '')
    const changed = { ...observed, ...change(observed, since) }
    return autogrowth(changed, sizeState(changed), world.now)
  }
  const answered = ({ postgres }: Observed, at: number): Partial<Observed> => {
    if (postgres?.answer?.state !== 'answered') throw new Error('it answers')
    return { postgres: { ...postgres, at, answer: { ...postgres.answer, hasRoom: false } } }
  }
  const ended = ({ pod }: Observed, endedAt: number): Partial<Observed> => {
    if (pod === undefined) throw new Error('it runs')
    const trouble = { reason: 'ContainerFailed', message: 'no space', refusal: undefined, diskFull: true, endedAt }
    return { pod: { ...pod, address: undefined, trouble } }
  }

  test.each<[string, typeof answered]>([
    ['by a look', answered],
    ['by the end of Postgres', ended],
  ])('%s counts only if it is newer than the present size of the volume', (_, found) => {
    expect(decided((observed, since) => found(observed, since + 999)).claim).toBeUndefined()
    const grown = decided((observed, since) => found(observed, since + 1_000))
    expect(grown.claim?.spec?.resources?.requests?.storage).toBe('1280Mi')
    expect(grown.finding).toMatchObject({
      reason: 'Growing',
      message: 'the volume is full: it grows from 1Gi to 1280Mi',
    })
  })

  test('of another size of the volume does not count', () => {
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
  const world = serving(0.899)
  const { instance, ...serves } = observedIn(world)
  const { claim } = serves.children
  if (claim === undefined) throw new Error('it serves')
  type Given = { claim?: object | undefined; spec?: object; changes?: Partial<Observed>; size?: object }
  /** Of a volume that is 89 % full, and has been 1Gi for a month. */
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

  test('requests more, and the request is recorded', () => {
    expect(decided()).toEqual({
      storage: '1280Mi',
      claim: { ...claim, spec: { ...claim?.spec, resources: { requests: { storage: '1280Mi' } } } },
      finding: { status: 'False', reason: 'Growing', message: 'the volume is 89 % full: it grows from 1Gi to 1280Mi' },
      status: { ...before, growsTo: '1280Mi' },
    })
  })

  test.each<[string, Given]>([
    ['that is not there', { claim: undefined }],
    ["that is another's", { changes: { isOrphanClaim: true } }],
    ['that is not on record', { claim: { metadata: { ...claim.metadata, uid: 'another' } } }],
    ['that goes', { claim: { metadata: { ...claim.metadata, deletionTimestamp: since } } }],
    ['that has no volume yet', { claim: { status: { ...claim.status, phase: 'Pending' } } }],
    ['that does not tell what it has', { claim: { status: { phase: 'Bound' } } }],
    ['that no pod of a suspended database holds', { spec: { suspended: true }, changes: { pod: undefined } }],
  ])('%s requests nothing, and the record is kept', (_, given) => {
    const nothing = { storage: undefined, claim: undefined, finding: undefined }
    expect(decided(given)).toEqual({ ...nothing, status: before })
  })

  test('of a database that waits for its suspension requests more', () => {
    expect(decided({ spec: { suspended: true } }).storage).toBe('1280Mi')
    expect(decided({ changes: { pod: undefined, volumeUse: 0.9 * gibibyte } }).storage).toBe('1280Mi')
  })

  test.each<[string, Given]>([
    [
      'that its size is not in force',
      { changes: { appliedSize: { ...serves.appliedSize, pinned: { name: 'small', version: 2 } } } },
    ],
    [
      'that another size is in force',
      { changes: { appliedSize: { ...serves.appliedSize, pinned: { name: 'large', version: 1 } } } },
    ],
    ['that something hinders its size', { size: { hindrance: no('SizeNotFound', '') } }],
    ['that its size has too little', { size: { shortfall: no('Growing', '') } }],
    ['of what Postgres ended at no known time', { changes: { volumeUse: undefined, ...endedAt(undefined) } }],
    [
      'that Postgres does not answer',
      { changes: { volumeUse: undefined, postgres: refusing as Observed['postgres'] } },
    ],
    ['that nobody knows how full it is', { changes: { volumeUse: undefined } }],
  ])('requests nothing because of %s', (_, given) => {
    expect(decided(given)).toEqual({ storage: undefined, claim: undefined, finding: undefined, status: before })
  })
  function endedAt(at: number | undefined): Partial<Observed> {
    const trouble = { reason: 'ContainerFailed', message: 'no space', refusal: undefined, diskFull: true, endedAt: at }
    return { pod: serves.pod && ({ ...serves.pod, address: undefined, trouble } as Observed['pod']) }
  }

  const asking = { spec: { ...claim.spec, resources: { requests: { storage: '1280Mi' } } } }
  const condition = (type: string, message?: string) => ({ conditions: [{ type, status: 'True', message }] })
  const refusal = { claim: claim.metadata.uid, storage: '1280Mi', message: 'quota', retryAt: 9, isDue: true }
  test.each<[string, object, Partial<Observed>, reason: string, message: string]>([
    ['is under way', {}, {}, 'Growing', 'the volume grows from 1Gi to 1280Mi'],
    ['waits for its file system', condition('FileSystemResizePending'), {}, 'Growing', 'the file system grows'],
    [
      'fails for now',
      condition('ControllerResizeError', 'the pool is full'),
      {},
      'GrowthFailing',
      'the volume does not grow to 1280Mi: the pool is full',
    ],
    [
      'cannot be',
      { allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' } },
      {},
      'GrowthInfeasible',
      'the volume does not grow to 1280Mi: the storage driver says ControllerResizeInfeasible',
    ],
    [
      'must not be',
      {},
      { growthRefusal: refusal as Observed['growthRefusal'] },
      'GrowthRefused',
      'the volume does not grow to 1280Mi: quota',
    ],
  ])('with a pending request reports that it %s', (_, status, changes, reason, message) => {
    expect(decided({ claim: { ...asking, status: { ...claim.status, ...status } }, changes })).toEqual({
      storage: '1280Mi',
      claim: undefined,
      finding: { status: 'False', reason, message },
      status: { ...before, growsTo: '1280Mi' },
    })
  })

  test('without a pending request has what it requests', () => {
    expect(decided({ claim: { spec: {} }, changes: { volumeUse: 0 } }).finding).toBeUndefined()
  })

  test('with another capacity than recorded starts a new record', () => {
    const grown = { status: { phase: 'Bound', capacity: { storage: '1280Mi' } }, ...asking }
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
])('from %s by %i %, to no more than %s, is %s', (capacity, stepPercent, maxSize, next) => {
  expect(nextStorage(capacity, { atPercent: 80, stepPercent, maxSize })).toBe(next)
})

describe('automatic growth beside a size', () => {
  const large = { name: 'large', version: 1 }

  test('is not requested while a size is requested', () => {
    const world = serving(0.9)
    world.growth = 'held'
    edit(world, { size: large })
    settle(world)
    expect(requested(world)).toBe('2Gi')
    world.growth = 'answered'
    settle(world, 30)
    expect(capacity(world)).toBe('2Gi')
    expect(databaseIn(world).status).toMatchObject({ phase: 'available', size: large })
    expect(taskNames(world)).toEqual(['create-managed', 'update-managed-size'])
  })

  test('is kept by a size with less storage', () => {
    const world = serving(3, { autogrow: { ...autogrow, maxSize: '3Gi' } })
    settle(world, 40)
    expect(capacity(world)).toBe('3Gi')
    edit(world, { size: large })
    settle(world, 30)
    expect([requested(world), capacity(world)]).toEqual(['3Gi', '3Gi'])
    expect(databaseIn(world).status).toMatchObject({ phase: 'available', size: large })
  })

  test('that is switched off keeps the volume as it is', () => {
    const world = serving(0.9)
    settle(world)
    edit(world, { storage: {} })
    world.volumeUse = 3 * gibibyte
    settle(world)
    expect([requested(world), capacity(world), told(world)]).toEqual(['1280Mi', '1280Mi', undefined])
  })
})

test('a volume of a suspended database does not grow', () => {
  const world = serving(0.1)
  edit(world, { suspended: true })
  settle(world)
  world.volumeUse = 3 * gibibyte
  settle(world)
  expect([requested(world), databaseIn(world).status?.phase]).toEqual(['1Gi', 'suspended'])
})

test('a step is a growth in whole MiB, and never exceeds the limit', () => {
  const sizes = fc.tuple(fc.integer({ min: 1, max: 100_000 }), fc.constantFrom('Mi', 'Gi', 'M', 'G'))
  const step = fc.integer({ min: 5, max: 100 })
  fc.assert(
    fc.property(sizes, sizes, step, ([has, unit], [most, mostUnit], stepPercent) => {
      const [from, maxSize] = [`${has}${unit}`, `${most}${mostUnit}`]
      const next = nextStorage(from, { atPercent: 80, stepPercent, maxSize })
      const [bytes = 0, limit = 0] = [bytesTold(from), bytesTold(maxSize)]
      if (bytes >= limit) {
        expect(next).toBeUndefined()
        return
      }
      expect(bytesTold(next)).toBeGreaterThan(bytes)
      expect(bytesTold(next)).toBeLessThanOrEqual(limit)
    }),
  )
})
