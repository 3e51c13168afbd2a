/**
 * Which size a database has, what it reports while the requested size is not applied, and when that size is applied.
 */

import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim, StatefulSet } from '../../../../cluster/index.ts'
import type { Size } from '../../../../crds/index.ts'
import { type Given, reconciledDatabase } from '../../../testing/reconciled-database.ts'
import type { Observed } from '../../../workload/observed.ts'
import type { GrowthRefusal } from '../../observed.ts'
import { appliedSizeOf } from '../applied-size.ts'
import { sizeAnnotation } from '../stateful-set.ts'
import { isSizeUnblocked, recordedSize, type SizeState, sizeFinding, sizeState } from './size.ts'

const { children, observedOf } = reconciledDatabase()
const { claim, statefulSet } = children
const { size: smallSize } = observedOf()
if (smallSize === undefined) throw new Error('the size is missing')
const at = '2026-01-01T00:00:00Z'
const small = { name: 'small', version: 1 }
const large = { name: 'large', version: 1 }
const sizeOf = (name: string, storageSize: string, status: Size['spec']['status'] = 'active'): Size => ({
  ...smallSize,
  spec: { ...smallSize.spec, name, status, shape: { ...smallSize.spec.shape, storageSize } },
})
const largeSize = sizeOf('large', '2Gi')

type ClaimCase = {
  requests?: string
  has?: string
  phase?: string
  conditions?: string[]
  given?: string
  metadata?: object
}
const claimOf = ({
  requests = '2Gi',
  has = '1Gi',
  phase = 'Bound',
  conditions = [],
  given,
  metadata,
}: ClaimCase): PersistentVolumeClaim => ({
  ...claim,
  metadata: { ...claim.metadata, ...metadata },
  spec: { ...claim.spec, resources: { requests: { storage: requests } } },
  status: {
    phase,
    capacity: { storage: has },
    conditions: conditions.map(type => ({ type, status: 'True', message: 'the pool is full' })),
    ...(given ? { allocatedResourceStatuses: { storage: given } } : {}),
  },
})
/** The large size is requested, and the small size is applied. */
const withClaim = (claimCase: ClaimCase, given: Given = {}): Given => ({
  ...given,
  spec: { size: large, ...given.spec },
  children: { claim: claimOf(claimCase), ...given.children },
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
    ["is the running pod's size", 'medium-v12', { name: 'medium', version: 12 }],
    ['is parsed with its version', 'a-v1-v2', { name: 'a-v1', version: 2 }],
    ['is the recorded size if the annotation has no version', 'medium', small],
    ['is the recorded size if the annotation has no name', '-v1', small],
    ['is the recorded size if the version is invalid', 'medium-v0', small],
    ['is the recorded size if text follows the version', 'medium-v1x', small],
    ['is the recorded size if the pod has no annotation', undefined, small],
  ])('%s', (_, size, expected) => {
    expect(appliedSizeOf(instance, templateOf('other-v1'), { ...running, size })).toEqual(expected)
  })
  test('is the recorded size if no pod runs', () => {
    const size = 'medium-v1'
    expect(appliedSizeOf(instance, templateOf('other-v1'), undefined)).toEqual(small)
    expect(appliedSizeOf(instance, templateOf('other-v1'), { ...running, size, address: undefined })).toEqual(small)
    expect(appliedSizeOf(instance, templateOf('other-v1'), { ...running, size, terminating: true })).toEqual(small)
  })
  test("without a recorded size is the template's size, and without a template the requested size", () => {
    expect(appliedSizeOf(unrecorded, templateOf('other-v1'), undefined)).toEqual({ name: 'other', version: 1 })
    expect(appliedSizeOf(unrecorded, templateOf(undefined), undefined)).toEqual(large)
    expect(appliedSizeOf(unrecorded, undefined, undefined)).toEqual(large)
    expect(appliedSizeOf({ ...instance, status: undefined }, undefined, undefined)).toEqual(large)
  })
})

describe('a requested size', () => {
  const stateOf = (given: Given) => sizeState(observedOf(given))
  const applied = { effective: large, shape: largeSize.spec.shape, blocker: undefined }

  test.each<[string, Given]>([
    ['once the volume has grown', withClaim(grown)],
    ['if the volume is large enough', withClaim({ requests: '4Gi', has: '4Gi' })],
    [
      'if the volume does not exist yet',
      withClaim(
        {},
        {
          status: { volume: undefined },
          pod: { address: undefined },
          children: { claim: claimOf({ requests: '1Gi', phase: 'Pending' }) },
        },
      ),
    ],
    [
      'if the claim does not exist yet',
      withClaim({}, { status: { volume: undefined }, pod: undefined, children: { claim: undefined } }),
    ],
  ])('is applied completely %s', (_, given) => {
    expect(stateOf(given)).toMatchObject(applied)
    expect(stateOf(given).shortfall).toBeUndefined()
  })

  test('is applied, without a condition', () => {
    expect(stateOf({})).toEqual({
      effective: small,
      shape: smallSize.spec.shape,
      blocker: undefined,
      shortfall: undefined,
    })
    expect(stateOf({ rest: { size: undefined } })).toMatchObject({
      effective: small,
      shape: undefined,
      blocker: undefined,
    })
  })
  test('stays applied after it is retired', () => {
    expect(stateOf({ rest: { size: sizeOf('small', '1Gi', 'retired') } })).toMatchObject({
      effective: small,
      blocker: undefined,
    })
  })
  test('is applied, and the missing growth of the volume is reported', () => {
    expect(stateOf({ rest: { size: sizeOf('small', '2Gi') } })).toMatchObject({
      effective: small,
      blocker: undefined,
      shortfall: { reason: 'Growing', passes: true, isRequested: true },
    })
  })

  test.each<[string, Given, NonNullable<SizeState['blocker']>]>([
    [
      'it does not exist',
      withClaim({}, { rest: { size: undefined } }),
      {
        reason: 'SizeNotFound',
        message: 'spec.size: there is no size large-v1; `kubectl get sizes` lists the existing ones, as NAME-vVERSION',
        passes: false,
      },
    ],
    [
      'it is retired',
      withClaim(grown, { rest: { size: sizeOf('large', '2Gi', 'retired') } }),
      {
        reason: 'SizeRetired',
        message: 'spec.size: large-v1 is retired; only databases that already have it can use it',
        passes: false,
      },
    ],
    [
      'the volume does not exist',
      withClaim({}, { children: { claim: undefined } }),
      { reason: 'Growing', message: 'the volume does not exist', passes: true },
    ],
    [
      'the growth is not requested yet',
      withClaim({ requests: '1Gi' }),
      { reason: 'Growing', message: 'the volume is growing from 1Gi to 2Gi', passes: true, isRequested: true },
    ],
    [
      'the volume is still growing',
      withClaim(growing),
      { reason: 'Growing', message: 'the volume is growing from 1Gi to 2Gi', passes: true },
    ],
    [
      'the volume of a suspended database grows',
      withClaim(growing, resting),
      { reason: 'Growing', message: 'the volume is growing from 1Gi to 2Gi', passes: true },
    ],
    [
      'the file system is growing',
      withClaim(lagging),
      { reason: 'Growing', message: 'the file system is growing', passes: true },
    ],
    [
      'the file system grows when a pod mounts it',
      withClaim(lagging, resting),
      { reason: 'AwaitsResume', message: 'the volume grows when the database is resumed', passes: true },
    ],
    [
      'the file system grows while the last pod still exists',
      withClaim(lagging, { spec: { suspended: true } }),
      { reason: 'Growing', message: 'the file system is growing', passes: true },
    ],
    [
      'the file system grows in the next pod',
      withClaim(lagging, { pod: undefined }),
      { reason: 'Growing', message: 'the file system is growing', passes: true },
    ],
    [
      "the claim is not confirmed as the database's yet",
      withClaim(growing, { rest: { isOrphanClaim: true } }),
      {
        reason: 'Growing',
        message: 'the operator must first confirm that the volume belongs to this database',
        passes: true,
      },
    ],
    [
      'the claim of a suspended database is not confirmed yet',
      withClaim(growing, { ...resting, rest: { isOrphanClaim: true } }),
      { reason: 'AwaitsResume', message: 'the volume grows when the database is resumed', passes: true },
    ],
    [
      'the driver fails',
      withClaim({ conditions: ['ControllerResizeError'] }),
      { reason: 'GrowthFailing', message: 'the volume does not grow: the pool is full', passes: true },
    ],
    [
      'the growth is refused',
      withClaim({ requests: '1Gi' }, { rest: { growthRefusal: refusal } }),
      { reason: 'GrowthRefused', message: 'the cluster refused to grow the volume: quota', passes: false },
    ],
    [
      'the growth is impossible',
      withClaim({ given: 'ControllerResizeInfeasible' }),
      {
        reason: 'GrowthInfeasible',
        message:
          'the volume cannot grow: the storage driver reports ControllerResizeInfeasible; for details: `kubectl describe pvc db-5e1d9a523f0e4b43-1-data`',
        passes: false,
      },
    ],
  ])('changes nothing if %s', (_, given, blocker) => {
    expect(stateOf(given)).toEqual({ effective: small, shape: smallSize.spec.shape, blocker })
  })

  test('that is blocked keeps the applied size, even if the applied Size does not exist', () => {
    const appliedSize = { pinned: small, size: undefined }
    expect(stateOf(withClaim(growing, { rest: { appliedSize } }))).toMatchObject({ effective: small, shape: undefined })
  })
  test('with another version is another size', () => {
    const given = withClaim(growing, { spec: { size: { name: 'small', version: 2 } } })
    expect(stateOf(given).effective).toEqual(small)
  })
})

describe('the recorded size', () => {
  const recorded = (given: Given, { effective = large, isPrepared = true } = {}) =>
    recordedSize(observedOf(given), { effective, shape: undefined, blocker: undefined }, isPrepared)

  test.each<[string, Given, { effective?: typeof small; isPrepared?: boolean }, typeof small | undefined]>([
    ['is the new size if the pod has it', { spec: { size: large }, pod: { size: 'large-v1' } }, {}, large],
    ['stays until the pod has the new size', { spec: { size: large } }, {}, small],
    [
      'stays while the new pod terminates',
      { spec: { size: large }, pod: { size: 'large-v1', terminating: true } },
      {},
      small,
    ],
    ['stays while there is no pod', { spec: { size: large }, pod: undefined }, {}, small],
    ['is the new size without a pod, if the next pod will have it', resting, {}, large],
    ['stays without a pod, if the next pod may not have it', resting, { isPrepared: false }, small],
    ['stays while a pod has not stopped yet', { spec: { suspended: true, size: large } }, {}, small],
    [
      'is empty before the first volume',
      { status: { volume: undefined }, pod: undefined, children: { claim: claimOf({ phase: 'Pending' }) } },
      {},
      undefined,
    ],
    [
      'is empty before a pod has the first size',
      { status: { size: undefined }, spec: { size: large }, pod: undefined },
      {},
      undefined,
    ],
    [
      'is the size that an older operator applied without a record',
      { status: { size: undefined }, spec: { size: large }, pod: undefined },
      { effective: small },
      small,
    ],
  ])('%s', (_, given, state, expected) => {
    expect(recorded(given, state)).toEqual(expected)
  })
})

describe('the message about a size that is not applied', () => {
  const blocker: NonNullable<SizeState['blocker']> = { reason: 'Growing', message: 'it grows', passes: true }
  const requested = { ...blocker, isRequested: true as const }
  const finding = (given: Given, state: Partial<SizeState>, recorded: typeof small | undefined = small) =>
    sizeFinding(observedOf(given), { effective: small, shape: undefined, blocker: undefined, ...state }, recorded)
  const failedFinding = (reason: string, message: string) => ({ status: 'False', reason, message })
  const refusedBefore: Given = {
    spec: { size: large },
    conditions: { SizeApplied: { reason: 'GrowthRefused', message: 'quota', lastTransitionTime: at } },
    rest: { isAtRest: true },
  }

  test('is empty if the requested size is applied, or if no size is known', () => {
    expect(finding({}, {})).toBeUndefined()
    expect(
      sizeFinding(observedOf({ spec: { size: large } }), { effective: large, shape: undefined, blocker }, undefined),
    ).toBeUndefined()
  })
  test('reports what blocks the size, or that Postgres is being restarted', () => {
    const both = 'small-v1 is applied and large-v1 is requested'
    expect(finding({ spec: { size: large } }, { blocker })).toEqual(failedFinding('Growing', `${both}: it grows`))
    expect(finding({ spec: { size: large } }, {})).toEqual(
      failedFinding('Restarting', `${both}: Postgres is being restarted with the requested size`),
    )
  })
  test('reports that the volume is smaller than the applied size', () => {
    expect(finding({}, { shortfall: blocker })).toEqual(
      failedFinding('Growing', 'small-v1 is applied, with a smaller volume: it grows'),
    )
  })
  test('stays as the previous operator process wrote it, until the cluster answers', () => {
    expect(finding(refusedBefore, { blocker: requested })).toEqual(failedFinding('GrowthRefused', 'quota'))
    expect(finding({ ...refusedBefore, spec: {} }, { shortfall: requested })).toEqual(
      failedFinding('GrowthRefused', 'quota'),
    )
    expect(finding(refusedBefore, { blocker })?.reason).toBe('Growing')
    expect(finding({ ...refusedBefore, rest: { isAtRest: false } }, { blocker: requested })?.reason).toBe('Growing')
    const failing = { SizeApplied: { reason: 'GrowthFailing', message: 'full', lastTransitionTime: at } }
    expect(finding({ ...refusedBefore, conditions: failing }, { blocker: requested })?.reason).toBe('Growing')
  })
})

describe('a size that was blocked when it was requested', () => {
  const isUnblocked = (given: Given, rest: Partial<Observed> = {}) => {
    const observed = { ...observedOf(withClaim(grown, given)), isAtRest: true, ...rest }
    return isSizeUnblocked(observed, sizeState(observed))
  }
  const going = claimOf({ has: '2Gi', metadata: { deletionTimestamp: at } })

  test('is applied when the volume has grown', () => {
    expect(isUnblocked({})).toBe(true)
  })
  test.each<[string, Given, Partial<Observed>?]>([
    ['while another change is in progress', {}, { isAtRest: false }],
    ['before the volume has grown', { children: { claim: claimOf({}) } }],
    ['while the operator must not stop Postgres', { children: { claim: going } }],
    ['while the database is suspended', { spec: { suspended: true } }],
    [
      'if the Size does not exist',
      { spec: { size: small }, rest: { size: undefined, appliedSize: { pinned: large, size: undefined } } },
    ],
    ['if no size was ever applied', { status: { size: undefined } }],
    ['if the size is already applied', {}, { appliedSize: { pinned: large, size: largeSize } }],
  ])('is not applied %s', (_, given, rest) => {
    expect(isUnblocked(given, rest)).toBe(false)
  })
})
