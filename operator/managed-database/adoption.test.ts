/**
 * The ownership of a database's children: no garbage collector deletes them. They keep their owner after an upgrade
 * from a version that set owner references, and after a database was recreated with another uid.
 */
import { describe, expect, test } from 'vitest'
import { type AnyObject, type Cluster, ClusterError, type KindName } from '../../cluster/index.ts'
import {
  apiVersion,
  childNames,
  desiredHash,
  labels,
  type ManagedDatabase,
  systemNamespace,
  teardownFinalizer,
} from '../../crds/index.ts'
import { sealingKeySecret } from '../../sealing/credentials.ts'
import { templateAnnotation } from '../member/pod/stateful-set.ts'
import { systemIdentifierAnnotation } from '../member/storage/claim.ts'
import { ownerKeyAnnotation, ownerUidAnnotation } from '../objects/ownership.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testNamespace } from '../testing/installation.ts'

/** A user's admission policy that refuses every write to one object. */
const guarded = 'copied-by-somebody'
const it = useInstallation({
  wrap: cluster => ({
    ...cluster,
    replace: (kind, object) =>
      object.metadata.name === guarded
        ? Promise.reject(new ClusterError('Forbidden', 'a policy says no'))
        : cluster.replace(kind, object),
  }),
})
const open = { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }
const key = (name: string) => ({ namespace: testNamespace, name })
const kinds = ['PersistentVolumeClaim', 'Secret', 'StatefulSet', 'Service', 'NetworkPolicy', 'ConfigMap'] as const

async function childrenOf(id: string): Promise<AnyObject[]> {
  const lists = await Promise.all(kinds.map(kind => it.cluster().list(kind, { labels: { [labels.database]: id } })))
  return lists.flatMap(({ items }) => items as AnyObject[])
}

const ownersOf = (children: readonly AnyObject[]): (string | undefined)[] => [
  ...new Set(children.map(({ metadata }) => metadata.annotations?.[ownerUidAnnotation])),
]

const foreign = { apiVersion: 'example.com/v1', kind: 'Application', name: 'theirs', uid: 'their-uid' }

/** Every child as earlier versions left it: with a controller reference, and without our annotations. */
async function asBefore(cluster: Cluster, { metadata }: ManagedDatabase, id: string): Promise<AnyObject[]> {
  const reference = {
    apiVersion,
    kind: 'ManagedDatabase',
    name: metadata.name,
    uid: metadata.uid ?? '',
    controller: true,
  }
  const children = (await childrenOf(id)).filter(child => child.metadata.namespace === testNamespace)
  for (const child of children) {
    const { [ownerUidAnnotation]: _, [ownerKeyAnnotation]: __, ...annotations } = child.metadata.annotations ?? {}
    const retained = Object.entries(annotations).filter(([name]) => name !== systemIdentifierAnnotation)
    await cluster.replace(
      child.kind as KindName,
      {
        ...child,
        metadata: {
          ...child.metadata,
          annotations: Object.fromEntries(retained),
          ownerReferences: [foreign, reference],
        },
      } as never,
    )
  }
  return children
}

describe('a child', () => {
  test('has no owner reference, and names its owner by label and annotation', async () => {
    const { metadata } = await it.create('marked', open)
    const children = await childrenOf(await it.idOf('marked'))
    expect(new Set(children.map(({ kind }) => kind))).toEqual(new Set(kinds))
    for (const child of children) {
      expect(child.metadata.ownerReferences, child.metadata.name).toBeUndefined()
      expect(child.metadata.annotations, child.metadata.name).toMatchObject({
        [ownerUidAnnotation]: metadata.uid,
        [ownerKeyAnnotation]: `${testNamespace}/marked`,
      })
    }
  })

  test('is kept if a foreground deletion of its database is blocked', async () => {
    const before = await it.create('foreground', { ...open, deletionProtection: true })
    const children = await childrenOf(await it.idOf('foreground'))
    const pod = await it.child('Pod', 'foreground', 'pod')
    await it.cluster().delete('ManagedDatabase', key('foreground'), { propagation: 'Foreground' })
    const blocked = await it.when('foreground', hasCondition('DeletionBlocked', 'DeletionProtected'))
    expect(condition(blocked, 'Ready')?.status).toBe('True')
    // The garbage collector has finished with it.
    await it.when('foreground', found => found.metadata.finalizers?.includes('foregroundDeletion') === false)
    const uids = (objects: AnyObject[]) => objects.map(({ metadata }) => metadata.uid).sort()
    expect(uids(await childrenOf(await it.idOf('foreground')))).toEqual(uids(children))
    expect((await it.child('Pod', 'foreground', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    expect((await it.database('foreground'))?.status?.volume).toEqual(before.status?.volume)
    await editSpec(it.cluster(), 'foreground', spec => ({ ...spec, deletionProtection: false }))
    await it.untilDeleted('foreground')
  })
})

describe('an installation of an earlier version', () => {
  const upgraded = async (name: string, prepare: (database: ManagedDatabase) => Promise<unknown> = async () => {}) => {
    const database = await it.create(name, open)
    await it.when(name, found => found.status?.operation === undefined)
    const id = await it.idOf(name)
    await prepare(database)
    const pod = await it.child('Pod', name, 'pod')
    const set = await it.child('StatefulSet', name, 'statefulSet')
    await it.stopOperator()
    await asBefore(it.cluster(), database, id)
    await it.startOperator()
    const children = await eventually(
      () => childrenOf(id),
      found => found.every(({ metadata }) => metadata.annotations?.[ownerUidAnnotation] === database.metadata.uid),
    )
    const references = children.flatMap(({ metadata }) => metadata.ownerReferences ?? [])
    expect(references.filter(({ kind }) => kind === 'ManagedDatabase')).toEqual([])
    expect(references.every(({ uid }) => uid === foreign.uid) && references.length > 0).toBe(true)
    const now = await it.child('StatefulSet', name, 'statefulSet')
    expect(now?.spec?.template.metadata?.annotations?.[templateAnnotation]).toBe(
      set?.spec?.template.metadata?.annotations?.[templateAnnotation],
    )
    expect((await it.child('Pod', name, 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    return database
  }

  test('loses its owner references without a restart, a phase or a Task', async () => {
    const before = await upgraded('upgraded')
    const after = await it.when('upgraded', hasCondition('Ready', 'Serving'))
    expect(after.status).toMatchObject({ phase: 'available', volume: before.status?.volume })
    expect(await it.tasksOf('upgraded')).toHaveLength(1)
    const claim = await eventually(
      () => it.child('PersistentVolumeClaim', 'upgraded', 'claim'),
      found => found?.metadata.annotations?.[systemIdentifierAnnotation] !== undefined,
    )
    expect(claim?.metadata.annotations?.[systemIdentifierAnnotation]).toBe(before.status?.volume?.systemIdentifier)
  })

  test('loses its owner references while a foreground deletion is blocked', async () => {
    await upgraded('upgradedblocked', async () => {
      await editSpec(it.cluster(), 'upgradedblocked', spec => ({ ...spec, deletionProtection: true }))
      await it.cluster().delete('ManagedDatabase', key('upgradedblocked'))
      await it.when('upgradedblocked', hasCondition('DeletionBlocked', 'DeletionProtected'))
    })
  })

  test.each([
    ['suspended', { suspended: true }, isPhase('suspended')],
    ['of no region', { size: { name: 'nosuch', version: 1 } }, hasCondition('Progressing', 'SizeNotFound')],
  ] as const)('loses its owner references if it is %s', async (what, change, isExpected) => {
    const name = `upgraded${what.replaceAll(' ', '')}`
    await upgraded(name, async () => {
      await editSpec(it.cluster(), name, spec => ({ ...spec, ...change }))
      await it.when(name, isExpected)
    })
  })

  test("loses its owner references without the installation's keys, and nothing else is done", async () => {
    const name = 'upgradedkeyless'
    const secret = await it.cluster().get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
    if (secret === undefined) throw new Error('no key')
    const { uid: _, resourceVersion: __, ...metadata } = secret.metadata
    try {
      await upgraded(name, async () => {
        await it.cluster().delete('Secret', { namespace: systemNamespace, name: sealingKeySecret })
        await it.when(name, hasCondition('KeysAvailable', 'SealingKeyMissing'))
      })
      const claim = await it.child('PersistentVolumeClaim', name, 'claim')
      expect(claim?.metadata.annotations?.[systemIdentifierAnnotation]).toBeUndefined()
    } finally {
      await it.cluster().create('Secret', { ...secret, metadata })
    }
    await it.when(name, hasCondition('KeysAvailable', 'Present'))
  })

  test('loses its owner references if its volume is lost', async () => {
    const name = 'upgradedlost'
    const database = await it.create(name, open)
    const id = await it.idOf(name)
    await it.stopOperator()
    await asBefore(it.cluster(), database, id)
    const lost = await it.when(name, () => true)
    const volume = { claim: 'another', uid: 'that-is-gone', systemIdentifier: '1' }
    await it.cluster().replaceStatus('ManagedDatabase', { ...lost, status: { ...lost.status, volume } })
    await it.startOperator()
    await it.when(name, hasCondition('VolumeReady', 'VolumeLost'))
    expect(ownersOf(await childrenOf(id))).toEqual([database.metadata.uid])
  })
})

describe('a database recreated with another uid', () => {
  /** Deletes the object past all finalizers and recreates it, as a fault or a backup tool does. */
  const putBack = async (
    name: string,
    change: (database: ManagedDatabase) => Partial<ManagedDatabase> = () => ({}),
  ): Promise<ManagedDatabase> => {
    const before = await it.when(name, found => found.status?.operation === undefined)
    await it.stopOperator()
    await it.cluster().replace('ManagedDatabase', { ...before, metadata: { ...before.metadata, finalizers: [] } })
    await it.cluster().delete('ManagedDatabase', key(name))
    const { apiVersion: version, kind, metadata, spec, status } = { ...before, ...change(before) }
    const created = await it.cluster().create('ManagedDatabase', {
      apiVersion: version,
      kind,
      metadata: { ...key(name), labels: metadata.labels ?? {}, finalizers: [teardownFinalizer] },
      spec,
    })
    if (status) await it.cluster().replaceStatus('ManagedDatabase', { ...created, status })
    return created
  }

  test.each([
    ['with its status', (database: ManagedDatabase) => ({ status: database.status ?? {} })],
    ['without its status', () => ({ status: {} })],
  ])('%s adopts its children, and its data', async (what, change) => {
    const name = `back${what.split(' ')[0]}`
    const before = await it.create(name, open)
    const id = await it.idOf(name)
    const credentials = await it.child('Secret', name, 'credentials')
    const pod = await it.child('Pod', name, 'pod')
    const created = await putBack(name, change)
    await it.startOperator()
    const after = await it.when(name, found => isPhase('available')(found) && found.status?.appliedHash !== undefined)
    expect(after.metadata.uid).toBe(created.metadata.uid)
    expect(after.metadata.uid).not.toBe(before.metadata.uid)
    expect(await it.idOf(name)).toBe(id)
    expect(after.status?.volume).toEqual(before.status?.volume)
    expect(after.status?.endpoint).toEqual(before.status?.endpoint)
    await eventually(
      async () => ownersOf(await childrenOf(id)),
      owners => owners.length === 1 && owners[0] === created.metadata.uid,
    )
    expect((await it.child('Secret', name, 'credentials'))?.metadata.uid).toBe(credentials?.metadata.uid)
    expect((await it.child('Pod', name, 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    expect(it.workload().postgres.initialised.get(before.status?.volume?.uid ?? '')).toBe(1)
    await it.cluster().delete('ManagedDatabase', key(name))
    await it.untilDeleted(name)
    expect(await childrenOf(id)).toEqual([])
  })

  /** The claim as a backup tool recreates it: with the data, its annotations, and another uid. */
  const restoreClaim = async (id: string, annotations: (before: Record<string, string>) => Record<string, string>) => {
    const claimKey = key(childNames.claim(id, 1))
    const claim = await it.cluster().get('PersistentVolumeClaim', claimKey)
    if (claim === undefined) throw new Error('no claim')
    const data = it.workload().postgres.data.get(claim.metadata.uid ?? '')
    for (const kind of ['StatefulSet', 'Pod'] as const)
      await it.cluster().delete(kind, key(childNames[kind === 'Pod' ? 'pod' : 'statefulSet'](id, 1)))
    await it.cluster().delete('PersistentVolumeClaim', claimKey)
    await eventually(
      () => it.cluster().get('PersistentVolumeClaim', claimKey),
      found => found === undefined,
    )
    const { labels: objectLabels = {}, annotations: noted = {} } = claim.metadata
    const { volumeName: _, ...spec } = claim.spec ?? {}
    const restored = await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { ...claimKey, labels: objectLabels, annotations: annotations(noted) },
      spec,
    })
    if (data) it.workload().postgres.data.set(restored.metadata.uid ?? '', data)
    return restored
  }

  test.each([
    ['with its status', (database: ManagedDatabase) => ({ status: database.status ?? {} })],
    ['without its status', () => ({ status: {} })],
  ])('%s adopts a claim that was recreated too', async (what, change) => {
    const name = `claim${what.split(' ')[0]}`
    const before = await it.create(name, open)
    const id = await it.idOf(name)
    await putBack(name, change)
    const restored = await restoreClaim(id, noted => noted)
    await it.startOperator()
    const after = await it.when(
      name,
      found => isPhase('available')(found) && found.status?.volume?.uid === restored.metadata.uid,
    )
    expect(after.status?.volume?.systemIdentifier).toBe(before.status?.volume?.systemIdentifier)
    expect(it.workload().postgres.initialised.get(restored.metadata.uid ?? '')).toBeUndefined()
    await it.when(name, found => found.status?.appliedHash === desiredHash(found.spec))
  })

  test('does not start on a claim without owner annotations, which may be empty', async () => {
    await it.create('unsaid', open)
    const id = await it.idOf('unsaid')
    await putBack('unsaid', () => ({ status: {} }))
    const claim = await restoreClaim(id, ({ [systemIdentifierAnnotation]: _, ...noted }) => noted)
    it.workload().postgres.data.delete(claim.metadata.uid ?? '')
    await it.startOperator()
    await it.when('unsaid', hasCondition('VolumeReady', 'VolumeLost'))
    expect(it.workload().postgres.initialised.get(claim.metadata.uid ?? '')).toBeUndefined()
  })

  test('reports a lost volume if its claim does not name the recorded data', async () => {
    await it.create('marketed', open)
    const id = await it.idOf('marketed')
    await putBack('marketed', ({ status = {} }) => ({ status }))
    const claim = await restoreClaim(id, noted => ({ ...noted, [systemIdentifierAnnotation]: '1' }))
    await it.startOperator()
    await it.when('marketed', hasCondition('VolumeReady', 'VolumeLost'))
    const found = await it.child('PersistentVolumeClaim', 'marketed', 'claim')
    expect(found?.metadata.annotations).toEqual(claim.metadata.annotations)
  })

  test('with the id of an existing database adopts none of its children, even when it is deleted', async () => {
    const { metadata } = await it.create('living', open)
    const id = await it.idOf('living')
    const children = await childrenOf(id)
    await it.stopOperator()
    const { items } = await it.cluster().list('ManagedDatabase', { namespace: testNamespace })
    const living = items.find(item => item.metadata.uid === metadata.uid)
    if (living === undefined) throw new Error('no database')
    await it.cluster().create('ManagedDatabase', {
      ...{ apiVersion: living.apiVersion, kind: living.kind, spec: living.spec },
      metadata: { ...key('usurper'), labels: { [labels.id]: id }, finalizers: [teardownFinalizer] },
    })
    await it.cluster().delete('ManagedDatabase', key('usurper'))
    await it.startOperator()
    await it.untilDeleted('usurper')
    expect(ownersOf(await childrenOf(id))).toEqual([metadata.uid])
    expect((await childrenOf(id)).map(child => child.metadata.uid).sort()).toEqual(
      children.map(child => child.metadata.uid).sort(),
    )
    expect(
      await it.cluster().list('ConfigMap', { namespace: systemNamespace, labels: { [labels.database]: id } }),
    ).toMatchObject({ items: [expect.anything()] })
  })
})

describe('a database recreated without status beside a copy with its id and status', () => {
  /** Recreated unchanged, and the copy created, while no operator runs. */
  const putBackBeside = async (name: string, copy: { namespace: string; name: string }): Promise<ManagedDatabase> => {
    const before = await it.create(name, open)
    const { status, metadata } = await it.when(name, found => found.status?.operation === undefined)
    const id = await it.idOf(name)
    await it.stopOperator()
    const found = await it.database(name)
    if (found === undefined) throw new Error('no database')
    await it.cluster().replace('ManagedDatabase', { ...found, metadata: { ...found.metadata, finalizers: [] } })
    await it.cluster().delete('ManagedDatabase', key(name))
    const draft = { apiVersion, kind: 'ManagedDatabase' as const, spec: before.spec }
    const copied = await it.cluster().create('ManagedDatabase', {
      ...draft,
      metadata: { ...copy, labels: { [labels.id]: id } },
    })
    await it.cluster().replaceStatus('ManagedDatabase', { ...copied, ...(status ? { status } : {}) })
    await it.cluster().create('ManagedDatabase', {
      ...draft,
      metadata: { ...key(name), labels: metadata.labels ?? {}, finalizers: [teardownFinalizer] },
    })
    return before
  }
  const initialisations = () => [...it.workload().postgres.initialised.values()].length
  const claims = async () =>
    (await it.cluster().list('PersistentVolumeClaim')).items.map(claim => claim.metadata.uid).sort()

  test('in another namespace is the owner of the data in its own namespace', async () => {
    const [name, namespace] = ['homecoming', 'away']
    await it.cluster().create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    const before = await putBackBeside(name, { namespace, name })
    const [id, volumes, initialised] = [await it.idOf(name), await claims(), initialisations()]
    const pod = await it.child('Pod', name, 'pod')
    await it.startOperator()
    const after = await it.when(name, found => isPhase('available')(found) && found.status?.appliedHash !== undefined)
    expect(await it.idOf(name)).toBe(id)
    expect(after.status?.volume).toEqual(before.status?.volume)
    expect(after.status?.endpoint).toEqual(before.status?.endpoint)
    expect((await it.child('Pod', name, 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    const copy = { namespace, name }
    const lost = await eventually(
      () => it.cluster().get('ManagedDatabase', copy),
      found => condition(found, 'VolumeReady')?.reason === 'VolumeLost',
    )
    expect(lost?.status?.phase).toBe('failed')
    expect([await claims(), initialisations()]).toEqual([volumes, initialised])
    // Its deletion deletes nothing of the other database.
    await it.cluster().delete('ManagedDatabase', copy)
    await eventually(
      () => it.cluster().get('ManagedDatabase', copy),
      found => found === undefined,
    )
    expect((await it.child('Pod', name, 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    expect(await claims()).toEqual(volumes)
  })

  test.each(['deleted', 'without its label'])(
    'beside it waits, reports that, and starts on no empty volume: until the copy is %s',
    async how => {
      const name = `twin${how.length}`
      const copy = `${name}copy`
      const before = await putBackBeside(name, key(copy))
      const [id, volumes, initialised] = [await it.idOf(name), await claims(), initialisations()]
      const pod = await it.child('Pod', name, 'pod')
      await it.startOperator()
      const reported = await it.when(name, hasCondition('VolumeReady', 'IdContested'))
      await it.when(copy, hasCondition('VolumeReady', 'IdContested'))
      expect(condition(reported, 'Ready')?.message).toContain(`${copy} beside ${name} also has`)
      expect(reported.status?.phase).toBe('failed')
      expect(await it.idOf(name)).toBe(id)

      const found = await it.when(copy, () => true)
      if (how === 'deleted') {
        await it.cluster().delete('ManagedDatabase', key(copy))
        await it.untilDeleted(copy)
      } else await it.cluster().replace('ManagedDatabase', { ...found, metadata: { ...found.metadata, labels: {} } })
      const after = await it.when(name, isPhase('available'))
      expect(after.status?.volume).toEqual(before.status?.volume)
      expect(await it.idOf(name)).toBe(id)
      // The copy's status is wrong about the data, now that its id is another.
      if (how !== 'deleted') await it.when(copy, hasCondition('VolumeReady', 'VolumeLost'))
      expect((await it.child('Pod', name, 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
      expect([await claims(), initialisations()]).toEqual([volumes, initialised])
    },
  )
})

test('an object with the label that cannot be written does not block the operator', async () => {
  await it.create('beside', open)
  const id = await it.idOf('beside')
  const before = await it.when('beside', ({ status }) => status?.volume?.volumeName !== undefined)
  await it.cluster().create('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...key(guarded), labels: { [labels.database]: id } },
    data: {},
  })
  await editSpec(it.cluster(), 'beside', spec => ({ ...spec, ipAllowlist: { rules: [] } }))
  await it.when('beside', found => found.status?.appliedHash !== before.status?.appliedHash)
  const claim = childNames.claim(id, 1)
  await it.cluster().delete('PersistentVolumeClaim', key(claim))
  await it.when('beside', hasCondition('VolumeReady', 'VolumeBeingDeleted'))
})
