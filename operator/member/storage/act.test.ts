/** Planned writes of claims and volumes in a cluster that has changed since the observation. */
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError, type Draft, type PersistentVolume } from '../../../cluster/index.ts'
import { childNames, firstMember } from '../../../crds/index.ts'
import { NameTakenError } from '../../objects/name-taken.ts'
import { ownerUidOf } from '../../objects/ownership.ts'
import { claimDraft, key, useActions, volumeDraft } from '../../testing/actions.ts'
import { testNamespace } from '../../testing/installation.ts'
import type { Action } from '../../workload/actions.ts'
import { memberKeyOf } from '../member.ts'
import { createGrowthRefusals } from './growth-refusals.ts'
import { reclaimPolicyAnnotation } from './persistent-volume.ts'

const it = useActions()
const { passOf } = it

describe('a volume', () => {
  const retain = (volume: PersistentVolume, uid = volume.metadata.uid ?? ''): Action => ({
    ...{ do: 'change-volume', name: volume.metadata.name, uid, change: { to: 'retain', owner: it.owner } },
  })
  const copy = (volume: PersistentVolume, uid = volume.metadata.uid ?? ''): Action => ({
    ...{ do: 'copy-volume', from: volume.metadata.name, uid, name: `copy-${it.count}`, owner: it.owner },
  })
  const get = (name: string) => it.cluster.get('PersistentVolume', { name })

  test('is changed from its state in the cluster, and only once', async () => {
    const volume = await it.cluster.create('PersistentVolume', volumeDraft(it.count))
    expect(await passOf().do(retain(volume))).toBe('done')
    const retained = await get(`pv-${it.count}`)
    expect(retained?.spec?.persistentVolumeReclaimPolicy).toBe('Retain')
    expect(retained?.metadata.annotations?.[reclaimPolicyAnnotation]).toBe('Delete')
    expect(await passOf().do(retain(volume)), 'and not again').toBe('done')
    expect((await get(`pv-${it.count}`))?.metadata.resourceVersion).toBe(retained?.metadata.resourceVersion)
  })

  test('that was replaced or deleted is neither changed nor copied', async () => {
    const volume = await it.cluster.create('PersistentVolume', volumeDraft(it.count))
    expect(await passOf().do(retain(volume, 'another'))).toBe('done')
    expect(await passOf().do(copy(volume, 'another'))).toBe('done')
    expect(await get(`pv-${it.count}`)).toEqual(volume)
    const deletedVolume = { ...volume, metadata: { ...volume.metadata, name: 'gone' } }
    expect([await passOf().do(retain(deletedVolume)), await passOf().do(copy(deletedVolume))]).toEqual(['done', 'done'])
    expect(await get(`copy-${it.count}`)).toBeUndefined()
  })

  describe('that is retained', () => {
    const retained = (claimUid: string | undefined): Draft<'PersistentVolume'> => {
      const { metadata, spec, ...draft } = volumeDraft(it.count, 'Retain')
      const claimRef = {
        namespace: testNamespace,
        name: childNames.claim(it.owner.id, 1),
        ...(claimUid && { uid: claimUid }),
      }
      const annotations = { [reclaimPolicyAnnotation]: 'Delete' }
      return { ...draft, metadata: { ...metadata, annotations }, spec: { ...spec, claimRef } }
    }
    const giveBack = ({ metadata }: PersistentVolume, claimUid?: string): Action => ({
      do: 'change-volume',
      name: metadata.name,
      uid: metadata.uid ?? '',
      change: { to: 'give-back', claimUid },
    })
    const policy = async () => (await get(`pv-${it.count}`))?.spec?.persistentVolumeReclaimPolicy

    test('gets its previous reclaim policy while its claim exists', async () => {
      const claim = await it.cluster.create('PersistentVolumeClaim', claimDraft(it.owner, it.count))
      const volume = await it.cluster.create('PersistentVolume', retained(claim.metadata.uid))
      expect(await passOf().do(giveBack(volume))).toBe('done')
      expect(await policy()).toBe('Delete')
    })

    test('stays retained if its claim is terminating or deleted, although the caches still have it', async () => {
      const draft = claimDraft(it.owner, it.count)
      const retainedVolume = { ...draft, metadata: { ...draft.metadata, finalizers: ['kubernetes.io/pvc-protection'] } }
      const claim = await it.cluster.create('PersistentVolumeClaim', retainedVolume)
      const volume = await it.cluster.create('PersistentVolume', retained(claim.metadata.uid))
      await it.cluster.delete('PersistentVolumeClaim', claim.metadata)
      await expect(passOf().do(giveBack(volume))).rejects.toThrow("keeps the volume's reclaim policy")
      const going = await it.cluster.get('PersistentVolumeClaim', claim.metadata)
      if (going)
        await it.cluster.replace('PersistentVolumeClaim', { ...going, metadata: { ...going.metadata, finalizers: [] } })
      await expect(passOf().do(giveBack(volume))).rejects.toThrow("keeps the volume's reclaim policy")
      await it.cluster.create('PersistentVolumeClaim', draft)
      await expect(passOf().do(giveBack(volume)), 'another claim of its name').rejects.toThrow(
        "keeps the volume's reclaim policy",
      )
      expect(await policy()).toBe('Retain')
    })

    test('gets its previous reclaim policy without a claim if its owner is being deleted', async () => {
      const volume = await it.cluster.create('PersistentVolume', retained('one-that-was'))
      expect(await passOf().do(giveBack(volume, 'one-that-was'))).toBe('done')
      expect(await policy()).toBe('Delete')
    })
  })

  test('is copied from its state in the cluster', async () => {
    const volume = await it.cluster.create('PersistentVolume', volumeDraft(it.count))
    expect(await passOf().do(copy(volume))).toBe('done')
    const made = await get(`copy-${it.count}`)
    expect(made?.spec).toMatchObject({ hostPath: { path: '/nowhere' }, persistentVolumeReclaimPolicy: 'Retain' })
    expect(made && ownerUidOf(made)).toBe(it.owner.uid)
  })
})

describe('a claim', () => {
  test('that belongs to another owner is not changed', async () => {
    const name = childNames.claim(it.owner.id, 1)
    const foreign = await it.cluster.create('PersistentVolumeClaim', claimDraft(it.other, it.count, name))
    await expect(passOf().do({ do: 'create-claim', draft: claimDraft(it.owner, it.count) })).rejects.toThrow(
      NameTakenError,
    )
    expect(await it.cluster.get('PersistentVolumeClaim', key(name))).toEqual(foreign)
  })

  test('is not created if the cluster refuses the creation, and the error is reported', async () => {
    const fails = (reason: 'AlreadyExists' | 'Forbidden') =>
      passOf({
        executor: {
          cluster: { ...it.cluster, create: () => Promise.reject(new ClusterError(reason, 'no')) } as Cluster,
        },
      })
    for (const reason of ['AlreadyExists', 'Forbidden'] as const)
      await expect(fails(reason).do({ do: 'create-claim', draft: claimDraft(it.owner, it.count) })).rejects.toThrow(
        expect.objectContaining({ reason }),
      )
  })

  test('that exists is not changed if the operator may not create volumes', async () => {
    const { labels: _, ...metadata } = claimDraft(it.owner, it.count).metadata
    const there = await it.cluster.create('PersistentVolumeClaim', { ...claimDraft(it.owner, it.count), metadata })
    const create = () => Promise.reject(new ClusterError('Forbidden', 'no'))
    const forbidden = passOf({ executor: { cluster: { ...it.cluster, create } as Cluster } })
    await expect(forbidden.do({ do: 'create-claim', draft: claimDraft(it.owner, it.count) })).rejects.toThrow('no')
    expect(await it.cluster.get('PersistentVolumeClaim', there.metadata)).toEqual(there)
  })

  test('is created', async () => {
    expect(await passOf().do({ do: 'create-claim', draft: claimDraft(it.owner, it.count) })).toBe('done')
    expect(await it.cluster.get('PersistentVolumeClaim', key(childNames.claim(it.owner.id, 1)))).toBeDefined()
  })

  test('is updated', async () => {
    const claim = await it.cluster.create('PersistentVolumeClaim', claimDraft(it.owner, it.count))
    const annotations = { ...claim.metadata.annotations, a: 'b' }
    const changed = { ...claim, metadata: { ...claim.metadata, annotations } }
    expect(await passOf().do({ do: 'update-claim', claim: changed })).toBe('done')
    expect((await it.cluster.get('PersistentVolumeClaim', claim.metadata))?.metadata.annotations).toEqual(annotations)
  })
})

describe('the growth of a claim', () => {
  const growing = (reason?: 'Invalid' | 'Forbidden' | 'BadRequest' | 'Conflict') => {
    const growthRefusals = createGrowthRefusals(() => 0)
    const replace = () => (reason ? Promise.reject(new ClusterError(reason, 'no more')) : Promise.resolve())
    const pass = passOf({ executor: { growthRefusals, cluster: { replace } as unknown as Cluster } })
    const claim = {
      ...claimDraft(it.owner, it.count),
      metadata: { ...claimDraft(it.owner, it.count).metadata, uid: 'claim-uid' },
    }
    const grow = () => pass.do({ do: 'grow-claim', claim: claim as never })
    return {
      growthRefusals,
      grow,
      name: memberKeyOf(`${testNamespace}/${it.database.metadata.name}`, firstMember),
      claim,
    }
  }

  test.each(['Invalid', 'Forbidden', 'BadRequest'] as const)(
    'is recorded as refused if the cluster answers %s',
    async reason => {
      const { growthRefusals, grow, name } = growing(reason)
      expect(await grow()).toBe('refused')
      expect(growthRefusals.refusalOf(name)).toMatchObject({ claim: 'claim-uid', storage: '1Gi', message: 'no more' })
    },
  )

  test('is retried after a conflict, which does not count as a refusal', async () => {
    const { growthRefusals, grow, name } = growing('Conflict')
    await expect(grow()).rejects.toThrow('no more')
    expect(growthRefusals.refusalOf(name)).toBeUndefined()
  })

  test('deletes the last refusal when the cluster accepts it', async () => {
    const { growthRefusals, grow, name, claim } = growing()
    growthRefusals.refused(name, claim as never, 'before')
    expect(await grow()).toBe('done')
    expect(growthRefusals.refusalOf(name)).toBeUndefined()
  })

  test('fails if the claim has changed since it was observed', async () => {
    const claim = await it.cluster.create('PersistentVolumeClaim', claimDraft(it.owner, it.count))
    await it.cluster.replace('PersistentVolumeClaim', {
      ...claim,
      metadata: { ...claim.metadata, annotations: { ...claim.metadata.annotations, a: 'b' } },
    })
    for (const action of ['grow-claim', 'update-claim'] as const)
      await expect(passOf().do({ do: action, claim })).rejects.toThrow(expect.objectContaining({ reason: 'Conflict' }))
  })
})
