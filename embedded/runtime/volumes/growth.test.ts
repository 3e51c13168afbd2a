/** Volume growth. Until growth is done, the capacity is unchanged and the claim reports the progress. */
import { expect, test } from 'vitest'
import type { Cluster, PersistentVolumeClaim } from '../../../cluster/index.ts'
import { claim, key, openTestCluster, until, untilClaim } from '../testing/runtime.ts'
import { type GrowthRequest, InfeasibleGrowth } from './growth.ts'

const capacity = (storage: string) => (found: PersistentVolumeClaim) => found.status?.capacity?.storage === storage
const requestStorage = (cluster: Cluster, storage: string) =>
  cluster.apply('PersistentVolumeClaim', claim('data', { resources: { requests: { storage } } }))

/** A bound claim, and growth whose result the test controls. */
async function openGrowing() {
  const requests: GrowthRequest[] = []
  const ends: PromiseWithResolvers<void>[] = []
  const grow = (request: GrowthRequest) => {
    requests.push(request)
    const end = Promise.withResolvers<void>()
    ends.push(end)
    return end.promise
  }
  const { cluster } = await openTestCluster({ growth: { grow, retryMs: 20 } })
  await cluster.apply('PersistentVolumeClaim', claim('data'))
  const bound = await untilClaim(cluster, 'data')
  const volume = async () => cluster.get('PersistentVolume', { name: bound.spec?.volumeName ?? '' })
  return { cluster, requests, ends, volume }
}

test('slow growth keeps the capacity, and is reported as resizing', async () => {
  const { cluster, requests, ends, volume } = await openGrowing()
  await requestStorage(cluster, '2Gi')
  const growing = await untilClaim(cluster, 'data', ({ status }) => status?.conditions !== undefined)
  expect(growing.status).toMatchObject({
    phase: 'Bound',
    capacity: { storage: '1Gi' },
    allocatedResources: { storage: '2Gi' },
    allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' },
    conditions: [{ type: 'Resizing', status: 'True' }],
  })
  expect(requests).toMatchObject([{ claim: key('data'), from: '1Gi', to: '2Gi' }])
  expect((await volume())?.spec?.capacity).toEqual({ storage: '1Gi' })
  ends[0]?.resolve()
  const grown = await untilClaim(cluster, 'data', capacity('2Gi'))
  expect(grown.status?.conditions).toBeUndefined()
  expect(grown.status?.allocatedResourceStatuses).toBeUndefined()
  expect((await volume())?.spec?.capacity).toEqual({ storage: '2Gi' })
  expect(requests).toHaveLength(1)
})

test('growth that fails reports why and is retried; the capacity changes once it is done', async () => {
  const { cluster, requests, ends } = await openGrowing()
  await requestStorage(cluster, '2Gi')
  await until(() => ends.length === 1)
  ends[0]?.reject(new Error('the array is busy'))
  const failed = await untilClaim(
    cluster,
    'data',
    ({ status }) => status?.conditions?.some(({ type }) => type === 'ControllerResizeError') === true,
  )
  expect(failed.status).toMatchObject({
    capacity: { storage: '1Gi' },
    allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' },
  })
  expect(failed.status?.conditions).toContainEqual(
    expect.objectContaining({ type: 'ControllerResizeError', status: 'True', message: 'the array is busy' }),
  )
  await until(() => ends.length === 2)
  ends[1]?.resolve()
  expect((await untilClaim(cluster, 'data', capacity('2Gi'))).status?.conditions).toBeUndefined()
  expect(requests).toHaveLength(2)
})

test('impossible growth is reported until the claim requests less', async () => {
  const { cluster, requests, ends } = await openGrowing()
  // Every attempt for the large size fails; none for the small size.
  const answer = () => {
    for (const [index, { to }] of requests.entries()) {
      if (to === '2Gi') ends[index]?.resolve()
      else ends[index]?.reject(new InfeasibleGrowth('the pool has 3 GiB left'))
    }
  }
  const untilIt = (condition: (found: PersistentVolumeClaim) => boolean) =>
    untilClaim(cluster, 'data', found => {
      answer()
      return condition(found)
    })
  await requestStorage(cluster, '2Ti')
  const failed = await untilIt(
    ({ status }) => status?.allocatedResourceStatuses?.storage === 'ControllerResizeInfeasible',
  )
  expect(failed.status?.capacity).toEqual({ storage: '1Gi' })
  expect(failed.status?.conditions).toMatchObject([
    { type: 'ControllerResizeError', status: 'True', message: 'the pool has 3 GiB left' },
  ])
  await requestStorage(cluster, '2Gi')
  expect((await untilIt(capacity('2Gi'))).status?.conditions).toBeUndefined()
})
