/**
 * A database that is recreated after its tenant was deleted and its volume was retained: it never starts empty beside
 * that volume.
 */
import { describe, expect, test } from 'vitest'
import type { KindName } from '../../cluster/index.ts'
import { childNames, labels, type ManagedDatabase, systemNamespace } from '../../crds/index.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const open = { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }
const kinds: KindName[] = ['StatefulSet', 'Service', 'NetworkPolicy', 'ConfigMap', 'Secret']

/** Deletes all objects of a database in a tenant's namespace; its volume has the policy `Retain`. */
async function deleteTenant(database: ManagedDatabase, id: string): Promise<string> {
  const { name } = database.metadata
  const claim = await it.child('PersistentVolumeClaim', name, 'claim')
  const volumeName = claim?.spec?.volumeName ?? ''
  await eventually(
    () => it.cluster().get('PersistentVolume', { name: volumeName }),
    found => found?.metadata.labels?.[labels.database] === id,
  )
  await it.stopOperator()
  const volume = await it.cluster().get('PersistentVolume', { name: volumeName })
  if (volume === undefined) throw new Error('there is no volume')
  const spec = { ...volume.spec, persistentVolumeReclaimPolicy: 'Retain' }
  await it.cluster().replace('PersistentVolume', { ...volume, spec })
  for (const kind of kinds)
    for (const namespace of [testNamespace, systemNamespace]) {
      const { items } = await it.cluster().list(kind, { namespace, labels: { [labels.database]: id } })
      for (const item of items) await it.cluster().delete(kind, { namespace, name: item.metadata.name })
    }
  const podKey = { namespace: testNamespace, name: childNames.pod(id, 1) }
  await eventually(
    () => it.cluster().get('Pod', podKey),
    pod => pod === undefined,
  )
  await it.deleteClaimByForce({ namespace: testNamespace, name: childNames.claim(id, 1) })
  const found = await it.database(name)
  if (found === undefined) throw new Error('there is no database')
  await it.cluster().replace('ManagedDatabase', { ...found, metadata: { ...found.metadata, finalizers: [] } })
  await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name })
  await it.untilDeleted(name)
  return volumeName
}

const initialised = () => [...it.workload().postgres.initialised.values()].reduce((sum, count) => sum + count, 0)
const claims = (id: string) =>
  it.cluster().list('PersistentVolumeClaim', { namespace: testNamespace, labels: { [labels.database]: id } })

describe('the retained volume of a database of which only the object was recreated', () => {
  test('is adopted with its data', async () => {
    const before = await it.create('retained', open)
    const id = await it.idOf('retained')
    const volume = await deleteTenant(before, id)
    const count = initialised()
    await it.cluster().create('ManagedDatabase', databaseDraft('retained', open, id))
    await it.startOperator()
    const after = await it.when('retained', isPhase('available'))
    expect(after.metadata.uid).not.toBe(before.metadata.uid)
    expect(after.status?.volume?.systemIdentifier).toBe(before.status?.volume?.systemIdentifier)
    await it.when('retained', found => found.status?.volume?.volumeName === volume)
    expect(initialised()).toBe(count)
    expect((await claims(id)).items).toHaveLength(1)
  })

  test('is reported if several match, and no empty volume is created', async () => {
    const before = await it.create('doubtful', open)
    const id = await it.idOf('doubtful')
    const name = await deleteTenant(before, id)
    const volume = await it.cluster().get('PersistentVolume', { name })
    if (volume === undefined) throw new Error('there is no volume')
    const { uid: _, resourceVersion: __, ...metadata } = volume.metadata
    const other = { ...volume, metadata: { ...metadata, name: 'pvc-other' } }
    await it.cluster().create('PersistentVolume', other)
    const count = initialised()
    await it.cluster().create('ManagedDatabase', databaseDraft('doubtful', open, id))
    await it.startOperator()
    const reported = await it.when('doubtful', hasCondition('VolumeReady', 'VolumeRetained'))
    expect(condition(reported, 'VolumeReady')?.message).toMatch(/^PersistentVolumes [^ ]+, [^ ]+ were retained/)
    expect(condition(reported, 'VolumeReady')?.message).toContain(name)
    expect(condition(reported, 'VolumeReady')?.message).toContain(`kubectl label pv NAME ${labels.database}-`)
    expect(condition(reported, 'Ready')?.status).toBe('False')
    expect((await claims(id)).items).toEqual([])
    const found = await it.cluster().get('PersistentVolume', { name: 'pvc-other' })
    if (found === undefined) throw new Error('there is no volume')
    await it.cluster().replace('PersistentVolume', { ...found, metadata: { ...found.metadata, labels: {} } })
    const after = await it.when('doubtful', isPhase('available'))
    expect(after.status?.volume?.systemIdentifier).toBe(before.status?.volume?.systemIdentifier)
    expect(initialised()).toBe(count)
  })
})
