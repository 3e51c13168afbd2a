/**
 * The first steps of a pass: identification, finalizer, keys, owner annotations, deletion and expiry. Also the status
 * and the operation.
 */
import { describe, expect, test } from 'vitest'
import type { AnyObject } from '../../../cluster/index.ts'
import { annotatedOperation, annotations, type Task } from '../../../crds/index.ts'
import { preciseTime } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { ownerUidAnnotation } from '../../objects/ownership.ts'
import { type GivenBranch, reconciledBranch } from '../../testing/reconciled-branch.ts'
import type { Observed } from '../observed.ts'

const { now, ago, id, root, status: reconciled, observedOf, planOf } = reconciledBranch()
const serving = observedOf()
const { service, claim } = serving.children
if (service === undefined || claim === undefined) throw new Error('the branch has no Service or claim')

const does = (given: GivenBranch) =>
  planOf(given).actions.map(action => ('kind' in action ? `${action.do} ${action.kind}` : action.do))
const reasonOf = (given: GivenBranch, type: string) => conditionOf(planOf(given).status, type)?.reason

const nothing = { awaitsPostgres: false, awaitsGateways: false, configurationDigest: undefined }
const deleted: GivenBranch['metadata'] = { deletionTimestamp: ago(1_000) }
const requested: GivenBranch['spec'] = { deletionRequestedAt: ago(1_000) }
const unheld: GivenBranch['metadata'] = { finalizers: [] }
const failedCreation: GivenBranch['status'] = { phase: 'failed', connectableAt: undefined }
const ended = { status: { phase: 'succeeded', finishedAt: ago(0) } } as Task // only these fields are read

/**
 * A branch with one object that lacks the owner annotation. `isChild`: whether the object is in `children`. The plan
 * adds owner annotations to all objects, and makes other changes only to the objects in `children`.
 */
function unlabelled(object: AnyObject, field: 'services' | 'claims', isChild: boolean, more: object = {}): GivenBranch {
  const { owned, children } = serving
  const other: AnyObject = { ...object, metadata: { ...object.metadata, annotations: {}, uid: 'unlabelled', ...more } }
  const child = field === 'services' ? 'service' : 'claim'
  return {
    rest: {
      owned: { ...owned, [field]: isChild ? [other] : [...owned[field], other] },
      children: isChild ? { ...children, [child]: other } : children,
    },
  }
}
const reference = {
  ownerReferences: [{ apiVersion: 'espalier.dev/v1alpha1', kind: 'ManagedDatabase', name: 'o', uid: 'o' }],
}
const both = (left: GivenBranch, right: GivenBranch): GivenBranch => ({
  metadata: { ...left.metadata, ...right.metadata },
  spec: { ...left.spec, ...right.spec },
  status: { ...left.status, ...right.status },
  rest: { ...left.rest, ...right.rest },
})

const nothingRemaining = Object.fromEntries(Object.keys(serving.owned).map(field => [field, []])) as never

describe('a branch', () => {
  test('whose objects are all applied needs no action', () => {
    expect(planOf()).toEqual({
      ...{ actions: [], status: reconciled, requeueAt: undefined, awaitsPostgres: false, awaitsGateways: false },
      configurationDigest: expect.any(String),
    })
  })
  test.each<[string, GivenBranch]>([
    ['has no finalizer', { metadata: unheld }],
    ['has only a foreign finalizer', { metadata: { finalizers: ['other'] } }],
    ['never had a finalizer', { metadata: { finalizers: undefined } }],
  ])('that %s gets id and finalizer before anything is created', (_, given) => {
    expect(planOf(given)).toEqual({
      ...nothing,
      actions: [{ do: 'identify', id }],
      status: reconciled,
      requeueAt: undefined,
    })
  })
  test('without an id gets the id of its children', () => {
    const identity: Observed['identity'] = { state: 'unsettled', id: 'lost', why: 'label' }
    expect(planOf({ rest: { identity } }).actions).toEqual([{ do: 'identify', id: 'lost' }])
    expect(planOf({ rest: { identity }, metadata: unheld }).actions).toEqual([{ do: 'identify', id: 'lost' }])
  })
  test('is not changed while its id is contested', () => {
    const contested: GivenBranch = { rest: { identity: { state: 'contested', why: 'two have it' } } }
    expect(planOf(contested)).toMatchObject({ ...nothing, actions: [], requeueAt: undefined })
    expect(planOf(contested).status.phase).toBe('available')
    for (const type of ['Ready', 'VolumeReady'])
      expect(conditionOf(planOf(contested).status, type)).toMatchObject({
        ...{ status: 'False', reason: 'IdContested', message: 'two have it' },
      })
    expect(planOf({ ...contested, status: { phase: undefined } }).status.phase).toBe('creating')
  })
  test.each<[string, GivenBranch, string[]]>([
    [
      'needs no action if it is being deleted and has no finalizer of the operator',
      { metadata: { ...deleted, ...unheld } },
      [],
    ],
    [
      'needs no action if its creation failed and its finalizer is removed',
      { metadata: unheld, status: failedCreation, rest: { owned: nothingRemaining } },
      [],
    ],
    [
      'is cleaned up, and is not created again, if its creation failed',
      { status: failedCreation },
      ['apply ConfigMap'],
    ],
    [
      'without services closes its endpoint first if its deletion is requested',
      { spec: requested },
      ['apply ConfigMap'],
    ],
    ['without services closes its endpoint first if kubectl deletes it', { metadata: deleted }, ['apply ConfigMap']],
    [
      'without services closes its endpoint first if it is deleted after a failed creation',
      { metadata: deleted, status: failedCreation },
      ['apply ConfigMap'],
    ],
  ])('%s', (_, given, expected) => {
    expect(does(given)).toEqual(expected)
  })
  test('has the phase deleting during a deletion, even after a failure', () => {
    expect(planOf({ spec: requested }).status.phase).toBe('deleting')
    expect(planOf({ spec: requested, status: failedCreation }).status.phase).toBe('deleting')
    expect(planOf({ status: failedCreation }).status.phase).toBe('failed')
  })
  test('keeps its status if its creation failed and it has no finalizer; only `operation` is removed when its Task ends', () => {
    const operation = { taskId: 't', name: 'create-branch' as const, startedAt: ago(0) }
    const record = { metadata: unheld, status: { ...failedCreation, operation } }
    expect(planOf(record).status.operation).toEqual(operation)
    expect(planOf({ ...record, rest: { task: ended } }).status.operation).toBeUndefined()
  })
  test('is not deleted if it served before it failed', () => {
    expect(does({ status: { phase: 'failed' } })).toEqual([])
    expect(planOf({ status: { phase: 'failed' } }).status.phase).toBe('available')
  })

  describe('without the sealing key', () => {
    const without: GivenBranch = { rest: { keys: { ...serving.keys, sealingKey: false } } }
    test('is not changed, and reports the missing key', () => {
      expect(planOf(without)).toMatchObject({ ...nothing, actions: [], requeueAt: undefined })
      expect(reasonOf(without, 'KeysAvailable')).toBe('SealingKeyMissing')
      expect(planOf(without).status.phase).toBe('available')
      expect(planOf({ ...without, status: { phase: undefined } }).status.phase).toBe('creating')
      expect(planOf(both(without, { spec: requested })).actions).toEqual([])
    })
    test('removes owner references from its children, and changes nothing else', () => {
      const labelActions = (given: GivenBranch) => does(both(given, { rest: { ...without.rest, ...given.rest } }))
      expect(labelActions(unlabelled(service, 'services', true, reference))).toEqual(['label Service'])
      expect(labelActions(unlabelled(service, 'services', true))).toEqual([])
      const stray = unlabelled(claim, 'claims', true, reference)
      expect(labelActions(both(stray, { status: { volume: undefined }, spec: requested }))).toEqual([])
    })
  })
})

describe('owner annotations', () => {
  test('of an object in `children` are fixed before anything else', () => {
    for (const more of [{}, reference]) {
      const given = both(unlabelled(service, 'services', true, more), { status: { phase: 'creating' } })
      expect(does(given)).toEqual(['label Service'])
      expect(planOf(given).status).toEqual({ ...reconciled, phase: 'creating' })
    }
  })
  test('of other objects are fixed in the same pass as other actions', () => {
    expect(does(unlabelled(service, 'services', false))).toEqual(['label Service'])
    expect(planOf(unlabelled(service, 'services', false)).configurationDigest).toBeDefined()
    const unlabelledService = both(unlabelled(service, 'services', true), {})
    const { owned } = unlabelledService.rest ?? {}
    const other = { ...service, metadata: { ...service.metadata, name: 'other', uid: 'other', annotations: {} } }
    const rest = {
      ...unlabelledService.rest,
      owned: { ...serving.owned, ...owned, services: [...(owned?.services ?? []), other] },
    }
    expect(planOf({ rest }).actions.map(action => action.do === 'label' && action.object.metadata.uid)).toEqual([
      'unlabelled',
      'other',
    ])
  })
  test('of a claim are fixed only during a deletion or cleanup, unless `status.volume` records the claim', () => {
    const stray = both(unlabelled(claim, 'claims', true, { annotations: { [ownerUidAnnotation]: 'another' } }), {
      status: { ...failedCreation, volume: undefined },
    })
    const creating = both(stray, { status: { phase: 'creating' } })
    expect(does(creating)).not.toContain('label PersistentVolumeClaim')
    expect(does(both(creating, { spec: requested }))).toEqual(['label PersistentVolumeClaim'])
    expect(does(stray)).toEqual(['label PersistentVolumeClaim'])
  })
})

describe('the expiry of a branch', () => {
  const at = (ms: number) => ({ spec: { expiresAt: new Date(now + ms).toISOString() } })
  test('requests the deletion at `spec.expiresAt`, and not before', () => {
    expect(planOf(at(0))).toEqual({
      ...{ ...nothing, status: reconciled, requeueAt: undefined },
      actions: [{ do: 'request-deletion', at: preciseTime(now) }],
    })
    expect(planOf(at(1))).toMatchObject({ actions: [], requeueAt: now + 1 })
  })
  test('sets the time of the next pass if nothing else is due earlier', () => {
    const node = { name: 'n', silentSince: ago(1_000), isOutOfService: false }
    expect(planOf({ ...at(60_000), rest: { node } }).requeueAt).toBe(now + 30_000)
    expect(planOf({ ...at(10_000), rest: { node } }).requeueAt).toBe(now + 10_000)
  })
  test('does nothing during a deletion', () => {
    expect(does(both(at(0), { spec: requested }))).toEqual(['apply ConfigMap'])
  })
})

describe('the status', () => {
  test("records the volume before any action if the claim's annotations describe the volume", () => {
    const proven = { ...claim, metadata: { ...claim.metadata } }
    const given: GivenBranch = {
      status: { volume: undefined },
      rest: { children: { ...serving.children, claim: proven } },
    }
    const { status, actions } = planOf(given)
    expect(status.volume).toEqual(reconciled.volume)
    expect([actions, status.incarnation]).toEqual([[], 1])
  })
  test('with only a source, or only a volume, prevents a second copy', () => {
    const rest = { source: root, children: { ...serving.children, claim: undefined } }
    const copies = (status: GivenBranch['status']) => does({ status, rest }).includes('create-backup')
    const { source } = reconciled
    expect(copies({ source: undefined, volume: undefined })).toBe(true)
    expect(copies({ source, volume: undefined })).toBe(false)
    expect(copies({ source: undefined })).toBe(false)
  })
})

describe('the operation', () => {
  const taskId = '018f3c6e-7b1a-7c3d-8e4f-0123456789ab'
  const annotated = (name: string) => ({
    [annotations.operation]: JSON.stringify({ taskId, name, hash: 'h' }),
  })
  const uid = serving.branch.metadata.uid
  const ofStatus = (given: GivenBranch) => planOf(both({ spec: requested }, given)).status.operation
  test('has the Task id that the API requested; for another client, the operator derives the id', () => {
    expect(annotatedOperation({ metadata: { name: 'x', annotations: annotated('delete-branch') } })).toBeDefined()
    expect(ofStatus({ metadata: { annotations: annotated('delete-branch') } })).toEqual({
      ...{ taskId, name: 'delete-branch', startedAt: ago(0) },
    })
    const own = { taskId: derivedId(`${uid}/delete-branch`), name: 'delete-branch', startedAt: ago(0) }
    expect(ofStatus({ metadata: { annotations: annotated('create-branch') } })).toEqual(own)
    expect(ofStatus({})).toEqual(own)
  })
  test('stays the same until another operation is requested', () => {
    const operation = { taskId: 'mine', name: 'delete-branch' as const, startedAt: ago(9_000) }
    expect(ofStatus({ status: { operation } })).toEqual(operation)
    const created = { ...operation, name: 'create-branch' as const }
    expect(ofStatus({ status: { operation: created } })?.name).toBe('delete-branch')
  })
})
