/** The size of a database while its volume grows, or cannot grow. */
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import { canonicalJson, type ManagedDatabase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type ClusterState, emptyClusterState, observedIn, round, settings } from '../../testing/cluster-state.ts'
import { plan } from './index.ts'

describe('a size whose volume does not grow', () => {
  const made = ({ objects }: ClusterState) =>
    canonicalJson([...objects].filter(([key]) => !key.startsWith('Persistent')))
  const reconcile = (clusterState: ClusterState, rounds = 20) => {
    for (let count = 0; count < rounds; count++) round(clusterState)
  }
  const edit = (clusterState: ClusterState, change: Partial<ManagedDatabase['spec']>) => {
    const { database } = clusterState
    if (database === undefined) throw new Error('the database is there')
    const metadata = { ...database.metadata, generation: (database.metadata.generation ?? 1) + 1 }
    clusterState.database = { ...database, metadata, spec: { ...database.spec, ...change } }
  }
  const statusOf = ({ database }: ClusterState) => {
    if (database?.status === undefined) throw new Error('the database is there')
    return { ...database.status, sizeApplied: conditionOf(database.status, 'SizeApplied') }
  }
  const requesting = (spec: object, growth: ClusterState['growth']): { clusterState: ClusterState; before: string } => {
    const clusterState = emptyClusterState()
    reconcile(clusterState)
    const before = made(clusterState)
    clusterState.growth = growth
    edit(clusterState, { size: { name: 'large', version: 1 }, ...spec })
    reconcile(clusterState)
    return { clusterState, before }
  }
  const small = { name: 'small', version: 1 }
  const large = { name: 'large', version: 1 }
  const tasks = ({ tasks: all }: ClusterState) => [...all.values()].map(task => [task.spec.name, task.status?.phase])

  test('yet, is modifying; it is applied as a whole after the growth', () => {
    const { clusterState, before } = requesting({}, 'held')
    expect(made(clusterState)).toBe(before)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'modifying', size: small })
    expect(statusOf(clusterState).sizeApplied?.message).toMatch(/small-v1 is applied and large-v1 .* from 1Gi to 2Gi/)
    clusterState.growth = 'answered'
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    expect(tasks(clusterState)).toEqual([
      ['create-managed', 'succeeded'],
      ['update-managed-size', 'succeeded'],
    ])
  })

  test('by its deadline records its operation before Postgres restarts', () => {
    const { clusterState } = requesting({}, 'held')
    clusterState.now += settings.deadlines.modifyingMs
    reconcile(clusterState)
    clusterState.growth = 'answered'
    const next = () => plan(observedIn(clusterState), clusterState.now, settings)
    for (let count = 0; count < 20 && next().status?.operation === undefined; count++) round(clusterState)
    expect(next()).toMatchObject({ actions: [], status: { operation: { name: 'update-managed-size' } } })
    round(clusterState)
    expect(next().actions).not.toEqual([])
  })

  test('by its deadline fails; it is applied when the volume has grown later', () => {
    const { clusterState, before } = requesting({}, 'held')
    clusterState.now += settings.deadlines.modifyingMs
    reconcile(clusterState)
    expect(made(clusterState)).toBe(before)
    expect(statusOf(clusterState)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'Growing' },
    })
    clusterState.growth = 'answered'
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    expect(tasks(clusterState).slice(1)).toEqual([
      ['update-managed-size', 'failed'],
      ['update-managed-size', 'succeeded'],
    ])
  })

  test('because it is retired fails at once; a database that has it keeps it', () => {
    const clusterState = emptyClusterState()
    reconcile(clusterState)
    const before = made(clusterState)
    const size = clusterState.sizes.get('large-v1')
    if (size === undefined) throw new Error('the size is missing')
    clusterState.sizes.set('large-v1', { ...size, spec: { ...size.spec, status: 'retired' } })
    edit(clusterState, { size: large })
    reconcile(clusterState)
    expect(made(clusterState)).toBe(before)
    expect(statusOf(clusterState)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'SizeRetired', message: expect.stringMatching(/large-v1 is retired/) },
    })
    expect(tasks(clusterState).at(-1)).toEqual(['update-managed-size', 'failed'])
    clusterState.sizes.set('large-v1', size)
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    const served = made(clusterState)
    clusterState.sizes.set('large-v1', { ...size, spec: { ...size.spec, status: 'retired' } })
    reconcile(clusterState)
    expect(made(clusterState)).toBe(served)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
  })

  test('because the cluster refuses fails at once; other requests are applied', () => {
    const { clusterState } = requesting({ ipAllowlist: { rules: [{ cidr: '192.0.2.7' }] } }, 'refused')
    expect(statusOf(clusterState)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'GrowthRefused' },
    })
    expect(tasks(clusterState)).toEqual([
      ['create-managed', 'succeeded'],
      ['update-managed', 'failed'],
    ])
    expect(observedIn(clusterState).route?.route?.rules).toEqual(['192.0.2.7/32'])
    clusterState.growth = 'answered'
    clusterState.growthRefusal = undefined
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
    expect(tasks(clusterState).at(-1)).toEqual(['update-managed-size', 'succeeded'])
  })

  test('is withdrawn by requesting the applied size, without a restart', () => {
    const { clusterState, before } = requesting({}, 'refused')
    edit(clusterState, { size: small })
    reconcile(clusterState)
    expect(made(clusterState)).toBe(before)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: small, sizeApplied: undefined })
    expect(tasks(clusterState).at(-1)).toEqual(['update-managed-size', 'succeeded'])
  })

  test('because it does not exist fails at once; it is applied when the Size is created', () => {
    const { clusterState, before } = requesting({ size: { name: 'huge', version: 1 } }, 'answered')
    expect(made(clusterState)).toBe(before)
    expect(statusOf(clusterState)).toMatchObject({
      phase: 'available',
      size: small,
      sizeApplied: { reason: 'SizeNotFound' },
    })
    expect(tasks(clusterState).at(-1)).toEqual(['update-managed-size', 'failed'])
    const model = clusterState.sizes.get('large-v1')
    if (model) clusterState.sizes.set('huge-v1', { ...model, spec: { ...model.spec, name: 'huge' } })
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: { name: 'huge' }, sizeApplied: undefined })
  })

  test('while the database is suspended waits for its resumption', () => {
    const { clusterState } = requesting({ suspended: true }, 'held')
    const lagging = (claim: PersistentVolumeClaim) => ({
      ...claim,
      status: { ...claim.status, conditions: [{ type: 'FileSystemResizePending', status: 'True' }] },
    })
    for (const [key, object] of clusterState.objects)
      if (object.kind === 'PersistentVolumeClaim')
        clusterState.objects.set(key, lagging(object as PersistentVolumeClaim))
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({
      phase: 'suspended',
      size: small,
      sizeApplied: { reason: 'AwaitsResume' },
    })
    expect(tasks(clusterState).at(-1)).toEqual(['update-managed', 'succeeded'])
    edit(clusterState, { suspended: false })
    reconcile(clusterState, 10)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'resuming', size: small, sizeApplied: { reason: 'Growing' } })
    clusterState.growth = 'answered'
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: large, sizeApplied: undefined })
  })

  test('is read from the template if an older operator recorded none', () => {
    const clusterState = emptyClusterState()
    reconcile(clusterState)
    const strip = () => {
      if (clusterState.database === undefined) return
      const { size: _, ...status } = clusterState.database.status ?? {}
      clusterState.database = { ...clusterState.database, status }
    }
    strip()
    const before = canonicalJson([...clusterState.tasks.keys()])
    reconcile(clusterState, 3)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', size: small })
    expect(canonicalJson([...clusterState.tasks.keys()])).toBe(before)
    strip()
    clusterState.growth = 'held'
    edit(clusterState, { size: large })
    reconcile(clusterState)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'modifying', size: small })
  })

  test('is reported if an older operator applied it nevertheless', () => {
    const { clusterState } = requesting({}, 'answered')
    clusterState.growth = 'held'
    for (const [key, object] of clusterState.objects)
      if (object.kind === 'PersistentVolumeClaim')
        clusterState.objects.set(key, { ...object, status: { phase: 'Bound', capacity: { storage: '1Gi' } } })
    reconcile(clusterState, 3)
    expect(statusOf(clusterState)).toMatchObject({
      phase: 'available',
      size: large,
      sizeApplied: { reason: 'Growing' },
    })
    expect(statusOf(clusterState).sizeApplied?.message).toMatch(/smaller volume/)
  })
})
