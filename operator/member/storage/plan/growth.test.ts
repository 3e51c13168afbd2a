import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { GrowthRefusal } from '../../observed.ts'
import { awaitsRetry, type Growth, growthOf, resizedClaim } from './growth.ts'

type ClaimCase = {
  requests?: string
  has?: string
  phase?: string
  conditions?: { type: string; message?: string; status?: string }[]
  resizing?: string
  allocated?: string
  deleted?: true
}

const claimOf = ({
  requests = '2Gi',
  has = '1Gi',
  phase = 'Bound',
  ...claimCase
}: ClaimCase): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'volume', uid: 'one', ...(claimCase.deleted ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}) },
  spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: requests } } },
  status: {
    phase,
    ...(has === 'untold' ? {} : { capacity: { storage: has } }),
    ...(claimCase.conditions ? { conditions: claimCase.conditions.map(each => ({ status: 'True', ...each })) } : {}),
    ...(claimCase.resizing ? { allocatedResourceStatuses: { storage: claimCase.resizing } } : {}),
    ...(claimCase.allocated ? { allocatedResources: { storage: claimCase.allocated } } : {}),
  },
})

const refusal: GrowthRefusal = { claim: 'one', storage: '2Gi', message: 'exceeded quota', retryAt: 9, isDue: false }
const failed = { type: 'ControllerResizeError', message: 'the pool is full' }

describe('the progress of a growth to 2Gi', () => {
  test.each<[string, ClaimCase, Growth['state'], RegExp?]>([
    ['the volume has 2Gi', { has: '2Gi' }, 'done'],
    ['the volume has 2Gi in another notation', { has: '2147483648' }, 'done'],
    ['the volume has more', { requests: '1Pi', has: '1Pi' }, 'done'],
    ['the volume does not exist yet, and the claim requests 2Gi', { phase: 'Pending', has: 'untold' }, 'done'],
    [
      'the volume does not exist yet, and the claim requests less',
      { phase: 'Pending', requests: '1Gi', has: 'untold' },
      'awaits-pod',
    ],
    ['the claim does not request 2Gi yet', { requests: '1Gi' }, 'underway', /from 1Gi to 2Gi/],
    ['the cluster reports no capacity', { has: 'untold' }, 'done'],
    ['the claim requests 2Gi', {}, 'underway'],
    ['the driver is resizing the volume', { resizing: 'ControllerResizeInProgress', allocated: '2Gi' }, 'underway'],
    ['the file system is still smaller', { conditions: [{ type: 'FileSystemResizePending' }] }, 'awaits-pod'],
    [
      'the file system is smaller than the reported capacity',
      { has: '2Gi', conditions: [{ type: 'FileSystemResizePending' }] },
      'awaits-pod',
    ],
    [
      'the file system is smaller than a larger volume',
      { requests: '3Gi', has: '2Gi', conditions: [{ type: 'FileSystemResizePending' }] },
      'done',
    ],
    [
      'the file system has grown',
      { has: '2Gi', conditions: [{ type: 'FileSystemResizePending', status: 'False' }] },
      'done',
    ],
    ['another change is in progress', { has: '2Gi', conditions: [{ type: 'ModifyingVolume' }] }, 'done'],
    ['the driver failed and retries', { conditions: [failed] }, 'failing', /the pool is full/],
    [
      'the node failed and retries',
      { conditions: [{ type: 'NodeResizeError', message: 'resize2fs' }] },
      'failing',
      /resize2fs/,
    ],
    [
      'the driver stopped retrying',
      { resizing: 'ControllerResizeInfeasible', allocated: '2Gi', conditions: [failed] },
      'infeasible',
      /the pool is full/,
    ],
    [
      'the node stopped retrying, with a status from before 1.31',
      { resizing: 'NodeResizeFailed' },
      'infeasible',
      /NodeResizeFailed/,
    ],
    [
      'the driver stopped retrying an earlier request',
      { resizing: 'ControllerResizeInfeasible', allocated: '9Gi' },
      'underway',
    ],
    ['the status only begins like a failure', { resizing: 'NodeResizeFailedOver' }, 'underway'],
    ['the claim is being deleted', { deleted: true }, 'failing', /being deleted/],
  ])('is reported if %s', (_name, claimCase, state, message = /^/) => {
    const growth = growthOf(claimOf(claimCase), '2Gi', undefined)
    expect(growth.state).toBe(state)
    expect('message' in growth ? growth.message : '').toMatch(message)
  })

  test('reports whether this pass sends the request', () => {
    const message = 'the volume is growing from 1Gi to 2Gi'
    expect(growthOf(claimOf({ requests: '1Gi' }), '2Gi', undefined)).toEqual({
      state: 'underway',
      message,
      isRequested: true,
    })
    expect(growthOf(claimOf({}), '2Gi', undefined)).toEqual({ state: 'underway', message })
  })

  test('reports a refusal until the volume has grown, only for the same claim and storage', () => {
    expect(growthOf(claimOf({ requests: '1Gi' }), '2Gi', refusal)).toEqual({
      state: 'refused',
      message: 'exceeded quota',
    })
    expect(growthOf(claimOf({ requests: '1Gi' }), '2048Mi', refusal).state).toBe('refused')
    expect(growthOf(claimOf({ has: '2Gi' }), '2Gi', refusal).state).toBe('done')
    expect(growthOf(claimOf({ requests: '1Gi' }), '3Gi', refusal).state).toBe('underway')
    expect(growthOf(claimOf({ requests: '1Gi' }), '2Gi', { ...refusal, claim: 'two' }).state).toBe('underway')
  })

  test('repeats a refused request only when it is due', () => {
    expect(awaitsRetry(refusal, claimOf({}), '2Gi')).toBe(true)
    expect(awaitsRetry({ ...refusal, isDue: true }, claimOf({}), '2Gi')).toBe(false)
    expect(awaitsRetry(refusal, claimOf({}), '3Gi')).toBe(false)
    expect(awaitsRetry(undefined, claimOf({}), '2Gi')).toBe(false)
  })
})

describe('the request for 2Gi', () => {
  test.each<[string, ClaimCase, string | undefined]>([
    ['is set on a smaller claim', { requests: '1Gi' }, '2Gi'],
    ['is already set', {}, undefined],
    ['is already set in another notation', { requests: '2048Mi' }, undefined],
    ['does not change the claim of a larger volume', { requests: '3Gi', has: '3Gi' }, undefined],
    ['does not change a larger request if the volume is large enough', { requests: '3Gi', has: '2Gi' }, undefined],
    ['replaces a larger request that failed', { requests: '9Gi' }, '2Gi'],
    ['waits until the volume exists', { requests: '1Gi', phase: 'Pending', has: 'untold' }, undefined],
    ['is not set on a claim that is being deleted', { requests: '1Gi', deleted: true }, undefined],
  ])('%s', (_name, claimCase, request) => {
    expect(resizedClaim(claimOf(claimCase), '2Gi')?.spec?.resources?.requests?.storage).toBe(request)
  })
})
