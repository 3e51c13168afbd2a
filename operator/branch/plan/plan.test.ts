/** What comes first in a pass over a branch: whose it is, whether it goes, and what must not be touched meanwhile. */
import { describe, expect, test } from 'vitest'
import type { AnyObject } from '../../../cluster/index.ts'
import { annotatedOperation, annotations, type Task } from '../../../crds/index.ts'
import { preciseTime } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { ownerUidAnnotation } from '../../objects/ownership.ts'
import { type GivenBranch, settledBranch } from '../../testing/settled-branch.ts'
import type { Observed } from '../observed.ts'

const { now, ago, id, root, status: settled, observedOf, planOf } = settledBranch()
const serving = observedOf()
const { service, claim } = serving.children
if (service === undefined || claim === undefined) throw new Error('it serves')

const does = (given: GivenBranch) =>
  planOf(given).actions.map(action => ('kind' in action ? `${action.do} ${action.kind}` : action.do))
const reasonOf = (given: GivenBranch, type: string) => conditionOf(planOf(given).status, type)?.reason

const nothing = { awaitsPostgres: false, awaitsGateways: false, configurationDigest: undefined }
const gone: GivenBranch['metadata'] = { deletionTimestamp: ago(1_000) }
const asked: GivenBranch['spec'] = { deletionRequestedAt: ago(1_000) }
const unheld: GivenBranch['metadata'] = { finalizers: [] }
const unmade: GivenBranch['status'] = { phase: 'failed', connectableAt: undefined }
const ended = { status: { phase: 'succeeded', finishedAt: ago(0) } } as Task // which is all that is looked at

/** With one object, of those found of it, that nobody has marked; `isChild`: it is one that work is done on. */
function unmarked(object: AnyObject, field: 'services' | 'claims', isChild: boolean, more: object = {}): GivenBranch {
  const { remains, children } = serving
  const other: AnyObject = { ...object, metadata: { ...object.metadata, annotations: {}, uid: 'unmarked', ...more } }
  const child = field === 'services' ? 'service' : 'claim'
  return {
    rest: {
      remains: { ...remains, [field]: isChild ? [other] : [...remains[field], other] },
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

const nothingLeft = Object.fromEntries(Object.keys(serving.remains).map(field => [field, []])) as never

describe('a branch', () => {
  test('that has all that was asked is left alone', () => {
    expect(planOf()).toEqual({
      ...{ actions: [], status: settled, wakeAt: undefined, awaitsPostgres: false, awaitsGateways: false },
      configurationDigest: expect.any(String),
    })
  })
  test.each<[string, GivenBranch]>([
    ['is not held', { metadata: unheld }],
    ['is not held by us', { metadata: { finalizers: ['other'] } }],
    ['was never held', { metadata: { finalizers: undefined } }],
  ])('that %s is given its id and held before anything is made', (_, given) => {
    expect(planOf(given)).toEqual({ ...nothing, actions: [{ do: 'identify', id }], status: settled, wakeAt: undefined })
  })
  test('whose id is lost gets the one that its children say', () => {
    const identity: Observed['identity'] = { state: 'unsettled', id: 'lost', why: 'label' }
    expect(planOf({ rest: { identity } }).actions).toEqual([{ do: 'identify', id: 'lost' }])
    expect(planOf({ rest: { identity }, metadata: unheld }).actions).toEqual([{ do: 'identify', id: 'lost' }])
  })
  test('whose id another has is not touched before somebody has said whose the data are', () => {
    const contested: GivenBranch = { rest: { identity: { state: 'contested', why: 'two have it' } } }
    expect(planOf(contested)).toMatchObject({ ...nothing, actions: [], wakeAt: undefined })
    expect(planOf(contested).status.phase).toBe('available')
    for (const type of ['Ready', 'VolumeReady'])
      expect(conditionOf(planOf(contested).status, type)).toMatchObject({
        ...{ status: 'False', reason: 'IdContested', message: 'two have it' },
      })
    expect(planOf({ ...contested, status: { phase: undefined } }).status.phase).toBe('creating')
  })
  test.each<[string, GivenBranch, string[]]>([
    ['is let go by us is left to others', { metadata: { ...gone, ...unheld } }, []],
    [
      'came to nothing and is let go is a record only',
      { metadata: unheld, status: unmade, rest: { remains: nothingLeft } },
      [],
    ],
    ['came to nothing is cleared, and is made no more', { status: unmade }, ['apply ConfigMap']],
    ['goes is closed first', { spec: asked }, ['apply ConfigMap']],
    ['is deleted as well', { metadata: gone }, ['apply ConfigMap']],
    ['came to nothing and is deleted goes', { metadata: gone, status: unmade }, ['apply ConfigMap']],
  ])('that %s', (_, given, expected) => {
    expect(does(given)).toEqual(expected)
  })
  test('that goes says so, also where nothing came of it', () => {
    expect(planOf({ spec: asked }).status.phase).toBe('deleting')
    expect(planOf({ spec: asked, status: unmade }).status.phase).toBe('deleting')
    expect(planOf({ status: unmade }).status.phase).toBe('failed')
  })
  test('that is a record says no more, but that its Task has ended', () => {
    const operation = { taskId: 't', name: 'create-branch' as const, startedAt: ago(0) }
    const record = { metadata: unheld, status: { ...unmade, operation } }
    expect(planOf(record).status.operation).toEqual(operation)
    expect(planOf({ ...record, rest: { task: ended } }).status.operation).toBeUndefined()
  })
  test('that served and failed since is not over', () => {
    expect(does({ status: { phase: 'failed' } })).toEqual([])
    expect(planOf({ status: { phase: 'failed' } }).status.phase).toBe('available')
  })

  describe('without a key', () => {
    const without: GivenBranch = { rest: { keys: { ...serving.keys, sealingKey: false } } }
    test('is not touched, and says so', () => {
      expect(planOf(without)).toMatchObject({ ...nothing, actions: [], wakeAt: undefined })
      expect(reasonOf(without, 'KeysAvailable')).toBe('SealingKeyMissing')
      expect(planOf(without).status.phase).toBe('available')
      expect(planOf({ ...without, status: { phase: undefined } }).status.phase).toBe('creating')
      expect(planOf(both(without, { spec: asked })).actions).toEqual([])
    })
    test('has references taken off what it stands on, and nothing else', () => {
      const marks = (given: GivenBranch) => does(both(given, { rest: { ...without.rest, ...given.rest } }))
      expect(marks(unmarked(service, 'services', true, reference))).toEqual(['mark Service'])
      expect(marks(unmarked(service, 'services', true))).toEqual([])
      const stray = unmarked(claim, 'claims', true, reference)
      expect(marks(both(stray, { status: { volume: undefined }, spec: asked }))).toEqual([])
    })
  })
})

describe('whose its children are', () => {
  test('is set right before anything else is done or said', () => {
    for (const more of [{}, reference]) {
      const given = both(unmarked(service, 'services', true, more), { status: { phase: 'creating' } })
      expect(does(given)).toEqual(['mark Service'])
      expect(planOf(given).status).toEqual({ ...settled, phase: 'creating' })
    }
  })
  test('is set right beside the rest where no work is done on them', () => {
    expect(does(unmarked(service, 'services', false))).toEqual(['mark Service'])
    expect(planOf(unmarked(service, 'services', false)).configurationDigest).toBeDefined()
    const pressing = both(unmarked(service, 'services', true), {})
    const { remains } = pressing.rest ?? {}
    const other = { ...service, metadata: { ...service.metadata, name: 'other', uid: 'other', annotations: {} } }
    const rest = {
      ...pressing.rest,
      remains: { ...serving.remains, ...remains, services: [...(remains?.services ?? []), other] },
    }
    expect(planOf({ rest }).actions.map(action => action.do === 'mark' && action.object.metadata.uid)).toEqual([
      'unmarked',
      'other',
    ])
  })
  test('of a strange claim is known by the record alone, but where all goes', () => {
    const stray = both(unmarked(claim, 'claims', true, { annotations: { [ownerUidAnnotation]: 'another' } }), {
      status: { ...unmade, volume: undefined },
    })
    const creating = both(stray, { status: { phase: 'creating' } })
    expect(does(creating)).not.toContain('mark PersistentVolumeClaim')
    expect(does(both(creating, { spec: asked }))).toEqual(['mark PersistentVolumeClaim'])
    expect(does(stray)).toEqual(['mark PersistentVolumeClaim'])
  })
})

describe('the time of a branch', () => {
  const at = (ms: number) => ({ spec: { expiresAt: new Date(now + ms).toISOString() } })
  test('is over when that comes, and not before', () => {
    expect(planOf(at(0))).toEqual({
      ...{ ...nothing, status: settled, wakeAt: undefined },
      actions: [{ do: 'request-deletion', at: preciseTime(now) }],
    })
    expect(planOf(at(1))).toMatchObject({ actions: [], wakeAt: now + 1 })
  })
  test('is looked at no later than anything else', () => {
    const node = { name: 'n', silentSince: ago(1_000), isOutOfService: false }
    expect(planOf({ ...at(60_000), rest: { node } }).wakeAt).toBe(now + 30_000)
    expect(planOf({ ...at(10_000), rest: { node } }).wakeAt).toBe(now + 10_000)
  })
  test('is none for one that goes already', () => {
    expect(does(both(at(0), { spec: asked }))).toEqual(['apply ConfigMap'])
  })
})

describe('what is on record', () => {
  test('of a volume that its claim knows comes first', () => {
    const proven = { ...claim, metadata: { ...claim.metadata } }
    const given: GivenBranch = {
      status: { volume: undefined },
      rest: { children: { ...serving.children, claim: proven } },
    }
    const { status, actions } = planOf(given)
    expect(status.volume).toEqual(settled.volume)
    expect([actions, status.incarnation]).toEqual([[], 1])
  })
  test('of the source or of the volume alone is enough: nothing is copied again', () => {
    const rest = { source: root, children: { ...serving.children, claim: undefined } }
    const copies = (status: GivenBranch['status']) => does({ status, rest }).includes('create-backup')
    const { source } = settled
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
  const ofStatus = (given: GivenBranch) => planOf(both({ spec: asked }, given)).status.operation
  test('is that of the API where it asked for this, and one of its own where not', () => {
    expect(annotatedOperation({ metadata: { name: 'x', annotations: annotated('delete-branch') } })).toBeDefined()
    expect(ofStatus({ metadata: { annotations: annotated('delete-branch') } })).toEqual({
      ...{ taskId, name: 'delete-branch', startedAt: ago(0) },
    })
    const own = { taskId: derivedId(`${uid}/delete-branch`), name: 'delete-branch', startedAt: ago(0) }
    expect(ofStatus({ metadata: { annotations: annotated('create-branch') } })).toEqual(own)
    expect(ofStatus({})).toEqual(own)
  })
  test('stays the one that it is, until another is asked for', () => {
    const operation = { taskId: 'mine', name: 'delete-branch' as const, startedAt: ago(9_000) }
    expect(ofStatus({ status: { operation } })).toEqual(operation)
    const created = { ...operation, name: 'create-branch' as const }
    expect(ofStatus({ status: { operation: created } })?.name).toBe('delete-branch')
  })
})
