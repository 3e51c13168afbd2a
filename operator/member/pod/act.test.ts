/** Planned stops of a pod in a cluster that has changed since the observation. */
import { describe, expect, test } from 'vitest'
import type { Draft } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import type { Observed } from '../../managed-database/observed.ts'
import { childMetadata, type Owner } from '../../objects/ownership.ts'
import { claimDraft, key, mapDraft, useActions, volumeDraft } from '../../testing/actions.ts'
import { testNamespace } from '../../testing/installation.ts'
import type { Action } from '../../workload/actions.ts'

const it = useActions()
const { passOf } = it

const podDraft = (of: Owner): Draft<'Pod'> => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: childMetadata(of, childNames.pod(of.id, 1), 'postgres'),
  spec: { containers: [{ name: 'postgres', image: 'postgres:18' }] },
})

/** Blocks a deletion until the finalizer is removed. */
const finalizer = 'test.example/held'

const ways = [
  ['a deletion', 'delete'],
  ['scaling its StatefulSet to zero', 'scale'],
] as const

describe('a pod', () => {
  /** A database that runs on a recorded volume, with the caches that observed it. */
  async function running() {
    const volume = await it.cluster.create('PersistentVolume', volumeDraft(it.count))
    const protectedClaim = claimDraft(it.owner, it.count)
    const claim = await it.cluster.create('PersistentVolumeClaim', {
      ...protectedClaim,
      metadata: { ...protectedClaim.metadata, finalizers: [finalizer] },
    })
    const pod = await it.cluster.create('Pod', podDraft(it.owner))
    const record = { claim: claim.metadata.name, uid: claim.metadata.uid ?? '', volumeName: volume.metadata.name }
    const instance = { ...it.database, status: { volume: { ...record, systemIdentifier: '1' } } }
    const { name, uid = '' } = pod.metadata
    const facts = { name, uid, terminating: false } as NonNullable<Observed['pod']>
    const options = { observed: { instance, database: instance, pod: facts }, children: { claim, pod } }
    const stops: Record<(typeof ways)[number][1], Action> = {
      delete: { do: 'delete', kind: 'Pod', name, namespace: testNamespace, uid },
      scale: { do: 'apply', kind: 'StatefulSet', draft: statefulSet(0) },
    }
    const isStopped = async () => {
      const set = await it.cluster.get('StatefulSet', key(childNames.statefulSet(it.owner.id, 1)))
      return (await it.cluster.get('Pod', key(name))) === undefined || set !== undefined
    }
    return { volume, claim, options, stops, isStopped }
  }
  const statefulSet = (replicas: number): Draft<'StatefulSet'> => ({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: childMetadata(it.owner, childNames.statefulSet(it.owner.id, 1), 'postgres'),
    spec: {
      replicas,
      serviceName: 'one',
      selector: { matchLabels: { a: 'b' } },
      template: {
        metadata: { labels: { a: 'b' } },
        spec: { containers: [{ name: 'postgres', image: 'postgres:18' }] },
      },
    },
  })

  test.each(ways)('is stopped by %s if claim and volume are unchanged', async (_, which) => {
    const { options, stops, isStopped } = await running()
    expect(await passOf(options).do(stops[which])).toBe('done')
    expect(await isStopped()).toBe(true)
  })

  const changes: [string, (found: Awaited<ReturnType<typeof running>>) => Promise<unknown>][] = [
    [
      'the claim is being deleted',
      async ({ claim }) => {
        await it.cluster.delete('PersistentVolumeClaim', claim.metadata)
        expect((await it.cluster.get('PersistentVolumeClaim', claim.metadata))?.metadata.uid).toBe(claim.metadata.uid)
      },
    ],
    [
      'the claim is deleted',
      async ({ claim }) => {
        await it.cluster.replace('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, finalizers: [] } })
        await it.cluster.delete('PersistentVolumeClaim', claim.metadata)
      },
    ],
    [
      'another claim has its name',
      async ({ claim }) => {
        await it.cluster.replace('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, finalizers: [] } })
        await it.cluster.delete('PersistentVolumeClaim', claim.metadata)
        await it.cluster.create('PersistentVolumeClaim', claimDraft(it.other, it.count, claim.metadata.name))
      },
    ],
    [
      'the volume is being deleted',
      async ({ volume }) => {
        const metadata = { ...volume.metadata, finalizers: [finalizer] }
        await it.cluster.replace('PersistentVolume', { ...volume, metadata })
        await it.cluster.delete('PersistentVolume', { name: volume.metadata.name })
        expect(await it.cluster.get('PersistentVolume', { name: volume.metadata.name })).toBeDefined()
      },
    ],
    ['the volume is deleted', ({ volume }) => it.cluster.delete('PersistentVolume', { name: volume.metadata.name })],
  ]
  for (const [what, change] of changes)
    test.each(ways)(`is not stopped by %s if ${what} and the caches still have the old state`, async (_, which) => {
      const found = await running()
      await change(found)
      await expect(passOf(found.options).do(found.stops[which])).rejects.toThrow(
        expect.objectContaining({
          reason: 'Conflict',
          message: expect.stringContaining(`the volume claim ${found.claim.metadata.name} or its volume`),
        }),
      )
      expect(await found.isStopped()).toBe(false)
      const deleted = {
        ...it.database,
        metadata: { ...it.database.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
      }
      const instance = { ...found.options.observed.instance, metadata: deleted.metadata }
      const leaving = passOf({ ...found.options, observed: { ...found.options.observed, instance } })
      expect(await leaving.do(found.stops.delete), 'a database that is being deleted is stopped').toBe('done')
    })

  test('is started even if its claim is being deleted', async () => {
    const found = await running()
    await it.cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    expect(await passOf(found.options).do({ do: 'apply', kind: 'StatefulSet', draft: statefulSet(1) })).toBe('done')
  })

  test('that does not exist does not block scaling to zero, even if the claim is being deleted', async () => {
    const found = await running()
    await it.cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const { observed } = found.options
    const without = passOf({ ...found.options, observed: { ...observed, pod: undefined } })
    expect(await without.do(found.stops.scale)).toBe('done')
  })

  test('whose claim is being deleted does not prevent deletions of other objects', async () => {
    const found = await running()
    await it.cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const { metadata } = await it.cluster.create('ConfigMap', mapDraft(it.owner, `map-${it.count}`))
    const { name, uid = '' } = metadata
    const deletion = { do: 'delete', kind: 'ConfigMap', name, namespace: testNamespace, uid } as const
    expect(await passOf(found.options).do(deletion)).toBe('done')
  })

  test('of a database without a recorded volume is stopped without reading the volume', async () => {
    const found = await running()
    await it.cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const { observed } = found.options
    const without = passOf({ ...found.options, observed: { ...observed, instance: it.database } })
    expect(await without.do(found.stops.delete)).toBe('done')
  })

  test('whose claim was observed as terminating is stopped as planned', async () => {
    const found = await running()
    await it.cluster.delete('PersistentVolumeClaim', found.claim.metadata)
    const claim = await it.cluster.get('PersistentVolumeClaim', found.claim.metadata)
    const known = passOf({ ...found.options, children: { claim } })
    expect(await known.do(found.stops.delete)).toBe('done')
  })

  test('whose claim is not bound yet is stopped', async () => {
    const { options, stops, claim } = await running()
    const { volumeName: _, ...spec } = claim.spec ?? {}
    expect(await passOf({ ...options, children: { claim: { ...claim, spec } } }).do(stops.delete)).toBe('done')
  })
})
