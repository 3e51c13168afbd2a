/** Which size a database has, what is said of one that it has not, and when it gets it. */

import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim, StatefulSet } from '../../../../cluster/index.ts'
import type { Size } from '../../../../crds/index.ts'
import { type Given, settledDatabase } from '../../../testing/settled.ts'
import type { Observed } from '../../../workload/observed.ts'
import type { GrowthRefusal } from '../../observed.ts'
import { appliedSizeOf } from '../applied-size.ts'
import { sizeAnnotation } from '../stateful-set.ts'
import { comesIntoForce, recordedSize, type SizeState, sizeFinding, sizeState } from './size.ts'

const { children, observedOf } = settledDatabase()
const { claim, statefulSet } = children
const { size: smallSize } = observedOf()
if (smallSize === undefined) throw new Error('there is a size')
const at = '2026-01-01T00:00:00Z'
const small = { name: 'small', version: 1 }
const large = { name: 'large', version: 1 }
const sizeOf = (name: string, storageSize: string, status: Size['spec']['status'] = 'active'): Size => ({
  ...smallSize,
  spec: { ...smallSize.spec, name, status, shape: { ...smallSize.spec.shape, storageSize } },
})
const largeSize = sizeOf('large', '2Gi')

type Told = { asks?: string; has?: string; phase?: string; conditions?: string[]; given?: string; metadata?: object }
const claimOf = ({
  asks = '2Gi',
  has = '1Gi',
  phase = 'Bound',
  conditions = [],
  given,
  metadata,
}: Told): PersistentVolumeClaim => ({
  ...claim,
  metadata: { ...claim.metadata, ...metadata },
  spec: { ...claim.spec, resources: { requests: { storage: asks } } },
  status: {
    phase,
    capacity: { storage: has },
    conditions: conditions.map(type => ({ type, status: 'True', message: 'the pool is full' })),
    ...(given ? { allocatedResourceStatuses: { storage: given } } : {}),
  },
})
/** The large size is asked for, and the small one in force. */
const asking = (told: Told, given: Given = {}): Given => ({
  ...given,
  spec: { size: large, ...given.spec },
  children: { claim: claimOf(told), ...given.children },
  rest: { size: largeSize, ...given.rest },
})
const refusal: GrowthRefusal = {
  claim: claim.metadata.uid ?? '',
  storage: '2Gi',
  message: 'quota',
  retryAt: 0,
  isDue: false,
}
const [grown, growing] = [{ has: '2Gi' }, {}]
const lagging = { has: '2Gi', conditions: ['FileSystemResizePending'] }
const resting: Given = { spec: { suspended: true, size: large }, pod: undefined }

describe('the applied size', () => {
  const templateOf = (size: string | undefined): StatefulSet => ({
    ...statefulSet,
    spec: {
      ...(statefulSet.spec as NonNullable<StatefulSet['spec']>),
      template: { metadata: { annotations: size === undefined ? {} : { [sizeAnnotation]: size } } },
    },
  })
  const { instance } = observedOf({ spec: { size: large } })
  const unrecorded = { ...instance, status: { ...instance.status, size: undefined } }
  const running = { address: '10.0.0.1', terminating: false }

  test.each<[string, string | undefined, unknown]>([
    ['is that of the pod that runs', 'medium-v12', { name: 'medium', version: 12 }],
    ['has a version at its end', 'a-v1-v2', { name: 'a-v1', version: 2 }],
    ['is not what says no version', 'medium', small],
    ['is not what says no name', '-v1', small],
    ['is not what says no version that there is', 'medium-v0', small],
    ['is not what says more than a version', 'medium-v1x', small],
    ['is as on record where the pod says none', undefined, small],
  ])('%s', (_, size, expected) => {
    expect(appliedSizeOf(instance, templateOf('other-v1'), { ...running, size })).toEqual(expected)
  })
  test('is the recorded one if no pod runs', () => {
    const size = 'medium-v1'
    expect(appliedSizeOf(instance, templateOf('other-v1'), undefined)).toEqual(small)
    expect(appliedSizeOf(instance, templateOf('other-v1'), { ...running, size, address: undefined })).toEqual(small)
    expect(appliedSizeOf(instance, templateOf('other-v1'), { ...running, size, terminating: true })).toEqual(small)
  })
  test('without a record is the one of the template, and without a template the requested one', () => {
    expect(appliedSizeOf(unrecorded, templateOf('other-v1'), undefined)).toEqual({ name: 'other', version: 1 })
    expect(appliedSizeOf(unrecorded, templateOf(undefined), undefined)).toEqual(large)
    expect(appliedSizeOf(unrecorded, undefined, undefined)).toEqual(large)
    expect(appliedSizeOf({ ...instance, status: undefined }, undefined, undefined)).toEqual(large)
  })
})

describe('a requested size', () => {
  const stateOf = (given: Given) => sizeState(observedOf(given))
  const applied = { effective: large, shape: largeSize.spec.shape, hindrance: undefined }

  test.each<[string, Given]>([
    ['once the volume has grown', asking(grown)],
    ['where the volume is large enough', asking({ asks: '4Gi', has: '4Gi' })],
    [
      'where a volume is yet to be made',
      asking(
        {},
        {
          status: { volume: undefined },
          pod: { address: undefined },
          children: { claim: claimOf({ asks: '1Gi', phase: 'Pending' }) },
        },
      ),
    ],
    [
      'where a claim is yet to be made',
      asking({}, { status: { volume: undefined }, pod: undefined, children: { claim: undefined } }),
    ],
  ])('is applied as a whole %s', (_, given) => {
    expect(stateOf(given)).toMatchObject(applied)
    expect(stateOf(given).shortfall).toBeUndefined()
  })

  test('is applied, without a condition', () => {
    expect(stateOf({})).toEqual({
      effective: small,
      shape: smallSize.spec.shape,
      hindrance: undefined,
      shortfall: undefined,
    })
    expect(stateOf({ rest: { size: undefined } })).toMatchObject({
      effective: small,
      shape: undefined,
      hindrance: undefined,
    })
  })
  test('is kept by a database that has it after it is retired', () => {
    expect(stateOf({ rest: { size: sizeOf('small', '1Gi', 'retired') } })).toMatchObject({
      effective: small,
      hindrance: undefined,
    })
  })
  test('is applied, with what its volume lacks', () => {
    expect(stateOf({ rest: { size: sizeOf('small', '2Gi') } })).toMatchObject({
      effective: small,
      hindrance: undefined,
      shortfall: { reason: 'Growing', passes: true, isAsked: true },
    })
  })

  test.each<[string, Given, NonNullable<SizeState['hindrance']>]>([
    [
      'there is none of its name',
      asking({}, { rest: { size: undefined } }),
      {
        reason: 'SizeNotFound',
        message: 'spec.size: there is no size large-v1: `kubectl get sizes` lists those there are, as NAME-vVERSION',
        passes: false,
      },
    ],
    [
      'it is retired',
      asking(grown, { rest: { size: sizeOf('large', '2Gi', 'retired') } }),
      { reason: 'SizeRetired', message: 'spec.size: large-v1 is retired: no other database gets it', passes: false },
    ],
    [
      'the volume is not there',
      asking({}, { children: { claim: undefined } }),
      { reason: 'Growing', message: 'the volume is not there', passes: true },
    ],
    [
      'the volume has not been asked to grow',
      asking({ asks: '1Gi' }),
      { reason: 'Growing', message: 'the volume grows from 1Gi to 2Gi', passes: true, isAsked: true },
    ],
    [
      'the volume grows',
      asking(growing),
      { reason: 'Growing', message: 'the volume grows from 1Gi to 2Gi', passes: true },
    ],
    [
      'the volume grows, also of one that rests',
      asking(growing, resting),
      { reason: 'Growing', message: 'the volume grows from 1Gi to 2Gi', passes: true },
    ],
    ['the file system grows', asking(lagging), { reason: 'Growing', message: 'the file system grows', passes: true }],
    [
      'the file system grows when a pod comes',
      asking(lagging, resting),
      { reason: 'AwaitsResume', message: 'the volume grows when the database is resumed', passes: true },
    ],
    [
      'the file system grows under the last of its pods',
      asking(lagging, { spec: { suspended: true } }),
      { reason: 'Growing', message: 'the file system grows', passes: true },
    ],
    [
      'the file system grows under the next of its pods',
      asking(lagging, { pod: undefined }),
      { reason: 'Growing', message: 'the file system grows', passes: true },
    ],
    [
      'the claim is yet to prove its own',
      asking(growing, { rest: { isOrphanClaim: true } }),
      { reason: 'Growing', message: 'the volume is to prove the one of this database first', passes: true },
    ],
    [
      'the claim is to prove its own when a pod comes',
      asking(growing, { ...resting, rest: { isOrphanClaim: true } }),
      { reason: 'AwaitsResume', message: 'the volume grows when the database is resumed', passes: true },
    ],
    [
      'the driver fails',
      asking({ conditions: ['ControllerResizeError'] }),
      { reason: 'GrowthFailing', message: 'the volume does not grow: the pool is full', passes: true },
    ],
    [
      'the growth is refused',
      asking({ asks: '1Gi' }, { rest: { growthRefusal: refusal } }),
      { reason: 'GrowthRefused', message: 'the volume must not grow: quota', passes: false },
    ],
    [
      'the growth is impossible',
      asking({ given: 'ControllerResizeInfeasible' }),
      {
        reason: 'GrowthInfeasible',
        message:
          'the volume cannot grow: the storage driver says ControllerResizeInfeasible; `kubectl describe pvc db-5e1d9a523f0e4b43-1-data` tells more',
        passes: false,
      },
    ],
  ])('changes nothing if %s', (_, given, hindrance) => {
    expect(stateOf(given)).toEqual({ effective: small, shape: smallSize.spec.shape, hindrance })
  })

  test('that is unknown keeps an applied one that is unknown', () => {
    const appliedSize = { pinned: small, size: undefined }
    expect(stateOf(asking(growing, { rest: { appliedSize } }))).toMatchObject({ effective: small, shape: undefined })
  })
  test('is another one if only its version differs', () => {
    const given = asking(growing, { spec: { size: { name: 'small', version: 2 } } })
    expect(stateOf(given).effective).toEqual(small)
  })
})

describe('the recorded size', () => {
  const recorded = (given: Given, { effective = large, isPrepared = true } = {}) =>
    recordedSize(observedOf(given), { effective, shape: undefined, hindrance: undefined }, isPrepared)

  test.each<[string, Given, { effective?: typeof small; isPrepared?: boolean }, typeof small | undefined]>([
    ['is that of the pod, once it has it', { spec: { size: large }, pod: { size: 'large-v1' } }, {}, large],
    ['stays until the pod has another', { spec: { size: large } }, {}, small],
    ['stays while that pod ends', { spec: { size: large }, pod: { size: 'large-v1', terminating: true } }, {}, small],
    ['stays while there is no pod', { spec: { size: large }, pod: undefined }, {}, small],
    ['is another at rest once what is to run has it', resting, {}, large],
    ['stays at rest before that', resting, { isPrepared: false }, small],
    ['stays while a pod is yet to stop', { spec: { suspended: true, size: large } }, {}, small],
    [
      'is none before the first volume',
      { status: { volume: undefined }, pod: undefined, children: { claim: claimOf({ phase: 'Pending' }) } },
      {},
      undefined,
    ],
    [
      'is none before a pod has the first',
      { status: { size: undefined }, spec: { size: large }, pod: undefined },
      {},
      undefined,
    ],
    [
      'is what an older operator gave it and has not recorded',
      { status: { size: undefined }, spec: { size: large }, pod: undefined },
      { effective: small },
      small,
    ],
  ])('%s', (_, given, state, expected) => {
    expect(recorded(given, state)).toEqual(expected)
  })
})

describe('the message about another size', () => {
  const hindrance: NonNullable<SizeState['hindrance']> = { reason: 'Growing', message: 'it grows', passes: true }
  const asked = { ...hindrance, isAsked: true as const }
  const finding = (given: Given, state: Partial<SizeState>, recorded: typeof small | undefined = small) =>
    sizeFinding(observedOf(given), { effective: small, shape: undefined, hindrance: undefined, ...state }, recorded)
  const told = (reason: string, message: string) => ({ status: 'False', reason, message })
  const refusedBefore: Given = {
    spec: { size: large },
    conditions: { SizeApplied: { reason: 'GrowthRefused', message: 'quota', lastTransitionTime: at } },
    rest: { isAtRest: true },
  }

  test('is empty if the requested size is applied or none is known', () => {
    expect(finding({}, {})).toBeUndefined()
    expect(
      sizeFinding(observedOf({ spec: { size: large } }), { effective: large, shape: undefined, hindrance }, undefined),
    ).toBeUndefined()
  })
  test('has what blocks it, or else that it is applied with a restart', () => {
    const inForce = 'small-v1 is in force and large-v1 is asked for'
    expect(finding({ spec: { size: large } }, { hindrance })).toEqual(told('Growing', `${inForce}: it grows`))
    expect(finding({ spec: { size: large } }, {})).toEqual(
      told('Restarting', `${inForce}: Postgres is restarted with it`),
    )
  })
  test('has what the volume lacks of the applied size', () => {
    expect(finding({}, { shortfall: hindrance })).toEqual(
      told('Growing', 'small-v1 is in force, with a volume smaller than its own: it grows'),
    )
  })
  test('is kept from the previous operator until Postgres answers', () => {
    expect(finding(refusedBefore, { hindrance: asked })).toEqual(told('GrowthRefused', 'quota'))
    expect(finding({ ...refusedBefore, spec: {} }, { shortfall: asked })).toEqual(told('GrowthRefused', 'quota'))
    expect(finding(refusedBefore, { hindrance })?.reason).toBe('Growing')
    expect(finding({ ...refusedBefore, rest: { isAtRest: false } }, { hindrance: asked })?.reason).toBe('Growing')
    const failing = { SizeApplied: { reason: 'GrowthFailing', message: 'full', lastTransitionTime: at } }
    expect(finding({ ...refusedBefore, conditions: failing }, { hindrance: asked })?.reason).toBe('Growing')
  })
})

describe('a size that could not be applied when it was requested', () => {
  const comes = (given: Given, rest: Partial<Observed> = {}) => {
    const observed = { ...observedOf(asking(grown, given)), isAtRest: true, ...rest }
    return comesIntoForce(observed, sizeState(observed))
  }
  const going = claimOf({ has: '2Gi', metadata: { deletionTimestamp: at } })

  test('is applied when the volume has grown', () => {
    expect(comes({})).toBe(true)
  })
  test.each<[string, Given, Partial<Observed>?]>([
    ['while something else is on its way', {}, { isAtRest: false }],
    ['before the volume has grown', { children: { claim: claimOf({}) } }],
    ['while Postgres must not stop', { children: { claim: going } }],
    ['while it is suspended', { spec: { suspended: true } }],
    [
      'where there is no such size',
      { spec: { size: small }, rest: { size: undefined, appliedSize: { pinned: large, size: undefined } } },
    ],
    ['where none was ever in force', { status: { size: undefined } }],
    ['where it is in force', {}, { appliedSize: { pinned: large, size: largeSize } }],
  ])('does not %s', (_, given, rest) => {
    expect(comes(given, rest)).toBe(false)
  })
})
