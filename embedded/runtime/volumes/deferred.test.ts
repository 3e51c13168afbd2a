/** The image of an unmounted volume is the volume itself, until a pod mounts it or it is deleted. */
import { existsSync, lstatSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Cluster } from '../../../cluster/index.ts'
import { annotations } from '../../../crds/index.ts'
import { startCrashingRuntime } from '../testing/crashing.ts'
import {
  claim,
  key,
  namespace,
  openTestStore,
  pod,
  ready,
  script,
  startTestRuntime,
  temporaryDirectory,
  until,
  untilClaim,
  untilPod,
} from '../testing/runtime.ts'

const snapshotDraft = (name: string, isAtRest = true) => ({
  apiVersion: 'snapshot.storage.k8s.io/v1' as const,
  kind: 'VolumeSnapshot' as const,
  metadata: { name, namespace, ...(isAtRest && { annotations: { [annotations.volumeAtRest]: 'true' } }) },
  spec: { source: { persistentVolumeClaimName: 'data' } },
})
const from = (name: string) => ({ dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name } })
const uidOf = async (cluster: Cluster, name: string) =>
  (await cluster.get('VolumeSnapshot', key(name)))?.metadata.uid ?? ''
const isReady = async (cluster: Cluster, name: string) =>
  (await cluster.get('VolumeSnapshot', key(name)))?.status?.readyToUse === true

async function pathOf(cluster: Cluster, directory: string, name: string): Promise<string> {
  const { spec } = await untilClaim(cluster, name)
  const volume = await cluster.get('PersistentVolume', { name: spec?.volumeName ?? '' })
  return join(directory, 'volumes', volume?.spec?.csi?.volumeHandle ?? 'none')
}

async function withData(directory: string) {
  const { store, cluster } = await openTestStore()
  const runtime = await startTestRuntime(store, { directory })
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const path = await pathOf(cluster, directory, 'data')
  writeFileSync(join(path, 'file'), 'precious')
  return { store, cluster, runtime, path }
}

async function take(cluster: Cluster, name: string): Promise<void> {
  await cluster.create('VolumeSnapshot', snapshotDraft(name))
  await until(() => isReady(cluster, name))
}

/** A pod that writes to the volume as soon as it can. */
const writer = pod('writer', {
  containers: [
    script(`require('fs').writeFileSync('/data/file', 'changed'); console.log('up'); setInterval(() => {}, 1000)`, {
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    }),
  ],
  volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
})

test('nothing is copied until a pod needs the volume; the pod waits for the copy', async () => {
  const directory = temporaryDirectory()
  const { cluster, path } = await withData(directory)
  await take(cluster, 'one')
  const [image, link] = [
    join(directory, 'snapshots', namespace, await uidOf(cluster, 'one')),
    join(directory, 'deferred', namespace, await uidOf(cluster, 'one')),
  ]
  expect([existsSync(image), lstatSync(link).isSymbolicLink()]).toEqual([false, true])
  await cluster.create('PersistentVolumeClaim', claim('copy', from('one')))
  const copy = await pathOf(cluster, directory, 'copy')
  expect(readFileSync(join(copy, 'file'), 'utf8')).toBe('precious')
  expect(statSync(join(copy, 'file')).ino).not.toBe(statSync(join(path, 'file')).ino)

  await cluster.create('Pod', writer)
  await untilPod(cluster, 'writer', ready)
  await until(() => readFileSync(join(path, 'file'), 'utf8') === 'changed')
  expect([readFileSync(join(image, 'file'), 'utf8'), existsSync(link)]).toEqual(['precious', false])
  await cluster.delete('VolumeSnapshot', key('one'))
  await until(() => !existsSync(image))
})

test('the directory of a deleted volume becomes the image', async () => {
  const directory = temporaryDirectory()
  const { cluster, path } = await withData(directory)
  for (const name of ['one', 'two']) await take(cluster, name)
  const { ino } = statSync(join(path, 'file'))
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await until(async () => (await cluster.list('PersistentVolume')).items.length === 0)
  const files = await Promise.all(
    ['one', 'two'].map(async name => join(directory, 'snapshots', namespace, await uidOf(cluster, name), 'file')),
  )
  expect(files.map(file => readFileSync(file, 'utf8'))).toEqual(['precious', 'precious'])
  expect(files.map(file => statSync(file).ino).filter(each => each === ino)).toHaveLength(1)
  expect([existsSync(path), readdirSync(join(directory, 'deferred', namespace))]).toEqual([false, []])
  for (const name of ['one', 'two']) await cluster.delete('VolumeSnapshot', key(name))
  await until(() => files.every(file => !existsSync(file)))
})

test('a volume is copied at once if the snapshot does not declare it at rest', async () => {
  const directory = temporaryDirectory()
  const { cluster } = await withData(directory)
  await cluster.create('VolumeSnapshot', snapshotDraft('one', false))
  await until(() => isReady(cluster, 'one'))
  const image = join(directory, 'snapshots', namespace, await uidOf(cluster, 'one'))
  expect(readFileSync(join(image, 'file'), 'utf8')).toBe('precious')
})

test('deleting a snapshot before its volume deletes no data of the volume', async () => {
  const directory = temporaryDirectory()
  const { cluster, path } = await withData(directory)
  await take(cluster, 'one')
  await cluster.delete('VolumeSnapshot', key('one'))
  await until(async () => (await cluster.get('VolumeSnapshot', key('one'))) === undefined)
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')
  expect(readdirSync(join(directory, 'deferred', namespace))).toEqual([])
})

/**
 * Takes a snapshot, then writes to or deletes its volume. The runtime crashes after a number of writes. @returns the
 * number of its writes
 */
async function runLifeCycle(after: number, isDeleted: boolean): Promise<number> {
  const directory = temporaryDirectory()
  const { store, cluster, runtime, path } = await withData(directory)
  await runtime.stop()
  const { eventually, effects, stop } = await startCrashingRuntime(store, directory, after)
  await cluster.create('VolumeSnapshot', snapshotDraft('one'))
  await eventually('the snapshot is ready', () => isReady(cluster, 'one'))
  if (isDeleted) {
    await cluster.delete('PersistentVolumeClaim', key('data'))
    await eventually('every volume is deleted', async () => (await cluster.list('PersistentVolume')).items.length === 0)
  } else {
    await cluster.create('Pod', writer)
    await eventually('the pod has changed the file', () => readFileSync(join(path, 'file'), 'utf8') === 'changed')
  }
  const image = join(directory, 'snapshots', namespace, await uidOf(cluster, 'one'), 'file')
  expect(readFileSync(image, 'utf8')).toBe('precious')
  expect([existsSync(path), readdirSync(join(directory, 'deferred', namespace))]).toEqual([!isDeleted, []])
  await stop()
  return effects.length
}

test.each([
  ['deleted', true],
  ['written to', false],
])(
  'a crash after any write keeps the image of a volume that is then %s',
  { timeout: 120_000 },
  async (_, isDeleted) => {
    const count = await runLifeCycle(Number.POSITIVE_INFINITY, isDeleted)
    expect(count).toBeGreaterThan(3)
    for (let after = 1; after <= Math.min(count, 8); after++) await runLifeCycle(after, isDeleted)
  },
)
