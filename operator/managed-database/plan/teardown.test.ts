/** The first steps of a pass over a database, and the reports of a teardown. */
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import { type Condition, teardownFinalizer } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { ownerUidAnnotation } from '../../objects/ownership.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import type { Observed } from '../observed.ts'

const { now, children, status: reconciled, observedOf, planOf } = reconciledDatabase()
const serving = observedOf()
const going = { deletionTimestamp: timestamp(now - 1_000), finalizers: [teardownFinalizer] }
const typesOf = (conditions: readonly Condition[] = []) => conditions.map(({ type }) => type)
const labelActions = (given: Given) =>
  planOf(given).actions.flatMap(action => (action.do === 'label' ? [`label ${action.kind}`] : []))

/** A claim with the name of a child of another owner, of a database without a recorded volume. */
function foreignClaim(more: Partial<PersistentVolumeClaim['metadata']> = {}): Given {
  const metadata = { ...children.claim.metadata, annotations: { [ownerUidAnnotation]: 'another' }, ...more }
  const claim = { ...children.claim, metadata }
  return {
    status: { volume: undefined },
    children: { ...children, claim },
    rest: { owned: { ...serving.owned, claims: [claim] } },
  }
}

describe('a claim without owner annotations', () => {
  test('is deleted with the database, without being annotated first', () => {
    expect(labelActions({ ...foreignClaim(), metadata: going })).toEqual(['label PersistentVolumeClaim'])
    expect(labelActions(foreignClaim())).toEqual([])
  })
  test('is not changed without the keys', () => {
    const apiVersion = 'espalier.dev/v1alpha1'
    const reference = { apiVersion, kind: 'ManagedDatabase', name: 'o', uid: 'o', controller: true }
    const given = foreignClaim({ ownerReferences: [reference] })
    const rest: Partial<Observed> = { ...given.rest, keys: { ...serving.keys, sealingKey: false } }
    expect(planOf({ ...given, rest }).actions).toEqual([])
    expect(planOf({ ...given, rest, metadata: going }).actions).toEqual([])
  })
})

describe('a database whose pass is blocked', () => {
  const contested: Partial<Observed> = { identity: { state: 'contested', why: 'two have it' } }
  const withoutKeys: Partial<Observed> = { keys: { ...serving.keys, authority: false } }
  test('reports the reason, and keeps all other conditions', () => {
    for (const rest of [contested, withoutKeys])
      expect(typesOf(planOf({ rest }).status.conditions)).toEqual(typesOf(reconciled.conditions))
    expect(conditionOf(planOf({ rest: contested }).status, 'Ready')?.reason).toBe('IdContested')
    expect(conditionOf(planOf({ rest: withoutKeys }).status, 'KeysAvailable')?.status).toBe('False')
  })
  test('is creating if it had no status before', () => {
    const { status: _, ...withoutStatus } = serving.database
    const of = (rest: Partial<Observed>) => planOf({ rest: { ...rest, database: withoutStatus } }).status
    expect(of(withoutKeys).phase).toBe('creating')
    expect(planOf({ rest: withoutKeys }).status.phase).toBe('available')
    expect(typesOf(of(contested).conditions)).toEqual(['Ready', 'VolumeReady'])
  })
  test('keeps its address if its region is deleted', () => {
    const { endpoint, domain } = planOf({ rest: { region: undefined } }).status
    expect([endpoint, domain]).toEqual([reconciled.endpoint, reconciled.domain])
    expect(domain).toBeDefined()
  })
})

describe('a creation that ended without success', () => {
  const operation = { taskId: 't', name: 'create-managed' as const, hash: reconciled.appliedHash ?? '' }
  const ended = (reason: string): Given => ({
    status: { operation: { ...operation, startedAt: timestamp(now), deadlineAt: timestamp(now) }, phase: 'degraded' },
    conditions: { Progressing: { status: 'False', reason }, Ready: { status: 'False' } },
    pod: undefined,
  })
  test('has failed if its deadline passed, and otherwise may continue', () => {
    expect(planOf(ended('DeadlineExceeded')).status.phase).toBe('failed')
    expect(planOf(ended('SizeNotFound')).status.phase).toBe('degraded')
  })
})

describe('a teardown', () => {
  test('waits for gateways only if they are the last to wait for', () => {
    const { route, owned } = serving
    const closed = route?.route && { ...route, route: { ...route.route, rules: [] } }
    const pods = owned.pods.map(pod => ({ ...pod, metadata: { ...pod.metadata, deletionTimestamp: timestamp(now) } }))
    const stopping = { ...owned, statefulSets: [], services: [], configurations: [], pods }
    const of = (acknowledged: boolean) =>
      planOf({
        metadata: going,
        route: { ...closed, acknowledged, waitingFor: acknowledged ? [] : ['g'] },
        rest: { owned: stopping },
      })
    expect(of(true)).toMatchObject({ actions: [], awaitsGateways: false })
    expect(of(false)).toMatchObject({ actions: [], awaitsGateways: true })
  })
  test('that was blocked does not report it any more', () => {
    const blocked: Given = {
      metadata: going,
      conditions: { DeletionBlocked: { status: 'True', reason: 'HasBranches' } },
    }
    expect(
      conditionOf(planOf({ ...blocked, spec: { deletionProtection: true } }).status, 'DeletionBlocked')?.reason,
    ).toBe('DeletionProtected')
    expect(conditionOf(planOf(blocked).status, 'DeletionBlocked')).toBeUndefined()
  })
})
