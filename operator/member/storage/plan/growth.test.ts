import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { GrowthRefusal } from '../../observed.ts'
import { awaitsRetry, type Growth, growthOf, resizedClaim } from './growth.ts'

type Told = {
  asks?: string
  has?: string
  phase?: string
  conditions?: { type: string; message?: string; status?: string }[]
  resizing?: string
  allocated?: string
  deleted?: true
}

const claimOf = ({ asks = '2Gi', has = '1Gi', phase = 'Bound', ...told }: Told): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'volume', uid: 'one', ...(told.deleted ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}) },
  spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: asks } } },
  status: {
    phase,
    ...(has === 'untold' ? {} : { capacity: { storage: has } }),
    ...(told.conditions ? { conditions: told.conditions.map(each => ({ status: 'True', ...each })) } : {}),
    ...(told.resizing ? { allocatedResourceStatuses: { storage: told.resizing } } : {}),
    ...(told.allocated ? { allocatedResources: { storage: told.allocated } } : {}),
  },
})

const refusal: GrowthRefusal = { claim: 'one', storage: '2Gi', message: 'exceeded quota', retryAt: 9, isDue: false }
const failed = { type: 'ControllerResizeError', message: 'the pool is full' }

describe('the progress of a growth to 2Gi', () => {
  test.each<[string, Told, Growth['state'], RegExp?]>([
    ['it has it', { has: '2Gi' }, 'done'],
    ['it has it in other words', { has: '2147483648' }, 'done'],
    ['it has more', { asks: '1Pi', has: '1Pi' }, 'done'],
    ['it is not made yet, and asked that large', { phase: 'Pending', has: 'untold' }, 'done'],
    ['it is not made yet, and asked smaller', { phase: 'Pending', asks: '1Gi', has: 'untold' }, 'awaits-pod'],
    ['nothing was asked yet', { asks: '1Gi' }, 'underway', /from 1Gi to 2Gi/],
    ['a cluster that tells no capacity', { has: 'untold' }, 'done'],
    ['asked', {}, 'underway'],
    ['being resized', { resizing: 'ControllerResizeInProgress', allocated: '2Gi' }, 'underway'],
    ['the file system lags', { conditions: [{ type: 'FileSystemResizePending' }] }, 'awaits-pod'],
    [
      'the file system lags behind a capacity',
      { has: '2Gi', conditions: [{ type: 'FileSystemResizePending' }] },
      'awaits-pod',
    ],
    [
      'the file system lags behind more than this',
      { asks: '3Gi', has: '2Gi', conditions: [{ type: 'FileSystemResizePending' }] },
      'done',
    ],
    [
      'the file system no longer lags',
      { has: '2Gi', conditions: [{ type: 'FileSystemResizePending', status: 'False' }] },
      'done',
    ],
    ['something else of it changes', { has: '2Gi', conditions: [{ type: 'ModifyingVolume' }] }, 'done'],
    ['the driver failed and goes on', { conditions: [failed] }, 'failing', /the pool is full/],
    [
      'the node failed and goes on',
      { conditions: [{ type: 'NodeResizeError', message: 'resize2fs' }] },
      'failing',
      /resize2fs/,
    ],
    [
      'the driver gave up',
      { resizing: 'ControllerResizeInfeasible', allocated: '2Gi', conditions: [failed] },
      'infeasible',
      /the pool is full/,
    ],
    ['the node gave up, in words of before 1.31', { resizing: 'NodeResizeFailed' }, 'infeasible', /NodeResizeFailed/],
    [
      'the driver gave up on an earlier request',
      { resizing: 'ControllerResizeInfeasible', allocated: '9Gi' },
      'underway',
    ],
    ['a status that only begins like giving up', { resizing: 'NodeResizeFailedOver' }, 'underway'],
    ['somebody deletes it', { deleted: true }, 'failing', /deletes/],
  ])('%s', (_name, told, state, message = /^/) => {
    const growth = growthOf(claimOf(told), '2Gi', undefined)
    expect(growth.state).toBe(state)
    expect('message' in growth ? growth.message : '').toMatch(message)
  })

  test('says whether this pass requests it', () => {
    const message = 'the volume grows from 1Gi to 2Gi'
    expect(growthOf(claimOf({ asks: '1Gi' }), '2Gi', undefined)).toEqual({ state: 'underway', message, isAsked: true })
    expect(growthOf(claimOf({}), '2Gi', undefined)).toEqual({ state: 'underway', message })
  })

  test('has a refusal until the volume has grown, for the same claim and storage only', () => {
    expect(growthOf(claimOf({ asks: '1Gi' }), '2Gi', refusal)).toEqual({ state: 'refused', message: 'exceeded quota' })
    expect(growthOf(claimOf({ asks: '1Gi' }), '2048Mi', refusal).state).toBe('refused')
    expect(growthOf(claimOf({ has: '2Gi' }), '2Gi', refusal).state).toBe('done')
    expect(growthOf(claimOf({ asks: '1Gi' }), '3Gi', refusal).state).toBe('underway')
    expect(growthOf(claimOf({ asks: '1Gi' }), '2Gi', { ...refusal, claim: 'two' }).state).toBe('underway')
  })

  test('repeats a refused request only when it is due', () => {
    expect(awaitsRetry(refusal, claimOf({}), '2Gi')).toBe(true)
    expect(awaitsRetry({ ...refusal, isDue: true }, claimOf({}), '2Gi')).toBe(false)
    expect(awaitsRetry(refusal, claimOf({}), '3Gi')).toBe(false)
    expect(awaitsRetry(undefined, claimOf({}), '2Gi')).toBe(false)
  })
})

describe('the request for 2Gi', () => {
  test.each<[string, Told, string | undefined]>([
    ['is made of a smaller one', { asks: '1Gi' }, '2Gi'],
    ['is there', {}, undefined],
    ['is there in other words', { asks: '2048Mi' }, undefined],
    ['leaves a larger volume alone', { asks: '3Gi', has: '3Gi' }, undefined],
    ['leaves a larger request alone where the volume suffices', { asks: '3Gi', has: '2Gi' }, undefined],
    ['takes the place of a larger one that came to nothing', { asks: '9Gi' }, '2Gi'],
    ['waits for the volume to be made', { asks: '1Gi', phase: 'Pending', has: 'untold' }, undefined],
    ['is not made of a claim that goes', { asks: '1Gi', deleted: true }, undefined],
  ])('%s', (_name, told, request) => {
    expect(resizedClaim(claimOf(told), '2Gi')?.spec?.resources?.requests?.storage).toBe(request)
  })
})
