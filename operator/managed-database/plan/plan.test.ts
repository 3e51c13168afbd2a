/** Properties of the plan, from any state of a database. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AnyObject, Draft } from '../../../cluster/index.ts'
import {
  apiVersion,
  canonicalJson,
  type DatabasePhase,
  databasePhases,
  desiredHash,
  type Task,
  teardownFinalizer,
  visiblePhase,
} from '../../../crds/index.ts'
import { readRoute } from '../../../routes/route.ts'
import { contains, parseCidr } from '../../../values/cidr.ts'
import { sizeInBytes } from '../../../values/quantity.ts'
import { sizeAnnotation, sizeText } from '../../member/pod/stateful-set.ts'
import { instanceFile } from '../../member/postgres/configuration.ts'
import type { VolumeFacts } from '../../member/storage/persistent-volume.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { ownerKeyAnnotation, ownerUidAnnotation, ownerUidOf, refersToDatabase } from '../../objects/ownership.ts'
import { hasEnded, isFinished } from '../../owner/operation.ts'
import { type ClusterState, emptyClusterState, observedIn, round, settings } from '../../testing/cluster-state.ts'
import type { Observed } from '../observed.ts'
import { type Plan, plan } from './index.ts'

const rules = fc.uniqueArray(fc.constantFrom('10.0.0.0/8', '192.0.2.7', '203.0.113.9/24', '0.0.0.0/0'), {
  maxLength: 3,
})

type Start = {
  spec: { suspended: boolean; rules: string[]; size: 'small' | 'large' }
  before: { suspended: boolean; rules: string[]; rounds: number }
  growth: ClusterState['growth']
  /** There is storage only for a claim of the size requested in the end. */
  withheld: boolean
  lost: string[]
  /** The owner annotations of the children: current, of earlier versions, or with an earlier uid. */
  ownership: 'annotations' | 'references' | 'of another'
  phase: DatabasePhase | undefined
  appliedHash: 'absent' | 'desired' | 'other' | 'kept'
  forgetOperation: boolean
  forgetTasks: boolean
  isDeleted: boolean
}

/** A database that worked on one request for some rounds, was damaged, and gets another request. */
const starts: fc.Arbitrary<Start> = fc.record({
  spec: fc.record({ suspended: fc.boolean(), rules, size: fc.constantFrom('small', 'small', 'large') }),
  before: fc.record({ suspended: fc.boolean(), rules, rounds: fc.nat(14) }),
  growth: fc.constantFrom('answered', 'answered', 'refused'),
  withheld: fc.constantFrom(false, false, true),
  lost: fc.subarray([
    'ConfigMap',
    'Secret',
    'Service',
    'StatefulSet',
    'Pod',
    'PersistentVolumeClaim',
    'route',
    'label',
  ]),
  ownership: fc.constantFrom('annotations', 'annotations', 'references', 'of another'),
  phase: fc.option(fc.constantFrom(...databasePhases), { nil: undefined }),
  appliedHash: fc.constantFrom('absent', 'desired', 'other', 'kept', 'kept'),
  forgetOperation: fc.boolean(),
  forgetTasks: fc.boolean(),
  isDeleted: fc.boolean(),
})

const storageOf = { small: '1Gi', large: '2Gi' }
const allowlist = (list: readonly string[]) => ({ rules: list.map(cidr => ({ cidr })) })

function clusterStateOf(start: Start): ClusterState {
  const { before, ownership, withheld } = start
  const clusterState = emptyClusterState({ suspended: before.suspended, ipAllowlist: allowlist(before.rules) })
  // Objects of another owner are not replaced.
  const isWithheld = withheld && ownership !== 'of another'
  if (isWithheld) clusterState.provides = () => false
  for (let count = 0; count < before.rounds; count++) round(clusterState)
  if (isWithheld) clusterState.provides = storage => storage === storageOf[start.spec.size]
  damage(clusterState, start)
  return clusterState
}

function damage(
  clusterState: ClusterState,
  { spec, growth, lost, ownership, phase, appliedHash, forgetOperation, forgetTasks, isDeleted }: Start,
): void {
  const { database } = clusterState
  if (database === undefined) throw new Error('the database is there')
  clusterState.growth = growth
  for (const key of [...clusterState.objects.keys()]) {
    const kind = key.includes('/route-') ? 'route' : (key.split('/')[0] ?? '')
    if (lost.includes(kind)) clusterState.objects.delete(key)
    else if (kind !== 'Pod') relabel(clusterState, key, ownership)
  }
  const size = { name: spec.size, version: 1 }
  const next = { ...database.spec, suspended: spec.suspended, ipAllowlist: allowlist(spec.rules), size }
  const hash = { absent: undefined, desired: desiredHash(next), other: 'other', kept: database.status?.appliedHash }[
    appliedHash
  ]
  const { operation, ...status } = database.status ?? {}
  const { finalizers, labels, ...metadata } = database.metadata
  if (forgetTasks) clusterState.tasks.clear()
  clusterState.database = {
    ...database,
    metadata: {
      ...metadata,
      generation: (metadata.generation ?? 1) + 1,
      ...(lost.includes('label') ? {} : { labels: labels ?? {} }),
      finalizers: isDeleted ? [teardownFinalizer] : (finalizers ?? []),
      ...(isDeleted ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
    },
    spec: next,
    status: {
      ...status,
      ...(phase === undefined ? {} : { phase }),
      appliedHash: hash,
      operation: forgetOperation ? undefined : operation,
    },
  }
}

function relabel(clusterState: ClusterState, key: string, ownership: Start['ownership']): void {
  const object = clusterState.objects.get(key)
  if (object === undefined || ownership === 'annotations') return
  const { [ownerUidAnnotation]: uid = '', [ownerKeyAnnotation]: _, ...others } = object.metadata.annotations ?? {}
  const reference = { apiVersion, kind: 'ManagedDatabase', name: 'one', uid, controller: true }
  const metadata =
    ownership === 'references' && !key.includes('/route-')
      ? { ...object.metadata, annotations: others, ownerReferences: [foreign, reference] }
      : { ...object.metadata, annotations: { ...object.metadata.annotations, [ownerUidAnnotation]: 'one-that-was' } }
  if (ownership === 'of another' || !key.includes('/route-')) clusterState.objects.set(key, { ...object, metadata })
}

const uidOf = ({ database }: ClusterState): string => database?.metadata.uid ?? ''

/** It is unknown whose reference it is. */
const foreign = { apiVersion: 'example.com/v1', kind: 'Application', name: 'theirs', uid: 'their-uid' }

/** Whether everything that `inner` admits is admitted by one of `outer`. */
const isWithin = (inner: string, outer: readonly string[]): boolean => {
  const block = parseCidr(inner)
  return outer.some(text => {
    const wider = parseCidr(text)
    return block && wider && wider.prefix <= block.prefix && contains(wider, block.network)
  })
}

function checkInvariants(observed: Observed, { actions, status }: Plan): void {
  const { database } = observed
  const recorded = database.status?.volume
  const isDeleting = database.metadata.deletionTimestamp !== undefined
  const targets = actions.map(action =>
    action.do === 'apply'
      ? `${action.kind}/${action.draft.metadata.name}`
      : action.do === 'delete'
        ? `${action.kind}/${action.name}`
        : action.do === 'label'
          ? `label ${action.kind}/${action.object.metadata.name}`
          : action.do,
  )
  const labelsChild = (action: (typeof actions)[number]): boolean =>
    action.do === 'label' &&
    Object.values(observed.children).some(child => child?.metadata.uid === action.object.metadata.uid)
  if (actions.some(labelsChild))
    expect(
      actions.every(action => action.do === 'label'),
      'nothing is done before its children are labelled',
    ).toBe(true)
  expect(new Set(targets).size, `one action for one thing: ${targets}`).toBe(targets.length)
  for (const action of actions) {
    if (action.do === 'create-claim') expect(recorded, 'a recorded volume is never replaced').toBeUndefined()
    if (action.do === 'delete' && action.kind === 'PersistentVolumeClaim') {
      if (!isDeleting) checkReplaced(observed, action.uid)
      expect(observed.owned.pods, 'a volume goes only after its pods').toEqual([])
    }
    if (action.do === 'finish-deletion') {
      const { routes, claims, secrets, statefulSets, pods } = observed.owned
      expect([routes, claims, secrets, statefulSets, pods].flat()).toEqual([])
      expect(observed.task, 'a deletion is recorded before its subject goes').toBeDefined()
    }
    if (action.do === 'apply' && action.kind === 'StatefulSet') checkVolume(observed, action.draft)
    if (action.do !== 'apply' || action.kind !== 'ConfigMap') continue
    const instance = action.draft.data?.[instanceFile]
    if (instance !== undefined && recorded !== undefined)
      expect(JSON.parse(instance).initialise, 'what has a volume is never initialised').toBe(false)
    const { route } = readRoute(action.draft)
    for (const rule of route?.rules ?? []) {
      expect(recorded, 'nothing opens before its data are known').toBeDefined()
      expect(isDeleting, 'nothing opens on the way out').toBe(false)
      expect(
        isWithin(
          rule,
          database.spec.ipAllowlist.rules.map(({ cidr }) => cidr),
        ),
      ).toBe(true)
    }
  }
  if (hasEnded(database.status) && !isFinished(observed.task)) {
    expect(status.operation, 'an operation is kept until its Task has ended').toEqual(database.status?.operation)
    const outcome = conditionOf(database.status, 'Progressing')?.reason
    expect(conditionOf(status, 'Progressing')?.reason, 'so is its outcome').toBe(outcome)
  }
  if (recorded !== undefined) expect(status.volume, 'a record of a volume never changes').toEqual(recorded)
  const isChanged = canonicalJson(status) !== canonicalJson(database.status)
  if (isChanged && status.phase === 'available') expect(conditionOf(status, 'Ready')?.status).toBe('True')
}

/** A volume is deleted only with its database; so is the claim of a database that never had a volume. */
function checkReplaced({ database, children: { claim }, isOrphanClaim }: Observed, uid: string): void {
  expect(database.status?.volume, 'a volume goes only with its database').toBeUndefined()
  expect([claim?.metadata.uid, claim?.status?.phase, isOrphanClaim]).toEqual([uid, 'Pending', false])
}

/** Postgres gets no size that its volume does not have, or will not get. */
function checkVolume({ children: { claim }, appliedSize }: Observed, draft: Draft<'StatefulSet'>): void {
  const given = draft.spec?.template.metadata?.annotations?.[sizeAnnotation]
  if (claim?.status === undefined || given === sizeText(appliedSize.pinned)) return
  const isBound = claim.status.phase === 'Bound'
  if (!isBound && draft.spec?.replicas === 0) return
  const has = isBound ? claim.status.capacity?.storage : claim.spec?.resources?.requests?.storage
  const desired = given === 'large-v1' ? '2Gi' : '1Gi'
  expect(sizeInBytes(has)).toBeGreaterThanOrEqual(sizeInBytes(desired) ?? 0)
}

/** The phase in which a state becomes stable. */
function expectedEnd(clusterState: ClusterState): (DatabasePhase | undefined)[] {
  const { database, objects } = clusterState
  if (database === undefined || database.metadata.deletionTimestamp !== undefined) return [undefined]
  const { volume } = database.status ?? {}
  const claim = [...objects].find(([key]) => key.startsWith('PersistentVolumeClaim/'))?.[1]
  if (volume !== undefined && claim?.metadata.uid !== volume.uid) return ['failed']
  // No record exists: the volume shows whether it was ever initialised, and this one is empty.
  const isOrphan = claim !== undefined && ownerUidOf(claim) !== database.metadata.uid
  if (volume === undefined && isOrphan && !clusterState.data.has(claim.metadata.uid ?? '')) {
    if (!database.spec.suspended) return ['failed', 'degraded']
  }
  return [database.spec.suspended ? 'suspended' : 'available']
}

const snapshot = ({ database, objects }: ClusterState): string => canonicalJson([database, [...objects]])

describe('plan', () => {
  test('converges from any state, and keeps every invariant at each step', () => {
    fc.assert(
      fc.property(starts, start => {
        const clusterState = clusterStateOf(start)
        const expected = expectedEnd(clusterState)
        let calm = 0
        for (let count = 0; count < 60 && calm < 3; count++) {
          const before = snapshot(clusterState)
          const passed = round(clusterState)
          if (passed) checkInvariants(passed.observed, passed.planned)
          calm = snapshot(clusterState) === before ? calm + 1 : 0
        }
        expect(calm, 'it comes to rest').toBe(3)
        expect(expected).toContain(clusterState.database && visiblePhase(clusterState.database))
        const references = [...clusterState.objects.values()].flatMap(({ metadata }) => metadata.ownerReferences ?? [])
        expect(references.filter(({ kind }) => kind === 'ManagedDatabase')).toEqual([])
        const open = [...clusterState.tasks.values()].filter((task: Task) => task.status?.finishedAt === undefined)
        expect(open, 'every Task has ended').toEqual([])
      }),
      { numRuns: 200 },
    )
  })

  test('keeps a requested disruption budget, and deletes it with the database', () => {
    const clusterState = emptyClusterState({})
    const budgets = () => [...clusterState.objects.keys()].filter(key => key.startsWith('PodDisruptionBudget/'))
    const rounds = (disruptionBudget: boolean) => {
      clusterState.podSettings = { ...clusterState.podSettings, disruptionBudget }
      for (let count = 0; count < 15; count++) round(clusterState)
      return budgets().length
    }
    expect([rounds(false), rounds(true), rounds(false), rounds(true)]).toEqual([0, 1, 0, 1])
    if (clusterState.database === undefined) throw new Error('the database is there')
    clusterState.database.metadata.deletionTimestamp = '2026-01-01T00:00:00Z'
    for (let count = 0; count < 15; count++) round(clusterState)
    expect([clusterState.database, budgets()]).toEqual([undefined, []])
  })

  test('ends a restart in a maintenance window at a teardown, but not at a blocked deletion', () => {
    const maintenance = { restart: 'w', startedAt: '2026-01-01T00:00:00Z' }
    const deleted = (deletionProtection: boolean) => {
      const clusterState = emptyClusterState({ deletionProtection })
      for (let count = 0; count < 15; count++) round(clusterState)
      clusterState.podSettings = { ...clusterState.podSettings, priorityClassName: 'databases' }
      const observed = observedIn(clusterState)
      const { metadata, status } = observed.database
      const database = {
        ...observed.database,
        metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
        status: { ...status, maintenance },
      }
      const instance = { ...observed.instance, metadata: database.metadata, status: database.status }
      const seen = { ...observed, database, instance }
      return plan(seen, Date.parse(maintenance.startedAt) + 1000, settings).status.maintenance
    }
    expect(deleted(true)).toEqual(maintenance)
    expect(deleted(false)).toEqual({ ...maintenance, endedAt: '2026-01-01T00:00:01Z' })
  })

  test('applies a new placement only with a restart that has another reason', () => {
    const clusterState = emptyClusterState({})
    for (let count = 0; count < 15; count++) round(clusterState)
    clusterState.podSettings = {
      ...clusterState.podSettings,
      priorityClassName: 'databases',
      terminationGracePeriodSeconds: 60,
    }
    for (let count = 0; count < 5; count++) {
      const passed = round(clusterState)
      expect(passed?.planned.actions.filter(action => action.do === 'delete')).toEqual([])
      expect(passed?.planned.status).toMatchObject({ phase: 'available', operation: undefined })
    }
  })

  test('runs again soon for a volume without owner annotations, and not for an annotated one', () => {
    const clusterState = emptyClusterState({})
    for (let count = 0; count < 15; count++) round(clusterState)
    const observed = observedIn(clusterState)
    const volume = (isLabelled: boolean): VolumeFacts => ({
      ...{
        name: 'pv',
        uid: 'pv-uid',
        isTerminating: false,
        isRetained: false,
        policyBefore: undefined,
        isBound: true,
        isLabelled,
      },
      ...{
        claim: undefined,
        claimUid: undefined,
        accessModes: [],
        capacity: '1Gi',
        isProvisioned: true,
        storageClass: '',
      },
    })
    const requeueAt = (bound: VolumeFacts | undefined) =>
      plan({ ...observed, volumes: { ...observed.volumes, bound } }, clusterState.now, settings).requeueAt
    expect(requeueAt(volume(false))).toBe(clusterState.now + 1_000)
    expect([requeueAt(volume(true)), requeueAt(undefined)]).toEqual([undefined, undefined])
  })

  test('is deterministic and does not change its input', () => {
    fc.assert(
      fc.property(starts, start => {
        const clusterState = clusterStateOf(start)
        const first = plan(observedIn(clusterState), clusterState.now, settings)
        expect(plan(observedIn(clusterState), clusterState.now, settings)).toEqual(first)
      }),
      { numRuns: 100 },
    )
  })

  test('without the keys only removes owner references from the children', () => {
    fc.assert(
      fc.property(starts, start => {
        const clusterState = clusterStateOf(start)
        clusterState.keys = false
        const observed = observedIn(clusterState)
        const planned = plan(observed, clusterState.now, settings)
        const before = [...clusterState.objects.values()]
        const isReferring = ({ metadata }: Pick<AnyObject, 'metadata'>) => refersToDatabase(metadata)
        for (const action of planned.actions) {
          if (action.do !== 'label') throw new Error(`${action.do} without the keys`)
          const { metadata, ...rest } = action.object
          const found = before.find(object => object.metadata.uid === metadata.uid)
          if (found === undefined) throw new Error('the object to change is missing')
          expect([isReferring(found), refersToDatabase(metadata)]).toEqual([true, false])
          expect(metadata.ownerReferences, 'references to others stay').toEqual([foreign])
          const { metadata: was, ...wasRest } = found
          expect(rest, 'nothing of it changes but whose it is').toEqual(wasRest)
          expect(metadata.labels).toEqual(was.labels)
        }
        const own = before.filter(
          object => isReferring(object) && ownerUidOf(object as AnyObject) === uidOf(clusterState),
        )
        expect(planned.actions).toHaveLength(own.length)
        expect(conditionOf(planned.status, 'KeysAvailable')?.status).toBe('False')
      }),
      { numRuns: 100 },
    )
  })

  test('never applies an allowlist that no gateway has acknowledged before its deadline', () => {
    fc.assert(
      fc.property(starts, fc.integer({ min: 1, max: 20 }), (start, rounds) => {
        const clusterState = clusterStateOf({
          ...start,
          ...{ isDeleted: false, lost: [], ownership: 'annotations', appliedHash: 'other', phase: 'available' },
        })
        clusterState.gatewayAnswers = false
        for (let count = 0; count < rounds; count++) round(clusterState)
        const { database } = clusterState
        if (database === undefined) throw new Error('the database is there')
        expect(database.status?.appliedHash).not.toBe(desiredHash(database.spec))
        expect(visiblePhase(database)).not.toBe('available')
      }),
      { numRuns: 100 },
    )
  })
})
