/** Deleting a claim or a volume loses no data: what happens at once, at the next stop, and in the end. */
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError, type PersistentVolume } from '../../cluster/index.ts'
import { desiredHash, labels, type ManagedDatabase } from '../../crds/index.ts'
import { reclaimPolicyAnnotation } from '../member/storage/persistent-volume.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testNamespace } from '../testing/installation.ts'

let isVolumeBlocked = false
/** Blocks the operator's writes to volumes while it is set. */
const blocking = (cluster: Cluster): Cluster => ({
  ...cluster,
  replace: (kind, object) =>
    isVolumeBlocked && kind === 'PersistentVolume'
      ? Promise.reject(new ClusterError('Unavailable', 'held'))
      : cluster.replace(kind, object),
})

const it = useInstallation({ wrap: blocking })
const open = { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }
const key = (name: string) => ({ namespace: testNamespace, name })
const large = { size: { name: 'large', version: 1 } }

const claimOf = (name: string) => it.child('PersistentVolumeClaim', name, 'claim')
const podOf = (name: string) => it.child('Pod', name, 'pod')

async function volumesOf(id: string): Promise<PersistentVolume[]> {
  const { items } = await it.cluster().list('PersistentVolume', { labels: { [labels.database]: id } })
  return items
}

const deleteClaim = async (name: string) => {
  const claim = await claimOf(name)
  await it.cluster().delete('PersistentVolumeClaim', key(claim?.metadata.name ?? ''))
}
const deleteVolume = async (name: string) => {
  const claim = await claimOf(name)
  await it.cluster().delete('PersistentVolume', { name: claim?.spec?.volumeName ?? '' })
}
const deleteBoth = async (name: string) => {
  await deleteVolume(name)
  await deleteClaim(name)
}

/** Once a stop would cost nothing. */
const isSecured = (database: ManagedDatabase): boolean =>
  condition(database, 'VolumeReady')?.message.includes('no data are lost') === true

/** Stopped, on its previous volume or a copy of it, through another claim. */
async function expectRescued(name: string, before: ManagedDatabase): Promise<void> {
  const { uid: handle = '', systemIdentifier } = before.status?.volume ?? {}
  const after = await it.when(
    name,
    ({ spec, status }) =>
      status?.appliedHash === desiredHash(spec) && status?.operation === undefined && status.volume?.uid !== handle,
  )
  const claim = await claimOf(name)
  expect(after.status?.volume).toEqual({
    claim: before.status?.volume?.claim,
    uid: claim?.metadata.uid,
    volumeName: claim?.spec?.volumeName,
    systemIdentifier,
  })
  await it.when(name, found => isPhase('available')(found) && hasCondition('VolumeReady', 'Bound')(found))
  const [volume, ...others] = await eventually(
    async () => volumesOf(await it.idOf(name)),
    found => found.length === 1 && found[0]?.spec?.persistentVolumeReclaimPolicy === 'Delete',
  )
  expect(others).toEqual([])
  expect(volume?.metadata.annotations?.[reclaimPolicyAnnotation]).toBeUndefined()
  expect(volume?.spec?.csi?.volumeHandle).toBe(handle)
  expect(it.workload().postgres.data.get(handle)?.systemIdentifier).toBe(systemIdentifier)
  expect([...it.workload().postgres.initialised.values()].every(count => count === 1)).toBe(true)
}

const untilReconciled = (name: string) =>
  it.when(name, found => found.status?.operation === undefined && found.status?.volume?.volumeName !== undefined)

describe('a volume', () => {
  test('has owner annotations, and is recorded by name', async () => {
    await it.create('named', open)
    const { status } = await untilReconciled('named')
    const claim = await claimOf('named')
    expect(status?.volume?.volumeName).toBe(claim?.spec?.volumeName)
    const [volume] = await eventually(
      async () => volumesOf(await it.idOf('named')),
      found => found.length === 1,
    )
    expect(volume?.metadata.name).toBe(claim?.spec?.volumeName)
    expect(volume?.spec?.persistentVolumeReclaimPolicy).toBe('Delete')
  })
})

describe.each([
  ['claim', deleteClaim],
  ['volume', deleteVolume],
  ['claim and volume', deleteBoth],
] as const)('a %s deleted by another client', (what, remove) => {
  const nameOf = (how: string) => `${what.replaceAll(' ', '')}${how}`
  const endangered = async (how: string) => {
    const name = nameOf(how)
    await it.create(name, open)
    const before = await untilReconciled(name)
    const pod = await podOf(name)
    await remove(name)
    return { name, before, pod }
  }

  test('is retained at once while Postgres serves, and a condition reports it', async () => {
    const { name, pod } = await endangered('told')
    const reported = await it.when(name, isSecured)
    expect(condition(reported, 'VolumeReady')).toMatchObject({ status: 'False', reason: 'VolumeBeingDeleted' })
    expect(condition(reported, 'Ready')?.status).toBe('True')
    expect(reported.status?.phase).toBe('degraded')
    for (const volume of await volumesOf(await it.idOf(name))) {
      expect(volume.spec?.persistentVolumeReclaimPolicy).toBe('Retain')
      expect(volume.metadata.annotations?.[reclaimPolicyAnnotation]).toBe('Delete')
    }
    expect((await podOf(name))?.metadata.uid).toBe(pod?.metadata.uid)
    expect(it.workload().postgres.initialised.get(reported.status?.volume?.uid ?? '')).toBe(1)
  })

  test('gets a new claim when the database is resized', async () => {
    const { name, before } = await endangered('resized')
    await it.when(name, isSecured)
    await editSpec(it.cluster(), name, spec => ({ ...spec, ...large }))
    await expectRescued(name, before)
    const tasks = await it.tasksOf(name)
    expect(tasks.find(({ spec }) => spec.name === 'update-managed-size')?.status?.phase).toBe('succeeded')
  })

  test('gets a new claim when the database is suspended, and serves with it afterwards', async () => {
    const { name, before } = await endangered('suspended')
    await editSpec(it.cluster(), name, spec => ({ ...spec, suspended: true }))
    await it.when(
      name,
      found => isPhase('suspended')(found) && found.status?.volume?.uid !== before.status?.volume?.uid,
    )
    await editSpec(it.cluster(), name, spec => ({ ...spec, suspended: false }))
    await expectRescued(name, before)
  })

  test('gets a new claim when the pod stops for another reason', async () => {
    const { name, before, pod } = await endangered('crashed')
    await it.when(name, isSecured)
    await it.cluster().delete('Pod', key(pod?.metadata.name ?? ''))
    await expectRescued(name, before)
  })

  test('is deleted with its data when the database is deleted', async () => {
    const { name, before } = await endangered('torndown')
    const id = await it.idOf(name)
    await it.when(name, isSecured)
    await it.cluster().delete('ManagedDatabase', key(name))
    await it.untilDeleted(name)
    await eventually(
      () => volumesOf(id),
      found => found.length === 0,
    )
    expect(it.workload().postgres.data.has(before.status?.volume?.uid ?? '')).toBe(false)
  })

  test('is retained before any request stops its pod', async () => {
    isVolumeBlocked = true
    try {
      const { name, before, pod } = await endangered('held')
      await it.when(name, hasCondition('VolumeReady', 'VolumeBeingDeleted'))
      for (const change of [large, { suspended: true }]) {
        const edited = await editSpec(it.cluster(), name, spec => ({ ...spec, ...change }))
        await it.when(name, found => found.status?.observedGeneration === edited.metadata.generation)
        expect((await it.child('StatefulSet', name, 'statefulSet'))?.spec?.replicas).toBe(1)
        expect((await podOf(name))?.metadata.uid).toBe(pod?.metadata.uid)
      }
      const blocked = await it.database(name)
      expect(condition(blocked, 'Progressing')).toMatchObject({ status: 'True', reason: 'VolumeBeingDeleted' })
      isVolumeBlocked = false
      // It is retried later; any change triggers a retry now.
      await editSpec(it.cluster(), name, spec => ({ ...spec, displayName: 'Held' }))
      await it.when(name, isPhase('suspended'))
      await editSpec(it.cluster(), name, spec => ({ ...spec, suspended: false }))
      await expectRescued(name, before)
    } finally {
      isVolumeBlocked = false
    }
  })
})

describe('a suspended database', () => {
  test('keeps its volume when another client deletes its unused claim', async () => {
    await it.create('resting', open)
    const before = await untilReconciled('resting')
    await editSpec(it.cluster(), 'resting', spec => ({ ...spec, suspended: true }))
    await it.when('resting', isPhase('suspended'))
    await eventually(
      async () => volumesOf(await it.idOf('resting')),
      ([volume]) => volume?.spec?.persistentVolumeReclaimPolicy === 'Retain',
    )
    await deleteClaim('resting')
    await it.when('resting', found => found.status?.volume?.uid !== before.status?.volume?.uid)
    await editSpec(it.cluster(), 'resting', spec => ({ ...spec, suspended: false }))
    await expectRescued('resting', before)
  })

  test('leaves no objects when it is deleted', async () => {
    await it.create('restingend', open)
    const before = await untilReconciled('restingend')
    const id = await it.idOf('restingend')
    await editSpec(it.cluster(), 'restingend', spec => ({ ...spec, suspended: true }))
    await it.when('restingend', isPhase('suspended'))
    await it.cluster().delete('ManagedDatabase', key('restingend'))
    await it.untilDeleted('restingend')
    await eventually(
      () => volumesOf(id),
      found => found.length === 0,
    )
    expect(it.workload().postgres.data.has(before.status?.volume?.uid ?? '')).toBe(false)
  })
})

describe('a volume without a storage class', () => {
  test('gets a claim without a class even if the cluster has a default class', async () => {
    await it.create('classless', open)
    const before = await untilReconciled('classless')
    const [volume] = await eventually(
      async () => volumesOf(await it.idOf('classless')),
      found => found.length === 1,
    )
    if (volume === undefined) throw new Error('no volume')
    const { storageClassName: _, ...spec } = volume.spec ?? {}
    await it.cluster().replace('PersistentVolume', { ...volume, spec })
    await deleteClaim('classless')
    await it.when('classless', isSecured)
    await editSpec(it.cluster(), 'classless', edited => ({ ...edited, suspended: true }))
    await it.when('classless', found => found.status?.volume?.uid !== before.status?.volume?.uid)
    expect((await claimOf('classless'))?.spec?.storageClassName).toBe('')
    await editSpec(it.cluster(), 'classless', edited => ({ ...edited, suspended: false }))
    await expectRescued('classless', before)
  })
})

describe('a claim that was deleted by force', () => {
  test.each(['Retain', 'Delete'] as const)('is lost only if the volume with policy %s is deleted too', async policy => {
    const name = `forced${policy.toLowerCase()}`
    await it.create(name, open)
    const before = await untilReconciled(name)
    const claim = await claimOf(name)
    const [volume] = await volumesOf(await it.idOf(name))
    if (claim === undefined || volume === undefined) throw new Error('no claim or volume')
    // An administrator deletes the claim by force under a running Postgres.
    const spec = { ...volume.spec, persistentVolumeReclaimPolicy: policy }
    await it.cluster().replace('PersistentVolume', { ...volume, spec })
    await it.deleteClaimByForce(key(claim.metadata.name))
    const after = await it.when(name, found => found.status?.volume?.uid !== before.status?.volume?.uid)
    expect(after.status?.volume?.systemIdentifier).toBe(before.status?.volume?.systemIdentifier)
    await it.when(name, isPhase('available'))
    expect(it.workload().postgres.data.get(before.status?.volume?.uid ?? '')?.systemIdentifier).toBe(
      before.status?.volume?.systemIdentifier,
    )
  })
})

describe('another claim with the name of the recorded one', () => {
  /** While no operator runs, a client deletes the claim by force and creates another; Postgres still runs. */
  const usurped = async (name: string) => {
    await it.create(name, open)
    const before = await untilReconciled(name)
    const pod = await podOf(name)
    const { name: claim = '' } = (await claimOf(name))?.metadata ?? {}
    await it.stopOperator()
    await it.deleteClaimByForce(key(claim))
    await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { ...key(claim), labels: { [labels.database]: await it.idOf(name) } },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    })
    await it.startOperator()
    await it.when(name, hasCondition('VolumeReady', 'VolumeLost'))
    const runs = async () => {
      expect((await it.child('StatefulSet', name, 'statefulSet'))?.spec?.replicas).toBe(1)
      expect((await podOf(name))?.metadata.uid).toBe(pod?.metadata.uid)
    }
    return { before, claim, runs }
  }

  test('does not stop Postgres, whose volume is retained, and is replaced by a claim for that volume', async () => {
    const { before, claim, runs } = await usurped('usurped')
    await runs()
    const reported = await it.when('usurped', found =>
      /are retained/.test(condition(found, 'VolumeReady')?.message ?? ''),
    )
    expect(condition(reported, 'VolumeReady')?.message).toContain(
      'Postgres still runs, and the operator does not stop it',
    )
    const [volume] = await volumesOf(await it.idOf('usurped'))
    expect(volume?.spec?.persistentVolumeReclaimPolicy).toBe('Retain')
    // Nor for another size.
    const edited = await editSpec(it.cluster(), 'usurped', spec => ({ ...spec, ...large }))
    await it.when('usurped', found => found.status?.observedGeneration === edited.metadata.generation)
    await runs()
    // As the condition describes.
    await editSpec(it.cluster(), 'usurped', spec => ({ ...spec, suspended: true }))
    await eventually(
      () => podOf('usurped'),
      pod => pod === undefined,
    )
    await it.cluster().delete('PersistentVolumeClaim', key(claim))
    await it.when('usurped', found => found.status?.volume?.uid !== before.status?.volume?.uid)
    await editSpec(it.cluster(), 'usurped', spec => ({ ...spec, suspended: false }))
    await expectRescued('usurped', before)
  })

  test('allows a suspension to stop Postgres only after the volume is retained', async () => {
    isVolumeBlocked = true
    try {
      const { before, runs } = await usurped('usurpedheld')
      const edited = await editSpec(it.cluster(), 'usurpedheld', spec => ({ ...spec, suspended: true }))
      await it.when('usurpedheld', found => found.status?.observedGeneration === edited.metadata.generation)
      await runs()
      isVolumeBlocked = false
      await editSpec(it.cluster(), 'usurpedheld', spec => ({ ...spec, displayName: 'Held' }))
      await eventually(
        () => podOf('usurpedheld'),
        pod => pod === undefined,
      )
      expect(it.workload().postgres.data.has(before.status?.volume?.uid ?? '')).toBe(true)
    } finally {
      isVolumeBlocked = false
    }
  })
})
