/**
 * Volumes represent directories. As configured, they outlive their claims or are deleted with them. No data are lost.
 */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Cluster, PersistentVolume } from '../../../cluster/index.ts'
import {
  claim,
  key,
  namespace,
  openTestCluster,
  openTestStore,
  phase,
  pod,
  ready,
  script,
  startTestRuntime,
  staying,
  temporaryDirectory,
  text,
  until,
  untilClaim,
  untilPod,
} from '../testing/runtime.ts'

async function untilVolume(
  cluster: Cluster,
  name: string,
  condition: (volume: PersistentVolume) => boolean,
): Promise<PersistentVolume> {
  let found: PersistentVolume | undefined
  await until(async () => {
    found = await cluster.get('PersistentVolume', { name })
    return found !== undefined && condition(found)
  })
  if (found === undefined) throw new Error(`volume ${name} is not there`)
  return found
}

const inPhase = (wanted: string) => (volume: PersistentVolume) => volume.status?.phase === wanted
const untilDeleted = (cluster: Cluster, kind: 'PersistentVolume' | 'PersistentVolumeClaim', name: string) =>
  until(async () => (await cluster.get(kind, key(name))) === undefined)

/** Updates the volume's current version. */
async function change(
  cluster: Cluster,
  name: string,
  alter: (spec: NonNullable<PersistentVolume['spec']>) => PersistentVolume['spec'],
): Promise<void> {
  for (;;) {
    const volume = await cluster.get('PersistentVolume', { name })
    if (volume === undefined) throw new Error(`volume ${name} is not there`)
    const spec = alter(volume.spec ?? {})
    const written = await cluster.replace('PersistentVolume', { ...volume, ...(spec && { spec }) }).catch(error => {
      if (error.reason !== 'Conflict') throw error
    })
    if (written !== undefined) return
  }
}

const directoryOf = (directory: string, { spec }: PersistentVolume): string =>
  join(directory, 'volumes', spec?.csi?.volumeHandle ?? '')

/** A bound claim with a file in its volume. */
async function written(cluster: Cluster, directory: string, content = 'precious') {
  await cluster.create('PersistentVolumeClaim', claim('data', { storageClassName: 'local' }))
  const bound = await untilClaim(cluster, 'data')
  const volume = await untilVolume(cluster, bound.spec?.volumeName ?? '', inPhase('Bound'))
  const path = directoryOf(directory, volume)
  writeFileSync(join(path, 'file'), content)
  return { bound, volume, name: volume.metadata.name, path }
}

const users = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]
const volumeMounts = [{ name: 'data', mountPath: '/data' }]

/** What a pod reads from the claim's volume. */
async function readThroughPod(cluster: Cluster, logs: (pod: object) => Promise<string[]>): Promise<string> {
  const containers = [script("console.log(require('fs').readFileSync('/data/file', 'utf8'))", { volumeMounts })]
  await cluster.create('Pod', pod('reader', { restartPolicy: 'Never', volumes: users, containers }))
  await untilPod(cluster, 'reader', phase('Succeeded'))
  const [line = ''] = await logs(key('reader'))
  await cluster.delete('Pod', key('reader'))
  return text(line)
}

test('a claim gets a volume that represents its directory', async () => {
  const { cluster, directory } = await openTestCluster()
  const { bound, volume, path } = await written(cluster, directory)
  expect(volume).toMatchObject({
    metadata: {
      name: `pvc-${bound.metadata.uid}`,
      annotations: { 'pv.kubernetes.io/provisioned-by': 'local.espalier.dev' },
    },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOncePod'],
      persistentVolumeReclaimPolicy: 'Delete',
      storageClassName: 'local',
      claimRef: { kind: 'PersistentVolumeClaim', namespace, name: 'data', uid: bound.metadata.uid },
      csi: { driver: 'local.espalier.dev' },
    },
  })
  expect(volume.metadata.finalizers).toContain('kubernetes.io/pv-protection')
  expect(existsSync(path)).toBe(true)
  expect(bound.metadata.annotations).toMatchObject({ 'pv.kubernetes.io/bind-completed': 'yes' })
})

test('a retained volume outlives its claim, and the next claim reserved for it finds all data', async () => {
  const { cluster, runtime, directory } = await openTestCluster()
  const { volume, name, path } = await written(cluster, directory)
  await change(cluster, name, spec => ({ ...spec, persistentVolumeReclaimPolicy: 'Retain' }))
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await untilDeleted(cluster, 'PersistentVolumeClaim', 'data')
  await untilVolume(cluster, name, inPhase('Released'))
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')

  // A claim that only has the old name gets no data of the volume.
  await change(cluster, name, spec => ({
    ...spec,
    claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name: 'data' },
  }))
  await untilVolume(cluster, name, inPhase('Available'))
  const wanted = { storageClassName: 'local', volumeName: name }
  await cluster.create('PersistentVolumeClaim', claim('stranger', wanted))
  await cluster.create('PersistentVolumeClaim', claim('data', wanted))
  const again = await untilClaim(cluster, 'data')
  const rebound = await untilVolume(cluster, name, inPhase('Bound'))
  expect(rebound.spec?.claimRef?.uid).toBe(again.metadata.uid)
  expect(rebound.spec?.csi).toEqual(volume.spec?.csi)
  expect(await readThroughPod(cluster, object => runtime.logs(object as { name: string }))).toBe('precious')
  expect((await cluster.get('PersistentVolumeClaim', key('stranger')))?.status?.phase).toBe('Pending')

  // The name of the directory no longer contains the claim's uid. The directory is still deleted with its volume.
  await change(cluster, name, spec => ({ ...spec, persistentVolumeReclaimPolicy: 'Delete' }))
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await untilDeleted(cluster, 'PersistentVolume', name)
  expect(existsSync(path)).toBe(false)
})

test('a volume set to Retain while its claim waits for a pod is retained', async () => {
  const { cluster, directory } = await openTestCluster()
  const { name, path } = await written(cluster, directory)
  await cluster.create('Pod', pod('p', { volumes: users, containers: [script(staying)] }))
  await untilPod(cluster, 'p', ready)
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await untilClaim(cluster, 'data', ({ metadata }) => metadata.deletionTimestamp !== undefined)
  await change(cluster, name, spec => ({ ...spec, persistentVolumeReclaimPolicy: 'Retain' }))
  await cluster.delete('Pod', key('p'))
  await untilDeleted(cluster, 'PersistentVolumeClaim', 'data')
  await untilVolume(cluster, name, inPhase('Released'))
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')
})

test('a pod is not scheduled while its claim is being deleted, so the claim can be deleted', async () => {
  const { cluster, directory } = await openTestCluster()
  const { name } = await written(cluster, directory)
  await cluster.create('Pod', pod('p', { volumes: users, containers: [script(staying)] }))
  await untilPod(cluster, 'p', ready)
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await cluster.create('Pod', pod('q', { volumes: users, containers: [script(staying)] }))
  const waiting = await untilPod(cluster, 'q', ({ status }) => status?.conditions !== undefined)
  expect(waiting.spec?.nodeName).toBeUndefined()
  expect(waiting.status?.conditions).toMatchObject([
    {
      ...{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' },
      message: 'persistentvolumeclaim "data" is being deleted',
    },
  ])
  await cluster.delete('Pod', key('p'))
  await untilDeleted(cluster, 'PersistentVolumeClaim', 'data')
  await untilDeleted(cluster, 'PersistentVolume', name)
  await cluster.create('PersistentVolumeClaim', claim('data'))
  await untilPod(cluster, 'q', ready)
})

test('a volume deleted by force keeps its directory, and the claim reports that it is lost', async () => {
  const { cluster, runtime, directory } = await openTestCluster()
  const { bound, volume, name, path } = await written(cluster, directory)
  await cluster.delete('PersistentVolume', { name })
  const { metadata, ...rest } = await untilVolume(
    cluster,
    name,
    ({ metadata }) => metadata.deletionTimestamp !== undefined,
  )
  await cluster.replace('PersistentVolume', { ...rest, metadata: { ...metadata, finalizers: [] } })
  await untilClaim(cluster, 'data', ({ status }) => status?.phase === 'Lost')
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')
  const { spec } = volume
  await cluster.create('PersistentVolume', {
    ...{ apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name } },
    ...(spec && { spec: { ...spec, claimRef: { ...spec.claimRef, uid: bound.metadata.uid ?? '' } } }),
  })
  await untilClaim(cluster, 'data')
  expect(await readThroughPod(cluster, object => runtime.logs(object as { name: string }))).toBe('precious')
})

test('a directory that another volume also names is kept', async () => {
  const { cluster, directory } = await openTestCluster()
  const { volume, name, path } = await written(cluster, directory)
  const { claimRef: _claimRef, ...spec } = volume.spec ?? {}
  await cluster.create('PersistentVolume', {
    ...{ apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'copy' } },
    spec: { ...spec, persistentVolumeReclaimPolicy: 'Retain' },
  })
  await untilVolume(cluster, 'copy', inPhase('Available'))
  await cluster.delete('PersistentVolumeClaim', key('data'))
  await untilDeleted(cluster, 'PersistentVolume', name)
  expect(readFileSync(join(path, 'file'), 'utf8')).toBe('precious')
})

test('a volume with an invalid handle, or of another driver, is bound but never touched', async () => {
  const { cluster, directory } = await openTestCluster()
  const outside = join(directory, 'outside')
  mkdirSync(outside)
  const made = [
    { driver: 'local.espalier.dev', volumeHandle: '../outside' },
    { driver: 'local.espalier.dev', volumeHandle: `${namespace}/../../outside` },
    { driver: 'elsewhere.example.com', volumeHandle: `${namespace}/one` },
  ]
  for (const [index, csi] of made.entries()) {
    const name = `foreign-${index}`
    await cluster.create('PersistentVolume', {
      ...{ apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name } },
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOncePod'],
        persistentVolumeReclaimPolicy: 'Delete',
        csi,
      },
    })
    await cluster.create('PersistentVolumeClaim', claim(name, { volumeName: name }))
    await untilClaim(cluster, name)
    await cluster.create(
      'Pod',
      pod(name, {
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
        containers: [script(staying)],
      }),
    )
    const waiting = await untilPod(cluster, name, ({ status }) => status?.message !== undefined)
    expect(waiting.status?.message).toContain('is not of the driver local.espalier.dev')
    await cluster.delete('Pod', key(name))
    await cluster.delete('PersistentVolumeClaim', key(name))
    await untilVolume(cluster, name, inPhase('Released'))
  }
  expect(existsSync(outside)).toBe(true)
})

test('claims bound before PersistentVolumes existed get a volume, and no data are moved', async () => {
  const { store, cluster } = await openTestStore()
  const directory = temporaryDirectory()
  // The state of an earlier release: a bound claim, a claim with only a volume name, and a directory without owner.
  const old = async (name: string) => {
    const created = await cluster.create('PersistentVolumeClaim', claim(name))
    const spec = { ...created.spec, volumeName: `pvc-${created.metadata.uid}` }
    return cluster.replace('PersistentVolumeClaim', { ...created, spec })
  }
  const named = await old('data')
  const status = { phase: 'Bound', accessModes: ['ReadWriteOncePod'], capacity: { storage: '1Gi' } }
  await cluster.replaceStatus('PersistentVolumeClaim', { ...named, status })
  const begun = await old('begun')
  const path = join(directory, 'volumes', namespace, named.metadata.uid ?? '')
  const orphan = join(directory, 'volumes', namespace, 'orphan')
  for (const each of [path, orphan]) mkdirSync(each, { recursive: true })
  writeFileSync(join(path, 'file'), 'precious')
  const { ino } = statSync(path)

  const runtime = await startTestRuntime(store, { directory })
  const bound = await untilClaim(cluster, 'data')
  const volume = await untilVolume(cluster, bound.spec?.volumeName ?? '', inPhase('Bound'))
  expect(volume.spec).toMatchObject({
    claimRef: { name: 'data', uid: named.metadata.uid },
    csi: { volumeHandle: `${namespace}/${named.metadata.uid}` },
    persistentVolumeReclaimPolicy: 'Delete',
  })
  expect(statSync(path).ino).toBe(ino)
  expect(await readThroughPod(cluster, object => runtime.logs(object as { name: string }))).toBe('precious')
  await untilClaim(cluster, 'begun')
  expect(existsSync(join(directory, 'volumes', namespace, begun.metadata.uid ?? ''))).toBe(true)

  await cluster.delete('PersistentVolumeClaim', key('data'))
  await untilDeleted(cluster, 'PersistentVolume', volume.metadata.name)
  expect(existsSync(path)).toBe(false)
  expect(existsSync(orphan)).toBe(true)
})
