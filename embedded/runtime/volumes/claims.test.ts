/** Claims as directories: bound, filled, retained while in use, removed, lost. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import {
  claim,
  key,
  namespace,
  openTestCluster,
  pod,
  ready,
  script,
  startTestRuntime,
  staying,
  testOwner,
  until,
  untilClaim,
  untilPod,
} from '../testing/runtime.ts'

const directoryOf = (directory: string, { metadata }: PersistentVolumeClaim): string =>
  join(directory, 'volumes', namespace, metadata.uid ?? '')
const snapshot = (name: string, source: string) => ({
  apiVersion: 'snapshot.storage.k8s.io/v1' as const,
  kind: 'VolumeSnapshot' as const,
  metadata: { name, namespace },
  spec: { source: { persistentVolumeClaimName: source } },
})
const fromSnapshot = (name: string) => ({
  dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name },
})

test('a claim is bound at once to a separate directory, with the requested capacity', async () => {
  const { cluster, directory } = await openTestCluster({ runAs: testOwner() })
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const found = await untilClaim(cluster, 'data')
  expect(found.status).toMatchObject({ capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOncePod'] })
  expect(found.spec?.volumeName).toBe(`pvc-${found.metadata.uid}`)
  const stats = statSync(directoryOf(directory, found))
  expect(stats.mode & 0o777).toBe(0o700)
  expect(stats.uid).toBe(testOwner()?.uid ?? process.getuid?.())
  await cluster.apply('PersistentVolumeClaim', claim('data', { resources: { requests: { storage: '2Gi' } } }))
  await untilClaim(cluster, 'data', ({ status }) => status?.capacity?.storage === '2Gi')
})

test('a claim in use is deleted only after its pod; then its directory is deleted too', async () => {
  const { cluster, directory } = await openTestCluster()
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const found = await untilClaim(cluster, 'data')
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]
  await cluster.create('Pod', pod('p', { volumes, containers: [script(staying)] }))
  await untilPod(cluster, 'p', ready)
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await untilClaim(cluster, 'data', ({ metadata }) => metadata.deletionTimestamp !== undefined)
  await new Promise(resolve => setTimeout(resolve, 100))
  expect(existsSync(directoryOf(directory, found))).toBe(true)
  await cluster.delete('Pod', key('p'))
  await until(async () => (await cluster.get('PersistentVolumeClaim', key('data'))) === undefined)
  await until(async () => (await cluster.get('PersistentVolume', { name: found.spec?.volumeName ?? '' })) === undefined)
  expect(existsSync(directoryOf(directory, found))).toBe(false)
  expect(readdirSync(join(directory, 'staging'))).toEqual([])
})

test('a bound claim whose directory is missing is lost, permanently', async () => {
  const { store, cluster, runtime, directory } = await openTestCluster()
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const found = await untilClaim(cluster, 'data')
  await runtime.stop()
  rmSync(directoryOf(directory, found), { recursive: true })
  await startTestRuntime(store, { directory })
  await untilClaim(cluster, 'data', ({ status }) => status?.phase === 'Lost')
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]
  await cluster.create('Pod', pod('p', { volumes, containers: [script(staying)] }))
  const waiting = await untilPod(cluster, 'p', ({ status }) => status?.message !== undefined)
  expect(waiting.status?.message).toContain('has lost its volume')
  expect(existsSync(directoryOf(directory, found))).toBe(false)
})

test('a claim is filled from a snapshot or another claim as soon as its source is ready', async () => {
  const { cluster, directory } = await openTestCluster()
  await cluster.create('PersistentVolumeClaim', claim('late', fromSnapshot('snapshot')))
  const waiting = await untilClaim(cluster, 'late', ({ status }) => status?.conditions !== undefined)
  expect(waiting.status).toMatchObject({ phase: 'Pending', conditions: [{ reason: 'WaitForSource' }] })
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const source = await untilClaim(cluster, 'data')
  writeFileSync(join(directoryOf(directory, source), 'file'), 'first')
  await cluster.create('VolumeSnapshot', snapshot('snapshot', 'data'))
  const late = await untilClaim(cluster, 'late')
  expect(readFileSync(join(directoryOf(directory, late), 'file'), 'utf8')).toBe('first')
  expect((await cluster.get('VolumeSnapshot', key('snapshot')))?.status).toMatchObject({
    ...{ readyToUse: true, restoreSize: '5' },
    creationTime: expect.stringMatching(/^\d{4}-.*Z$/),
  })
  const dataSource = { kind: 'PersistentVolumeClaim', name: 'data' }
  await cluster.create('PersistentVolumeClaim', claim('clone', { dataSource }))
  const clone = await untilClaim(cluster, 'clone')
  writeFileSync(join(directoryOf(directory, clone), 'file'), 'changed')
  expect(readFileSync(join(directoryOf(directory, source), 'file'), 'utf8')).toBe('first')
  await cluster.delete('VolumeSnapshot', key('snapshot'))
  await until(async () => (await cluster.get('VolumeSnapshot', key('snapshot'))) === undefined)
  expect(readdirSync(join(directory, 'snapshots', namespace))).toEqual([])
})

test('a volume that cannot be created reports why and is created as soon as possible', async () => {
  const { cluster, directory } = await openTestCluster()
  writeFileSync(join(directory, 'volumes', namespace), 'in the way')
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const waiting = await untilClaim(cluster, 'data', ({ status }) => status?.conditions !== undefined)
  expect(waiting.status).toMatchObject({
    phase: 'Pending',
    conditions: [{ type: 'Provisioned', status: 'False', reason: 'ProvisioningFailed', message: expect.any(String) }],
  })
  rmSync(join(directory, 'volumes', namespace))
  mkdirSync(join(directory, 'volumes', namespace))
  await cluster.create('PersistentVolumeClaim', claim('another')) // each change in the namespace causes a retry
  const found = await untilClaim(cluster, 'data')
  expect(found.status?.conditions).toBeUndefined()
})

test('a snapshot whose claim or image is missing reports this', async () => {
  const { store, cluster, runtime, directory } = await openTestCluster()
  const statusOf = async (name: string) => (await cluster.get('VolumeSnapshot', key(name)))?.status
  await cluster.create('VolumeSnapshot', snapshot('early', 'data'))
  await until(async () => (await statusOf('early'))?.error?.message?.includes('not found') === true)
  await cluster.create('PersistentVolumeClaim', claim('data'))
  await until(async () => (await statusOf('early'))?.readyToUse === true)
  expect((await statusOf('early'))?.error).toBeUndefined()
  await runtime.stop()
  rmSync(join(directory, 'snapshots', namespace), { recursive: true })
  await startTestRuntime(store, { directory })
  await until(async () => (await statusOf('early'))?.readyToUse === false)
})
