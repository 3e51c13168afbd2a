/**
 * Conformance: claims and volumes. Objects in use stay until they are no longer used. A claim binds only a volume that
 * is free or reserved for it. A volume whose claim is deleted is Released, and keeps its data if its policy is Retain.
 * kube-controller-manager binds claims, possibly only at its next resync (15 s).
 */
import { describe, expect, test } from 'vitest'
import type { Draft, ObjectKey, PersistentVolume, PersistentVolumeClaim } from '../../index.ts'
import { smallest } from './drafts.ts'
import { putQuota } from './quotas.ts'
import { eventually, keyOf, refusal, type Suite, stored, undisturbed, uniqueName } from './suite.ts'

const deadline = 55_000
const longTest = 150_000

type VolumeSpec = NonNullable<Draft<'PersistentVolume'>['spec']>

function helpersOf(suite: Suite) {
  const untilDeleted = (kind: 'PersistentVolume' | 'PersistentVolumeClaim', key: ObjectKey): Promise<void> =>
    eventually(async () => {
      if ((await suite.cluster().get(kind, key)) !== undefined) throw new Error(`${kind} ${key.name} is there`)
    }, deadline)

  const untilClaim = (key: ObjectKey, phase: string): Promise<PersistentVolumeClaim> =>
    eventually(async () => {
      const claim = await stored(suite.cluster(), 'PersistentVolumeClaim', key)
      expect(claim.status?.phase).toBe(phase)
      return claim
    }, deadline)

  const untilVolume = (key: ObjectKey, phase: string): Promise<PersistentVolume> =>
    eventually(async () => {
      const volume = await stored(suite.cluster(), 'PersistentVolume', key)
      expect(volume.status?.phase).toBe(phase)
      return volume
    }, deadline)

  const makeVolume = (spec: Partial<VolumeSpec> = {}): Promise<PersistentVolume> => {
    const draft = smallest.PersistentVolume('', uniqueName('conformance-'))
    suite.removeAfterwards('PersistentVolume', draft.metadata.name)
    // Without a class, so that the claim binds only by name.
    const merged = { ...draft.spec, storageClassName: '', ...spec }
    return suite.cluster().create('PersistentVolume', { ...draft, spec: merged })
  }

  const makeClaim = (
    namespace: string,
    name: string,
    volumeName?: string,
    storageClassName = '',
  ): Promise<PersistentVolumeClaim> => {
    const draft = smallest.PersistentVolumeClaim(namespace, name)
    const spec = { ...draft.spec, storageClassName, ...(volumeName === undefined ? {} : { volumeName }) }
    return suite.cluster().create('PersistentVolumeClaim', { ...draft, spec })
  }

  /** A volume and a claim that are bound to each other. */
  const bound = async (namespace: string, storageClassName = '') => {
    const volume = await makeVolume({ storageClassName })
    const claim = await makeClaim(namespace, 'data', volume.metadata.name, storageClassName)
    await untilVolume(keyOf(volume), 'Bound')
    return { volume: keyOf(volume), claim: await untilClaim(keyOf(claim), 'Bound') }
  }

  const changeVolume = (key: ObjectKey, change: (spec: VolumeSpec) => VolumeSpec): Promise<PersistentVolume> =>
    undisturbed(async () => {
      const volume = await stored(suite.cluster(), 'PersistentVolume', key)
      return suite.cluster().replace('PersistentVolume', { ...volume, spec: change(volume.spec ?? {}) })
    })

  /**
   * A pod that names a claim. With a node, it counts as using the claim, although this node does not exist and never
   * starts it.
   */
  const makePod = (namespace: string, name: string, claimName: string, nodeName?: string) => {
    const draft = smallest.Pod(namespace, name)
    const spec = {
      containers: [],
      ...draft.spec,
      terminationGracePeriodSeconds: 0,
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
      ...(nodeName === undefined ? {} : { nodeName }),
    }
    // For a moment, a new namespace has no service account, and accepts no Pod.
    return eventually(() => suite.cluster().create('Pod', { ...draft, spec }))
  }

  /** Changes the storage request of a bound claim. */
  const requestStorage = (key: ObjectKey, storage: string): Promise<PersistentVolumeClaim> =>
    undisturbed(async () => {
      const claim = await stored(suite.cluster(), 'PersistentVolumeClaim', key)
      const spec = { ...claim.spec, resources: { requests: { storage } } }
      return suite.cluster().replace('PersistentVolumeClaim', { ...claim, spec })
    })

  /** Writes a claim's status as its driver would. */
  const writeStatus = (key: ObjectKey, status: PersistentVolumeClaim['status']): Promise<PersistentVolumeClaim> =>
    undisturbed(async () => {
      const claim = await stored(suite.cluster(), 'PersistentVolumeClaim', key)
      return suite
        .cluster()
        .replaceStatus('PersistentVolumeClaim', { ...claim, status: { ...claim.status, ...status } })
    })

  return {
    untilDeleted,
    untilClaim,
    untilVolume,
    makeVolume,
    makeClaim,
    bound,
    changeVolume,
    makePod,
    requestStorage,
    writeStatus,
  }
}

/** How an API server handles claims and volumes, and how its controllers handle deleted ones. */
export function describeVolumes(suite: Suite): void {
  const { untilDeleted, makeVolume, makeClaim, changeVolume, makePod } = helpersOf(suite)

  describe('protection', () => {
    test('is on every claim and volume from creation on', async () => {
      const namespace = await suite.namespace()
      const claim = await makeClaim(namespace, 'data')
      expect(claim.metadata.finalizers).toContain('kubernetes.io/pvc-protection')
      const volume = await makeVolume()
      expect(volume.metadata.finalizers).toContain('kubernetes.io/pv-protection')
      expect(volume.status?.phase).toBe('Pending')
    })

    test('blocks the deletion of a claim while a pod with a node names it', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const claim = await makeClaim(namespace, 'data')
      const idle = await makeClaim(namespace, 'idle')
      const pod = await makePod(namespace, 'user', 'data', 'no-such-node')
      await suite.cluster().delete('PersistentVolumeClaim', keyOf(claim))
      await suite.cluster().delete('PersistentVolumeClaim', keyOf(idle))
      await untilDeleted('PersistentVolumeClaim', keyOf(idle))
      const terminating = await stored(suite.cluster(), 'PersistentVolumeClaim', keyOf(claim))
      expect(terminating.metadata.uid).toBe(claim.metadata.uid)
      expect(terminating.metadata.deletionTimestamp).toBeDefined()
      await suite.cluster().delete('Pod', keyOf(pod))
      await untilDeleted('PersistentVolumeClaim', keyOf(claim))
    })

    test('does not block the deletion for a pod without a node', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const claim = await makeClaim(namespace, 'data')
      await makePod(namespace, 'waiting', 'data')
      await suite.cluster().delete('PersistentVolumeClaim', keyOf(claim))
      await untilDeleted('PersistentVolumeClaim', keyOf(claim))
    })
  })

  describe('a volume', () => {
    test('must name its source, which never changes', async () => {
      const { spec, ...draft } = smallest.PersistentVolume('', uniqueName('conformance-'))
      const { csi: _csi, ...rest } = spec ?? {}
      await refusal(suite.cluster().create('PersistentVolume', { ...draft, spec: rest }), 'Invalid')
      const volume = await makeVolume()
      const csi = { driver: 'conformance.espalier.dev', volumeHandle: 'another' }
      await refusal(
        changeVolume(keyOf(volume), current => ({ ...current, csi })),
        'Invalid',
      )
      const deleted = await changeVolume(keyOf(volume), current => ({
        ...current,
        persistentVolumeReclaimPolicy: 'Delete',
      }))
      expect(deleted.spec?.persistentVolumeReclaimPolicy).toBe('Delete')
    })
  })
}

/** Which claim binds which volume: the work of kube-controller-manager or its replacement. */
export function describeBinding(suite: Suite): void {
  const {
    untilDeleted,
    untilClaim,
    untilVolume,
    makeVolume,
    makeClaim,
    bound,
    changeVolume,
    requestStorage,
    writeStatus,
  } = helpersOf(suite)

  describe('binding', () => {
    test('by name works in both directions, and the capacity is that of the volume', {
      timeout: longTest,
    }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const volume = await makeVolume({ capacity: { storage: '2Gi' } })
      const claim = await makeClaim(namespace, 'data', volume.metadata.name)
      const done = await untilClaim(keyOf(claim), 'Bound')
      expect(done.status).toMatchObject({ capacity: { storage: '2Gi' }, accessModes: ['ReadWriteOncePod'] })
      const { spec } = await untilVolume(keyOf(volume), 'Bound')
      expect(spec?.claimRef).toMatchObject({ namespace, name: 'data', uid: claim.metadata.uid })
    })

    test('waits for the volume that the claim names', { timeout: longTest }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const { metadata, ...draft } = smallest.PersistentVolume('', uniqueName('conformance-'))
      const claim = await makeClaim(namespace, 'data', metadata.name)
      expect(claim.status?.phase).toBe('Pending')
      suite.removeAfterwards('PersistentVolume', metadata.name)
      const spec = { ...draft.spec, storageClassName: '' }
      await suite.cluster().create('PersistentVolume', { ...draft, metadata, spec })
      await untilClaim(keyOf(claim), 'Bound')
    })

    test('uses a volume that names the claim, and no other claim gets it', { timeout: longTest }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const volume = await makeVolume({ claimRef: { kind: 'PersistentVolumeClaim', namespace, name: 'wanted' } })
      await untilVolume(keyOf(volume), 'Available')
      const other = await makeClaim(namespace, 'other', volume.metadata.name)
      const wanted = await makeClaim(namespace, 'wanted')
      await untilClaim(keyOf(wanted), 'Bound')
      expect((await untilClaim(keyOf(other), 'Pending')).status?.capacity).toBeUndefined()
      const { spec } = await untilVolume(keyOf(volume), 'Bound')
      expect(spec?.claimRef?.uid).toBe(wanted.metadata.uid)
    })

    test('of a retained volume to a new claim needs the reference to the old claim to be removed', {
      timeout: longTest,
    }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const { volume, claim } = await bound(namespace)
      await suite.cluster().delete('PersistentVolumeClaim', keyOf(claim))
      await untilDeleted('PersistentVolumeClaim', keyOf(claim))
      const released = await untilVolume(volume, 'Released')
      expect(released.spec?.claimRef?.uid).toBe(claim.metadata.uid)
      const again = await makeClaim(namespace, 'data', volume.name)
      await untilClaim(keyOf(again), 'Pending')
      expect((await stored(suite.cluster(), 'PersistentVolume', volume)).status?.phase).toBe('Released')
      await changeVolume(volume, spec => ({
        ...spec,
        claimRef: { kind: 'PersistentVolumeClaim', namespace, name: 'data' },
      }))
      await untilClaim(keyOf(again), 'Bound')
      const { spec } = await untilVolume(volume, 'Bound')
      expect(spec?.claimRef?.uid).toBe(again.metadata.uid)
      expect(spec?.csi?.volumeHandle).toBe(released.spec?.csi?.volumeHandle)
    })

    test('blocks the deletion of a volume until the claim is deleted', { timeout: longTest }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const { volume, claim } = await bound(namespace)
      await suite.cluster().delete('PersistentVolume', volume)
      const idle = await makeVolume()
      await suite.cluster().delete('PersistentVolume', keyOf(idle))
      await untilDeleted('PersistentVolume', keyOf(idle))
      const terminating = await stored(suite.cluster(), 'PersistentVolume', volume)
      expect(terminating.metadata.deletionTimestamp).toBeDefined()
      expect((await stored(suite.cluster(), 'PersistentVolumeClaim', keyOf(claim))).status?.phase).toBe('Bound')
      await suite.cluster().delete('PersistentVolumeClaim', keyOf(claim))
      await untilDeleted('PersistentVolume', volume)
    })

    test('without its volume is reported as Lost, and is Bound again when the volume exists again', {
      timeout: longTest,
    }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const { volume, claim } = await bound(namespace)
      await suite.cluster().delete('PersistentVolume', volume)
      await undisturbed(async () => {
        const { metadata, ...rest } = await stored(suite.cluster(), 'PersistentVolume', volume)
        await suite.cluster().replace('PersistentVolume', { ...rest, metadata: { ...metadata, finalizers: [] } })
      })
      await untilClaim(keyOf(claim), 'Lost')
      const { spec, ...draft } = smallest.PersistentVolume('', volume.name)
      const { uid = '' } = claim.metadata
      const claimRef = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name: 'data', uid }
      await suite.cluster().create('PersistentVolume', { ...draft, spec: { ...spec, storageClassName: '', claimRef } })
      await untilClaim(keyOf(claim), 'Bound')
    })
  })

  describe('the request of a bound claim', () => {
    test('never falls below the granted size, and grows only in a class that allows it', {
      timeout: longTest,
    }, async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const { claim } = await bound(namespace)
      const shrunk = await refusal(requestStorage(keyOf(claim), '512Mi'), 'Invalid')
      expect(shrunk.message).toContain(
        'spec.resources.requests.storage: Forbidden: field can not be less than status.capacity',
      )
      const grown = await refusal(requestStorage(keyOf(claim), '2Gi'), 'Forbidden')
      expect(grown.message).toContain(
        'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize',
      )
    })

    test('is granted once the driver has grown the volume: until then the capacity is unchanged, and the request can be lowered again', {
      timeout: longTest,
    }, async context => {
      const { garbageCollection, growingClass } = suite.target()
      if (garbageCollection === false || growingClass === undefined) return context.skip()
      const namespace = await suite.namespace()
      const { volume, claim } = await bound(namespace, growingClass)
      const key = keyOf(claim)
      const requested = await requestStorage(key, '2Gi')
      expect([requested.spec?.resources?.requests?.storage, requested.status?.capacity?.storage]).toEqual([
        '2Gi',
        '1Gi',
      ])
      // The volume has grown in the storage, but the file system on the node has not grown yet.
      await changeVolume(volume, spec => ({ ...spec, capacity: { storage: '2Gi' } }))
      const condition = { type: 'FileSystemResizePending', status: 'True', message: 'waits for a pod' }
      await writeStatus(key, { allocatedResources: { storage: '2Gi' }, conditions: [condition] })
      // Another binding in the meantime must not change the result.
      const other = await makeVolume()
      await untilClaim(keyOf(await makeClaim(namespace, 'other', other.metadata.name)), 'Bound')
      const lagging = await stored(suite.cluster(), 'PersistentVolumeClaim', key)
      expect(lagging.status).toMatchObject({
        phase: 'Bound',
        capacity: { storage: '1Gi' },
        conditions: [{ type: 'FileSystemResizePending' }],
      })
      const back = await refusal(requestStorage(key, '1Gi'), 'Invalid')
      expect(back.message).toContain('field can not be less than status.capacity')
      expect((await requestStorage(key, '1536Mi')).status?.capacity?.storage).toBe('1Gi')
      await requestStorage(key, '2Gi')
      await writeStatus(key, { capacity: { storage: '2Gi' }, conditions: [] })
      const done = await stored(suite.cluster(), 'PersistentVolumeClaim', key)
      expect(done.status?.capacity?.storage).toBe('2Gi')
      expect(done.status?.conditions ?? []).toEqual([])
      await refusal(requestStorage(key, '1536Mi'), 'Invalid')
    })

    test('grows no further than a quota allows, and the growth counts', {
      timeout: longTest,
    }, async context => {
      const { garbageCollection, growingClass } = suite.target()
      if (garbageCollection === false || growingClass === undefined) return context.skip()
      const namespace = await suite.namespace()
      await putQuota(suite, namespace, 'room', { 'requests.storage': '3Gi' })
      const { claim } = await bound(namespace, growingClass)
      await requestStorage(keyOf(claim), '2Gi')
      const error = await refusal(requestStorage(keyOf(claim), '4Gi'), 'Forbidden')
      expect(error.message).toContain(
        'exceeded quota: room, requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi',
      )
      await makeClaim(namespace, 'other')
      await refusal(makeClaim(namespace, 'another'), 'Forbidden')
    })
  })
}
