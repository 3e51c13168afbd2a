/** The order in which the operator deletes a database's objects. Each row has the objects that still exist. */
import { describe, expect, test } from 'vitest'
import type { AnyObject } from '../../../cluster/index.ts'
import { readRoute } from '../../../routes/route.ts'
import type { VolumeFacts } from '../../member/storage/persistent-volume.ts'
import { emptyClusterState, observedIn, round } from '../../testing/cluster-state.ts'
import type { Observed, ObservedObjects } from '../observed.ts'
import { remove, type Teardown, teardown } from './teardown.ts'

const deletedAt = '2026-01-01T00:00:00Z'
const now = Date.parse(deletedAt) + 1_000
const clusterState = emptyClusterState()
for (let count = 0; count < 15; count++) round(clusterState)
const reconciled = observedIn(clusterState)
const { owner, route } = reconciled
if (owner === undefined || route?.route === undefined) throw new Error('the database does not serve')
const { route: open } = route
const closed = { ...route, route: { ...open, rules: [] }, acknowledged: true }

const nothing: ObservedObjects = {
  ...{ statefulSets: [], pods: [], services: [], networkPolicies: [], disruptionBudgets: [], configurations: [] },
  ...{ deployments: [], claims: [], secrets: [], routes: [], volumes: [] },
}
const object = (kind: string, more: object = {}) =>
  ({ kind, metadata: { name: `the-${kind}`, namespace: 'there', uid: `${kind}-uid`, ...more } }) as unknown
const of = <K extends keyof ObservedObjects>(field: K, ...objects: unknown[]) =>
  ({ [field]: objects }) as Pick<ObservedObjects, K>
const deletion = (kind: string, name = `the-${kind}`) => ({
  ...{ do: 'delete', kind, name, namespace: 'there', uid: `${kind}-uid` },
})
const volumeOf = (changes: Partial<VolumeFacts> = {}): VolumeFacts => ({
  ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: true, policyBefore: 'Delete', claim: undefined },
  ...{ claimUid: 'claim-1', isBound: true, isLabelled: true, accessModes: [], capacity: '1Gi', storageClass: '' },
  isProvisioned: true,
  ...changes,
})

type Given = {
  owned?: Partial<ObservedObjects>
  route?: Observed['route']
  node?: Observed['node']
  record?: { uid: string } | undefined
  /** How long ago the database was deleted, in ms. */
  since?: number
}

function teardownOf(
  { owned = {}, route: given = closed, node, record = { uid: 'claim-1' }, since = 1_000 }: Given,
  copies?: () => Teardown | undefined,
  hasOwner = true,
): Teardown {
  const deletionTimestamp = new Date(now - since).toISOString()
  const volume = { claim: 'claim', systemIdentifier: '7', ...record }
  const observed: Observed = {
    ...reconciled,
    instance: {
      ...reconciled.instance,
      metadata: { ...reconciled.instance.metadata, uid: 'instance-uid', deletionTimestamp },
      status: { ...reconciled.instance.status, volume: record && volume },
    },
    owned: { ...nothing, ...owned },
    route: given,
    node,
  }
  return teardown(observed, hasOwner ? owner : undefined, now, copies)
}
const step = ({ actions, progress, isDone }: Teardown) => ({ actions, progress, isDone: isDone === true })
const is = (progress: number, ...actions: object[]) => ({ actions, progress, isDone: progress === 95 })

const set = object('StatefulSet')
const pod = object('Pod')
const workloads: [string, Partial<ObservedObjects>, object[]][] = [
  [
    'its StatefulSet, which deletes its pods',
    { ...of('statefulSets', set), ...of('pods', pod) },
    [deletion('StatefulSet')],
  ],
  ['a remaining pod', of('pods', pod), [deletion('Pod')]],
  ['its Service', of('services', object('Service')), [deletion('Service')]],
  ['its configuration', of('configurations', object('ConfigMap')), [deletion('ConfigMap')]],
]

describe('the endpoint', () => {
  test.each<[string, Observed['route']]>([
    ['is closed first', route],
    ['is closed first, even if its route is unreadable', { ...route, route: undefined }],
  ])('%s', (_, given) => {
    const first = teardownOf({ route: given, owned: of('statefulSets', set) })
    expect(first.progress).toBe(20)
    expect(first.actions).toHaveLength(1)
    const [action] = first.actions
    if (action?.do !== 'apply' || action.kind !== 'ConfigMap') throw new Error('a route is written')
    expect(readRoute(action.draft).route).toEqual({ ...open, rules: [] })
  })

  const unacknowledged = (waitingFor: string[]) => ({ ...closed, acknowledged: false, waitingFor })
  test.each(workloads)('keeps %s until every gateway has closed the endpoint', (_, owned) => {
    expect(step(teardownOf({ owned, route: unacknowledged(['gateway-one']), since: 10_000_000 }))).toEqual(is(30))
    expect(step(teardownOf({ owned, route: unacknowledged([]), since: 99_999 }))).toEqual(is(30))
  })
  test.each(workloads)('deletes %s when a dead gateway can no longer admit clients', (_, owned, actions) => {
    expect(step(teardownOf({ owned, route: unacknowledged([]), since: 100_000 }))).toEqual(is(50, ...actions))
  })
  test('does not delay the deletion of other objects', () => {
    const owned = of('claims', object('PersistentVolumeClaim'))
    const taken = is(70, deletion('PersistentVolumeClaim'))
    expect(step(teardownOf({ owned, route: unacknowledged(['gateway-one']) }))).toEqual(taken)
  })
  test.each(workloads)('if there is no endpoint, %s is deleted at once', (_, owned, actions) => {
    expect(step(teardownOf({ owned, route: undefined as never }))).toEqual(is(50, ...actions))
  })
  test('of an orphaned database is not changed', () => {
    expect(teardownOf({ route, owned: of('statefulSets', set) }, undefined, false).progress).toBe(50)
  })
})

describe('an object', () => {
  test.each(workloads)('of the workload is deleted first: %s', (_, owned, actions) => {
    const later = { ...of('claims', object('PersistentVolumeClaim')), ...of('secrets', object('Secret')) }
    expect(step(teardownOf({ owned: { ...later, ...owned } }))).toEqual(is(50, ...actions))
  })

  const rest: [string, Partial<ObservedObjects>, string][] = [
    ['its Secrets', of('secrets', object('Secret')), 'Secret'],
    ['its network policy', of('networkPolicies', object('NetworkPolicy')), 'NetworkPolicy'],
    ['its disruption budget', of('disruptionBudgets', object('PodDisruptionBudget')), 'PodDisruptionBudget'],
    ['its route', of('routes', object('ConfigMap')), 'ConfigMap'],
  ]
  test.each(rest)('is deleted after the volume: %s', (_, owned, kind) => {
    const claims = of('claims', object('PersistentVolumeClaim'))
    expect(step(teardownOf({ owned: { ...claims, ...owned } }))).toEqual(is(70, deletion('PersistentVolumeClaim')))
    expect(step(teardownOf({ owned }))).toEqual(is(90, deletion(kind)))
  })

  test('that is being deleted is not deleted again, and delays later steps', () => {
    const goes = (kind: string) => object(kind, { deletionTimestamp: deletedAt })
    expect(step(teardownOf({ owned: of('statefulSets', goes('StatefulSet')) }))).toEqual(is(50))
    expect(step(teardownOf({ owned: of('claims', goes('PersistentVolumeClaim')) }))).toEqual(is(70))
    expect(step(teardownOf({ owned: of('secrets', goes('Secret')) }))).toEqual(is(90))
    const both = [goes('Secret'), object('Secret')] as AnyObject[]
    expect(remove('Secret', both)).toEqual([deletion('Secret')])
  })

  test('if no object is left, the deletion is complete', () => {
    expect(step(teardownOf({}))).toEqual(is(95))
  })

  test('that delays the deletion is named in the message', () => {
    const node = { name: 'node-1', silentSince: deletedAt, isOutOfService: false }
    const owned = of('pods', pod)
    expect(teardownOf({ owned }).message).toBe('stopping Postgres')
    expect(teardownOf({ owned, route: { ...closed, acknowledged: false }, since: 100_000 }).message).toMatch(
      /no gateway is running/,
    )
    expect(teardownOf({ owned, node }).message).toMatch(/node-1/)
  })
})

describe('a volume', () => {
  const copy = { do: 'copy-volume', from: 'pv', uid: 'pv-uid', name: 'espalier-claim-1', owner }
  const back = (claimUid: string) => ({
    ...{ do: 'change-volume', name: 'pv', uid: 'pv-uid', change: { to: 'give-back', claimUid } },
  })
  const going = volumeOf({ isTerminating: true })
  const set = of('statefulSets', object('StatefulSet'))

  test('whose own object is being deleted gets a second object before the pod is deleted', () => {
    expect(step(teardownOf({ owned: { ...set, volumes: [going] } }))).toEqual(is(40, copy))
  })
  test('is copied from its state in the cluster, if a cache does not have its retention yet', () => {
    const { status } = reconciled.instance
    const instance = {
      ...reconciled.instance,
      status: { ...status, volume: { claim: 'claim', uid: 'claim-1', systemIdentifier: '1' } },
    }
    const owned = { ...nothing, ...set, volumes: [volumeOf({ isTerminating: true, policyBefore: undefined })] }
    const volumes = { bound: going, recorded: going, copy: undefined }
    expect(step(teardown({ ...reconciled, instance, owned, volumes, route: closed }, owner, now))).toEqual(is(40, copy))
  })
  test.each<[string, VolumeFacts[], Given['record']]>([
    ['that already has a second object', [going, volumeOf({ name: 'espalier-claim-1' })], { uid: 'claim-1' }],
    ['that remains', [volumeOf()], { uid: 'claim-1' }],
    [
      'that the operator never retained',
      [volumeOf({ isTerminating: true, policyBefore: undefined })],
      { uid: 'claim-1' },
    ],
    ['of another claim', [volumeOf({ isTerminating: true, claimUid: 'claim-9' })], { uid: 'claim-1' }],
  ])('%s gets no second object', (_, volumes, record) => {
    expect(step(teardownOf({ owned: { ...set, volumes }, record }))).toEqual(is(50, deletion('StatefulSet')))
  })
  test('of an orphaned database gets no second object', () => {
    const unowned = teardownOf({ owned: { ...set, volumes: [going] }, route: undefined as never }, undefined, false)
    expect(unowned.progress).toBe(50)
  })
  test('that was retained and is being deleted delays later steps, and so does its second object', () => {
    const copied = volumeOf({ name: 'espalier-claim-1', uid: 'copy-uid' })
    expect(step(teardownOf({ owned: { volumes: [going, copied] } }))).toEqual(is(75))
    expect(step(teardownOf({ owned: { volumes: [copied] } })).progress).toBe(80)
  })
  test("that was retained gets its class's reclaim policy back after its claim is deleted", () => {
    const claims = of('claims', object('PersistentVolumeClaim'))
    expect(step(teardownOf({ owned: { ...claims, volumes: [volumeOf()] } })).progress).toBe(70)
    expect(step(teardownOf({ owned: { volumes: [volumeOf()] } }))).toEqual(is(80, back('claim-1')))
  })
  test('that is not recorded gets no second object', () => {
    const observed = { ...reconciled, instance: { ...reconciled.instance, status: {} }, route: closed }
    const owned = { ...nothing, ...set, volumes: [volumeOf({ isTerminating: true, claimUid: undefined })] }
    expect(step(teardown({ ...observed, owned }, owner, now))).toEqual(is(50, deletion('StatefulSet')))
  })
  test('that is not recorded is reserved again for the claim of its database', () => {
    const observed = { ...reconciled, instance: { ...reconciled.instance, status: {} } }
    const planned = teardown({ ...observed, owned: { ...nothing, volumes: [volumeOf()] }, route: closed }, owner, now)
    expect(planned.actions).toEqual([back(reconciled.instance.metadata.uid ?? '')])
  })
  test.each<[string, VolumeFacts]>([
    ['that the operator never retained', volumeOf({ policyBefore: undefined })],
    ['that its storage driver deletes', volumeOf({ policyBefore: undefined, isTerminating: true })],
  ])('%s is not changed', (_, volume) => {
    expect(step(teardownOf({ owned: { volumes: [volume] } }))).toEqual(is(95))
  })
  test("is deleted before the database's copies, and these before the credentials", () => {
    const copies = () => ({ actions: [], message: 'copies', progress: 85 })
    const secrets = of('secrets', object('Secret'))
    expect(teardownOf({ owned: secrets }, copies).message).toBe('copies')
    expect(teardownOf({ owned: { ...secrets, volumes: [volumeOf()] } }, copies).progress).toBe(80)
    expect(teardownOf({ owned: secrets }, () => undefined).progress).toBe(90)
  })
})
