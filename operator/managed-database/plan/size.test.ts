/** Which size a database has while its volume grows, or does not. */
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import { canonicalJson, type ManagedDatabase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { emptyWorld, observedIn, round, settings, type World } from '../../testing/plan-world.ts'
import { plan } from './index.ts'

describe('a size whose volume does not grow', () => {
  const made = ({ objects }: World) => canonicalJson([...objects].filter(([key]) => !key.startsWith('Persistent')))
  const settle = (world: World, rounds = 20) => {
    for (let count = 0; count < rounds; count++) round(world)
  }
  const edit = (world: World, change: Partial<ManagedDatabase['spec']>) => {
    const { database } = world
    if (database === undefined) throw new Error('the database is there')
    const metadata = { ...database.metadata, generation: (database.metadata.generation ?? 1) + 1 }
    world.database = { ...database, metadata, spec: { ...database.spec, ...change } }
  }
  const statusOf = ({ database }: World) => {
    if (database?.status === undefined) throw new Error('the database is there')
    return { ...database.status, sizeApplied: conditionOf(database.status, 'SizeApplied') }
  }
  const asking = (spec: object, growth: World['growth']): { world: World; before: string } => {
    const world = emptyWorld()
    settle(world)
    const before = made(world)
    world.growth = growth
    edit(world, { size: { name: 'large', version: 1 }, ...spec })
    settle(world)
    return { world, before }
  }
  const small = { name: 'small', version: 1 }
  const large = { name: 'large', version: 1 }
  const tasks = ({ tasks: all }: World) => [...all.values()].map(task => [task.spec.name, task.status?.phase])

  test('yet, is modifying; it is applied as a whole after the growth', () => {
    const { world, before } = asking({}, 'held')
    expect(made(world)).toBe(before)
    expect(statusOf(world)).toMatchObject({ phase: 'modifying', size: small })
    expect(statusOf(world).sizeApplied?.message).toMatch(/small-v1 is in force and large-v1 .* from 1Gi to 2Gi/)
    world.growth = 'answered'
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    expect(tasks(world)).toEqual([
      ['create-managed', 'succeeded'],
      ['update-managed-size', 'succeeded'],
    ])
  })

  test('by its deadline records its operation before Postgres restarts', () => {
    const { world } = asking({}, 'held')
    world.now += settings.deadlines.modifyingMs
    settle(world)
    world.growth = 'answered'
    const next = () => plan(observedIn(world), world.now, settings)
    for (let count = 0; count < 20 && next().status?.operation === undefined; count++) round(world)
    expect(next()).toMatchObject({ actions: [], status: { operation: { name: 'update-managed-size' } } })
    round(world)
    expect(next().actions).not.toEqual([])
  })

  test('by its deadline fails; it is applied when the volume has grown later', () => {
    const { world, before } = asking({}, 'held')
    world.now += settings.deadlines.modifyingMs
    settle(world)
    expect(made(world)).toBe(before)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: small, sizeApplied: { reason: 'Growing' } })
    world.growth = 'answered'
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    expect(tasks(world).slice(1)).toEqual([
      ['update-managed-size', 'failed'],
      ['update-managed-size', 'succeeded'],
    ])
  })

  test('because it is retired fails at once; a database that has it keeps it', () => {
    const world = emptyWorld()
    settle(world)
    const before = made(world)
    const size = world.sizes.get('large-v1')
    if (size === undefined) throw new Error('there is a size')
    world.sizes.set('large-v1', { ...size, spec: { ...size.spec, status: 'retired' } })
    edit(world, { size: large })
    settle(world)
    expect(made(world)).toBe(before)
    expect(statusOf(world)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'SizeRetired', message: expect.stringMatching(/large-v1 is retired/) },
    })
    expect(tasks(world).at(-1)).toEqual(['update-managed-size', 'failed'])
    world.sizes.set('large-v1', size)
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    const served = made(world)
    world.sizes.set('large-v1', { ...size, spec: { ...size.spec, status: 'retired' } })
    settle(world)
    expect(made(world)).toBe(served)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
  })

  test('because the cluster refuses fails at once; other requests are applied', () => {
    const { world } = asking({ ipAllowlist: { rules: [{ cidr: '192.0.2.7' }] } }, 'refused')
    expect(statusOf(world)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'GrowthRefused' },
    })
    expect(tasks(world)).toEqual([
      ['create-managed', 'succeeded'],
      ['update-managed', 'failed'],
    ])
    expect(observedIn(world).route?.route?.rules).toEqual(['192.0.2.7/32'])
    world.growth = 'answered'
    world.growthRefusal = undefined
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    expect(tasks(world).at(-1)).toEqual(['update-managed-size', 'succeeded'])
  })

  test('is withdrawn by requesting the applied size, without a restart', () => {
    const { world, before } = asking({}, 'refused')
    edit(world, { size: small })
    settle(world)
    expect(made(world)).toBe(before)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: small, sizeApplied: undefined })
    expect(tasks(world).at(-1)).toEqual(['update-managed-size', 'succeeded'])
  })

  test('because it does not exist fails at once; it is applied when the Size is created', () => {
    const { world, before } = asking({ size: { name: 'huge', version: 1 } }, 'answered')
    expect(made(world)).toBe(before)
    expect(statusOf(world)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'SizeNotFound' },
    })
    expect(tasks(world).at(-1)).toEqual(['update-managed-size', 'failed'])
    const model = world.sizes.get('large-v1')
    if (model) world.sizes.set('huge-v1', { ...model, spec: { ...model.spec, name: 'huge' } })
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: { name: 'huge' }, sizeApplied: undefined })
  })

  test('while the database is suspended waits for its resumption', () => {
    const { world } = asking({ suspended: true }, 'held')
    const lagging = (claim: PersistentVolumeClaim) => ({
      ...claim,
      status: { ...claim.status, conditions: [{ type: 'FileSystemResizePending', status: 'True' }] },
    })
    for (const [key, object] of world.objects)
      if (object.kind === 'PersistentVolumeClaim') world.objects.set(key, lagging(object as PersistentVolumeClaim))
    settle(world)
    expect(statusOf(world)).toMatchObject({
      phase: 'suspended',
      size: small,
      sizeApplied: { reason: 'AwaitsResume' },
    })
    expect(tasks(world).at(-1)).toEqual(['update-managed', 'succeeded'])
    edit(world, { suspended: false })
    settle(world, 10)
    expect(statusOf(world)).toMatchObject({ phase: 'resuming', size: small, sizeApplied: { reason: 'Growing' } })
    world.growth = 'answered'
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
  })

  test('is read from the template if an older operator recorded none', () => {
    const world = emptyWorld()
    settle(world)
    const strip = () => {
      if (world.database === undefined) return
      const { size: _, ...status } = world.database.status ?? {}
      world.database = { ...world.database, status }
    }
    strip()
    const before = canonicalJson([...world.tasks.keys()])
    settle(world, 3)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: small })
    expect(canonicalJson([...world.tasks.keys()])).toBe(before)
    strip()
    world.growth = 'held'
    edit(world, { size: large })
    settle(world)
    expect(statusOf(world)).toMatchObject({ phase: 'modifying', size: small })
  })

  test('is reported if an older operator applied it nevertheless', () => {
    const { world } = asking({}, 'answered')
    world.growth = 'held'
    for (const [key, object] of world.objects)
      if (object.kind === 'PersistentVolumeClaim')
        world.objects.set(key, { ...object, status: { phase: 'Bound', capacity: { storage: '1Gi' } } })
    settle(world, 3)
    expect(statusOf(world)).toMatchObject({ phase: 'available', size: large, sizeApplied: { reason: 'Growing' } })
    expect(statusOf(world).sizeApplied?.message).toMatch(/smaller than its own/)
  })
})
