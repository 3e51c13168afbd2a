/**
 * A restore of objects (Velero, from etcd, by hand) puts statuses back that were true once. Whatever such a status says, a
 * database that serves is neither stopped nor restarted for it, and no Task is made of it.
 */
import { describe, expect, test } from 'vitest'
import { annotations, type ManagedDatabase, type ManagedDatabaseStatus, visiblePhase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { emptyWorld, observedIn, round, settings, type World } from '../../testing/plan-world.ts'
import { plan } from './index.ts'

const database = ({ database: found }: World): ManagedDatabase => {
  if (found === undefined) throw new Error('the database is there')
  return found
}
const statusOf = (world: World): ManagedDatabaseStatus => database(world).status ?? {}
const rounds = (world: World, count = 15) => {
  for (let index = 0; index < count; index++) round(world)
  return world
}
const podOf = ({ objects }: World) => [...objects].find(([key]) => key.startsWith('Pod/'))?.[1]

const serving = (spec: Partial<ManagedDatabase['spec']> = {}): World => rounds(emptyWorld(spec))

const ask = (world: World, restart: string) => {
  const found = database(world)
  const { generation = 1 } = found.metadata
  const metadata = { ...found.metadata, generation: generation + 1, annotations: { [annotations.restart]: restart } }
  world.database = { ...found, metadata }
}
const restarted = (world: World, restart: string) => {
  const before = podOf(world)?.metadata.uid
  ask(world, restart)
  rounds(world)
  expect(podOf(world)?.metadata.uid).not.toBe(before)
}

/** Lets the object that is put back have its way for a while: the pod is the same at each moment, and no Task comes of it. */
function expectUntouched(world: World, what: { mayTell?: true } = {}): void {
  const [pod, tasks] = [podOf(world)?.metadata.uid, world.tasks.size]
  for (let count = 0; count < 15; count++) {
    const passed = round(world)
    for (const action of passed?.planned.actions ?? []) {
      if (action.do === 'delete') expect(action.kind).not.toBe('Pod')
      if (action.do === 'apply' && action.kind === 'StatefulSet') expect(action.draft.spec?.replicas).toBe(1)
    }
    expect(podOf(world)?.metadata.uid).toBe(pod)
  }
  expect(visiblePhase(database(world))).toBe('available')
  if (!what.mayTell) expect(world.tasks.size).toBe(tasks)
}

const withStatus = (world: World, status: Partial<ManagedDatabaseStatus>) => {
  world.database = { ...database(world), status: { ...statusOf(world), ...status } }
}
const ago = (world: World, minutes: number) => new Date(world.now - minutes * 60_000).toISOString()

describe('an old status of a restart in a maintenance window', () => {
  const waiting = [{ reason: 'Image', message: 'another image', since: '2025-01-01T00:00:00Z' }]
  const toldBySettings = [{ reason: 'Settings', message: 'shared_buffers', since: '2025-01-01T00:00:00Z' }]

  test.each<[string, (world: World) => Partial<ManagedDatabaseStatus>]>([
    [
      'that has ended well',
      world => ({
        maintenance: { restart: 'w', startedAt: ago(world, 9), endedAt: ago(world, 8), outcome: 'completed' },
      }),
    ],
    [
      'that has failed',
      world => ({ maintenance: { restart: 'w', startedAt: ago(world, 9), endedAt: ago(world, 8), outcome: 'failed' } }),
    ],
    ['that ran long ago', world => ({ maintenance: { restart: 'w', startedAt: ago(world, 999) } })],
    ['that runs, and would bring nothing', world => ({ maintenance: { restart: 'w', startedAt: ago(world, 1) } })],
    [
      'that something waited for',
      world => ({ maintenance: { restart: 'w', startedAt: ago(world, 1) }, pendingRestart: waiting }),
    ],
    [
      'that settings waited for',
      world => ({ maintenance: { restart: 'w', startedAt: ago(world, 1) }, pendingRestart: toldBySettings }),
    ],
  ])('%s restarts nothing', (_, status) => {
    const world = serving()
    withStatus(world, status(world))
    expectUntouched(world)
    expect(statusOf(world).maintenance?.endedAt).toBeDefined()
    expect(statusOf(world).pendingRestart).toBeUndefined()
  })

  test('that pending settings waited for asks Postgres first', () => {
    const world = serving()
    withStatus(world, {
      maintenance: { restart: 'w', startedAt: ago(world, 1) },
      pendingRestart: toldBySettings,
    })
    const planned = plan({ ...observedIn(world), postgres: undefined }, world.now, settings)
    expect(planned).toMatchObject({ awaitsPostgres: true, status: { phase: 'available', operation: undefined } })
    expect(planned.actions.filter(action => action.do === 'delete')).toEqual([])
    expect(planned.status.maintenance?.endedAt).toBeUndefined()
  })

  test('that is due restarts once, and its end changes nothing else', () => {
    const world = serving()
    const before = podOf(world)?.metadata.uid
    world.podSettings = { ...world.podSettings, priorityClassName: 'databases' }
    rounds(world, 2)
    expect(statusOf(world).pendingRestart).toHaveLength(1)
    withStatus(world, { maintenance: { restart: 'w', startedAt: ago(world, 0) } })
    rounds(world)
    expect(podOf(world)?.metadata.uid).not.toBe(before)
    expect(statusOf(world)).toMatchObject({ phase: 'available', maintenance: { outcome: 'completed' } })
    expectUntouched(world)
  })
})

describe('an old status of a requested restart', () => {
  const putBack = (world: World, { metadata, spec, status }: ManagedDatabase) => {
    const generation = (database(world).metadata.generation ?? 1) + 1
    world.database = { ...database(world), metadata: { ...metadata, generation }, spec, ...(status ? { status } : {}) }
  }

  test('that was done before another one restarts nothing', () => {
    const world = serving()
    restarted(world, 'first')
    const backup = structuredClone(database(world))
    restarted(world, 'second')
    putBack(world, backup)
    expectUntouched(world)
  })

  test('without status restarts nothing', () => {
    const world = serving()
    restarted(world, 'first')
    const { metadata, spec } = structuredClone(database(world))
    restarted(world, 'second')
    putBack(world, { ...database(world), metadata, spec, status: {} })
    // It is a database that is created, which is an operation.
    expectUntouched(world, { mayTell: true })
  })

  test('that was running when it was copied long ago restarts nothing', () => {
    const world = serving()
    ask(world, 'first')
    round(world)
    const backup = structuredClone(database(world))
    expect(backup.status?.operation?.name).toBe('restart-managed')
    rounds(world)
    restarted(world, 'second')
    world.now += settings.deadlines.modifyingMs
    putBack(world, backup)
    expectUntouched(world)
  })

  test('that missed its deadline fails and is reported', () => {
    const world = serving()
    ask(world, 'first')
    round(world)
    const { operation } = statusOf(world)
    const before = podOf(world)?.metadata.uid
    world.now = Date.parse(operation?.deadlineAt ?? '')
    const late = { ...observedIn(world), pod: { ...observedIn(world).pod, marks: {} } } as ReturnType<typeof observedIn>
    const { status, actions } = plan(late, world.now, settings)
    expect(actions.filter(action => action.do === 'delete')).toEqual([])
    expect(conditionOf(status, 'Progressing')).toMatchObject({
      status: 'False',
      reason: 'DeadlineExceeded',
      message: expect.stringMatching(/not restarted by .*: ask again/),
    })
    expect(before).toBeDefined()
  })
})

describe('an old status of a size', () => {
  test('that was applied before, on a volume smaller than requested now, restarts nothing', () => {
    const world = serving({ size: { name: 'large', version: 1 } })
    const [place, claim] = [...world.objects].find(([key]) => key.startsWith('PersistentVolumeClaim/')) ?? []
    if (place === undefined || claim === undefined) throw new Error('there is a claim')
    world.growth = 'held'
    const requests = { storage: '1Gi' }
    const status = { phase: 'Bound', capacity: requests }
    world.objects.set(place, { ...claim, spec: { ...(claim.spec as object), resources: { requests } }, status })
    withStatus(world, { size: { name: 'small', version: 1 } })
    expectUntouched(world)
    expect(statusOf(world).size?.name).toBe('large')
  })
})

describe('an old status of a volume', () => {
  test.each<[string, (volume: NonNullable<ManagedDatabaseStatus['volume']>) => typeof volume]>([
    ['as it was before its claim was replaced', volume => ({ ...volume, uid: 'older', volumeName: 'older' })],
    [
      'of another database that had its name',
      () => ({ claim: 'db-other-1-data', uid: 'other', volumeName: 'other', systemIdentifier: 'other' }),
    ],
  ])('%s, stops nothing and is corrected', (_, older) => {
    const world = serving()
    const { volume } = statusOf(world)
    if (volume === undefined) throw new Error('there is a record')
    withStatus(world, { volume: older(volume) })
    expectUntouched(world)
    expect(statusOf(world).volume).toMatchObject(volume)
  })
})

test('an old operation, an old phase or a missing status restarts nothing', () => {
  const world = serving()
  const hash = statusOf(world).appliedHash ?? ''
  const operation = {
    taskId: '11111111-2222-4333-8444-555555555555',
    name: 'update-managed-size' as const,
    hash,
    startedAt: ago(world, 99),
    deadlineAt: ago(world, 89),
  }
  for (const phase of ['modifying', 'suspended', 'suspending', 'resuming', 'degraded', 'failed'] as const) {
    withStatus(world, { phase, operation })
    expectUntouched(world, { mayTell: true })
  }
  world.database = { ...database(world), status: {} }
  expectUntouched(world, { mayTell: true })
})
