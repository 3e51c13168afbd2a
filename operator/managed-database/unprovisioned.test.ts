/**
 * A claim that gets no volume while its database is being created: the reason is reported, and a corrected size or
 * class fixes it.
 */
import { beforeEach, describe, expect, test } from 'vitest'
import type { Cluster, PersistentVolumeClaim } from '../../cluster/index.ts'
import type { ManagedDatabase, Region } from '../../crds/index.ts'
import { waitMs } from '../member/storage/provisioning.ts'
import { createFakeBinding } from '../testing/fake-binding.ts'
import { defaultClass } from '../testing/fake-volumes.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually } from '../testing/installation.ts'

/** Called before the operator deletes a claim. */
let beforeDelete: ((cluster: Cluster) => Promise<void>) | undefined
const it = useInstallation({
  // Ahead, so that a claim counts at once as having waited long.
  now: () => Date.now() + waitMs + 1_000,
  wrap: cluster => ({
    ...cluster,
    delete: async (kind, key, options) => {
      if (kind === 'PersistentVolumeClaim') await beforeDelete?.(cluster)
      return cluster.delete(kind, key, options)
    },
  }),
})

const large = { name: 'large', version: 1 }
const small = { name: 'small', version: 1 }
const claimOf = (name: string) => it.child('PersistentVolumeClaim', name, 'claim')
const storageOf = (claim: PersistentVolumeClaim | undefined) => claim?.spec?.resources?.requests?.storage

const onlySmall = (claim: PersistentVolumeClaim) =>
  storageOf(claim) === '1Gi' ? undefined : 'rpc error: code = ResourceExhausted: not enough space in the pool'

/** Creates a database, and waits until the condition reports why it has no volume. */
async function createInVain(name: string, spec: Partial<ManagedDatabase['spec']>, why: string): Promise<void> {
  await it.cluster().create('ManagedDatabase', databaseDraft(name, spec))
  const reported = await it.when(name, found => condition(found, 'VolumeReady')?.message.includes(why) === true)
  expect(condition(reported, 'VolumeReady')).toMatchObject({ status: 'False', reason: 'Pending' })
  await it.when(name, found => condition(found, 'Progressing')?.message.includes(why) === true)
  expect((await it.database(name))?.status).toMatchObject({ phase: 'creating' })
  expect((await it.database(name))?.status?.volume).toBeUndefined()
}

async function expectMade(name: string): Promise<PersistentVolumeClaim> {
  const made = await it.when(name, found => isPhase('available')(found) && found.status?.operation === undefined)
  const claim = await claimOf(name)
  if (claim === undefined) throw new Error('no claim')
  expect(made.status).toMatchObject({ size: made.spec.size, volume: { uid: claim.metadata.uid } })
  expect(condition(made, 'VolumeReady')).toMatchObject({ status: 'True', reason: 'Bound' })
  expect(condition(made, 'SizeApplied')).toBeUndefined()
  expect(it.workload().postgres.initialised.get(claim.metadata.uid ?? '')).toBe(1)
  return claim
}

const editRegion = async (storageClass: string | undefined) => {
  const region = await it.cluster().get('Region', { name: 'here' })
  if (region === undefined) throw new Error('no region')
  const { storageClass: _, ...spec }: Region['spec'] = region.spec
  await it.cluster().replace('Region', { ...region, spec: { ...spec, ...(storageClass ? { storageClass } : {}) } })
}

beforeEach(() => {
  beforeDelete = undefined
  it.workload().volumes.unprovisioned = () => undefined
})

describe('a claim without storage for its size', () => {
  test('is replaced when another size is requested', async () => {
    it.workload().volumes.unprovisioned = onlySmall
    await createInVain('huge', { size: large }, 'ProvisioningFailed: rpc error: code = ResourceExhausted')
    const before = await claimOf('huge')
    await editSpec(it.cluster(), 'huge', spec => ({ ...spec, size: small }))
    const claim = await expectMade('huge')
    expect([storageOf(before), storageOf(claim)]).toEqual(['2Gi', '1Gi'])
    const open = (await it.tasksOf('huge')).filter(task => task.status?.finishedAt === undefined)
    expect(open).toEqual([])
  })

  test('that is bound before it is deleted is kept', async () => {
    it.workload().volumes.unprovisioned = onlySmall
    await createInVain('hurried', { size: large }, 'ProvisioningFailed')
    const before = await claimOf('hurried')
    let attempts = 0
    beforeDelete = async cluster => {
      attempts++
      beforeDelete = undefined
      it.workload().volumes.unprovisioned = () => undefined
      const claim = await claimOf('hurried')
      if (claim) await createFakeBinding(cluster, it.workload().postgres.data, () => true).bind(claim)
    }
    await editSpec(it.cluster(), 'hurried', spec => ({ ...spec, size: small }))
    const claim = await expectMade('hurried')
    expect(attempts).toBe(1)
    expect(claim.metadata.uid).toBe(before?.metadata.uid)
    expect(claim.status?.capacity?.storage).toBe('2Gi')
  })

  test('of a suspended database is kept until it is resumed', async () => {
    it.workload().volumes.unprovisioned = onlySmall
    await createInVain('paused', { size: large }, 'ProvisioningFailed')
    const before = await claimOf('paused')
    await editSpec(it.cluster(), 'paused', spec => ({ ...spec, size: small, suspended: true }))
    await it.when('paused', found => isPhase('suspended')(found) && found.status?.operation === undefined)
    expect((await claimOf('paused'))?.metadata.uid).toBe(before?.metadata.uid)
    await editSpec(it.cluster(), 'paused', spec => ({ ...spec, suspended: false }))
    expect(storageOf(await expectMade('paused'))).toBe('1Gi')
  })

  test('that a user deletes is created again', async () => {
    it.workload().volumes.unprovisioned = onlySmall
    await createInVain('again', { size: large }, 'ProvisioningFailed')
    const before = await claimOf('again')
    await it.cluster().delete('PersistentVolumeClaim', before?.metadata ?? { name: '' })
    await eventually(
      () => claimOf('again'),
      found => found !== undefined && found.metadata.uid !== before?.metadata.uid,
    )
    it.workload().volumes.unprovisioned = () => undefined
    it.workload().regrow()
    await expectMade('again')
  })
})

describe('a claim of a missing storage class', () => {
  const ofClass = (there: string) => (claim: PersistentVolumeClaim) => {
    const { storageClassName } = claim.spec ?? {}
    return storageClassName === there ? undefined : `storageclass.storage.k8s.io "${storageClassName}" not found`
  }

  test.each(['fast', undefined])('is replaced when the region names another class: %s', async there => {
    const name = `class${there}`
    it.workload().volumes.unprovisioned = ofClass(there ?? defaultClass)
    await editRegion('fsat')
    try {
      await createInVain(name, {}, 'storageclass.storage.k8s.io "fsat" not found')
      await editRegion(there)
      const claim = await expectMade(name)
      expect(claim.spec?.storageClassName).toBe(there ?? defaultClass)
      // A bound claim is kept, whatever the region names.
      await editRegion('another')
      await editSpec(it.cluster(), name, spec => ({ ...spec, displayName: 'Same' }))
      await it.when(name, found => found.status?.observedGeneration === found.metadata.generation)
      expect((await claimOf(name))?.metadata.uid).toBe(claim.metadata.uid)
      await it.when(name, hasCondition('Ready', 'Serving'))
    } finally {
      await editRegion(undefined)
    }
  })
})
