/**
 * A snapshot for a single volume becomes that volume. Nothing is copied or lost, and the snapshot records the change.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Cluster, VolumeSnapshot } from '../../../cluster/index.ts'
import { annotations } from '../../../crds/index.ts'
import { startCrashingRuntime } from '../testing/crashing.ts'
import {
  claim,
  key,
  namespace,
  openTestStore,
  startTestRuntime,
  temporaryDirectory,
  until,
  untilClaim,
} from '../testing/runtime.ts'

const snapshotDraft = (name: string, isSingleUse: boolean) => ({
  apiVersion: 'snapshot.storage.k8s.io/v1' as const,
  kind: 'VolumeSnapshot' as const,
  metadata: { name, namespace, ...(isSingleUse && { annotations: { [annotations.singleUse]: 'true' } }) },
  spec: { source: { persistentVolumeClaimName: 'data' } },
})
const from = (name: string) => ({ dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name } })

async function pathOf(cluster: Cluster, directory: string, name: string): Promise<string> {
  const { spec } = (await cluster.get('PersistentVolumeClaim', key(name))) ?? {}
  const volume = await cluster.get('PersistentVolume', { name: spec?.volumeName ?? '' })
  return join(directory, 'volumes', volume?.spec?.csi?.volumeHandle ?? 'none')
}
const snapshotOf = (cluster: Cluster, name: string) => cluster.get('VolumeSnapshot', key(name))
const isReady = (snapshot: VolumeSnapshot | undefined) => snapshot?.status?.readyToUse === true
const imageOf = (directory: string, snapshot: VolumeSnapshot | undefined) =>
  join(directory, 'snapshots', namespace, snapshot?.metadata.uid ?? 'none')

async function withData(directory: string) {
  const { store, cluster } = await openTestStore()
  const runtime = await startTestRuntime(store, { directory })
  await cluster.create('PersistentVolumeClaim', claim('data'))
  await untilClaim(cluster, 'data')
  writeFileSync(join(await pathOf(cluster, directory, 'data'), 'file'), 'precious')
  return { store, cluster, runtime }
}

test('the image becomes the volume, and the snapshot is no longer ready', async () => {
  const directory = temporaryDirectory()
  const { store, cluster, runtime } = await withData(directory)
  await cluster.create('VolumeSnapshot', snapshotDraft('once', true))
  await until(async () => isReady(await snapshotOf(cluster, 'once')))
  const image = imageOf(directory, await snapshotOf(cluster, 'once'))
  const { ino } = statSync(join(image, 'file'))

  await cluster.create('PersistentVolumeClaim', claim('branch', from('once')))
  await untilClaim(cluster, 'branch')
  const path = await pathOf(cluster, directory, 'branch')
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')
  expect([statSync(join(path, 'file')).ino, existsSync(image)]).toEqual([ino, false])
  await until(async () => !isReady(await snapshotOf(cluster, 'once')))
  const found = await snapshotOf(cluster, 'once')
  expect(found?.status?.error?.message).toBe('the image has become the volume of the claim branch')
  expect(found?.metadata.annotations?.[annotations.becameVolume]).toBe('branch')

  // No other image replaces it, and no other claim gets its data.
  await runtime.stop()
  await startTestRuntime(store, { directory })
  await cluster.create('PersistentVolumeClaim', claim('late', from('once')))
  const waits = ({ status }: { status?: { conditions?: { reason?: string | undefined }[] | undefined } | undefined }) =>
    status?.conditions?.[0]?.reason === 'WaitForSource'
  await untilClaim(cluster, 'late', waits)
  expect([existsSync(image), isReady(await snapshotOf(cluster, 'once'))]).toEqual([false, false])
  await cluster.delete('VolumeSnapshot', key('once'))
  await until(async () => (await snapshotOf(cluster, 'once')) === undefined)
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')
})

test('an image that may be used again is copied', async () => {
  const directory = temporaryDirectory()
  const { cluster } = await withData(directory)
  await cluster.create('VolumeSnapshot', snapshotDraft('kept', false))
  await until(async () => isReady(await snapshotOf(cluster, 'kept')))
  for (const name of ['one', 'two']) {
    await cluster.create('PersistentVolumeClaim', claim(name, from('kept')))
    await untilClaim(cluster, name)
    expect(readFileSync(join(await pathOf(cluster, directory, name), 'file'), 'utf8')).toBe('precious')
  }
  expect(isReady(await snapshotOf(cluster, 'kept'))).toBe(true)
  expect(readdirSync(imageOf(directory, await snapshotOf(cluster, 'kept')))).toEqual(['file'])
})

/** Creates a branch with a runtime that crashes after a number of writes. @returns the number of its writes */
async function branchThrough(after: number): Promise<number> {
  const directory = temporaryDirectory()
  const { store, cluster, runtime } = await withData(directory)
  await runtime.stop()
  const { eventually, effects, stop } = await startCrashingRuntime(store, directory, after)
  await cluster.create('VolumeSnapshot', snapshotDraft('once', true))
  await eventually('the snapshot is ready', async () => isReady(await snapshotOf(cluster, 'once')))
  await cluster.create('PersistentVolumeClaim', claim('branch', from('once')))
  await eventually(
    'the claim of the branch is bound',
    async () => (await cluster.get('PersistentVolumeClaim', key('branch')))?.status?.phase === 'Bound',
  )
  await eventually('the snapshot is no longer ready', async () => !isReady(await snapshotOf(cluster, 'once')))
  expect(readFileSync(join(await pathOf(cluster, directory, 'branch'), 'file'), 'utf8')).toBe('precious')
  expect(readdirSync(join(directory, 'staging'))).toEqual([])
  expect(readdirSync(join(directory, 'snapshots', namespace))).toEqual([])
  await stop()
  return effects.length
}

test('a crash after any write leaves the image or the volume', { timeout: 120_000 }, async () => {
  const count = await branchThrough(Number.POSITIVE_INFINITY)
  expect(count).toBeGreaterThan(5)
  for (let after = 1; after <= count; after++) await branchThrough(after)
})
