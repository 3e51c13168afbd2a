/** Planned writes of children in a cluster that has changed since the observation. */
import { describe, expect, test } from 'vitest'
import type { Cluster, KindName } from '../../cluster/index.ts'
import { childNames } from '../../crds/index.ts'
import type { Observed } from '../managed-database/observed.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { type Owner, ownerAnnotations, ownerUidOf } from '../objects/ownership.ts'
import { key, mapDraft, useActions } from '../testing/actions.ts'
import { testNamespace } from '../testing/installation.ts'
import type { Action } from '../workload/actions.ts'

const it = useActions()
const { passOf } = it

describe('the deletion of a child', () => {
  const deletion = (kind: KindName, name: string, uid: string, resourceVersion?: string): Action => ({
    ...{ do: 'delete', kind, name, namespace: testNamespace, uid, resourceVersion },
  })

  test('fails if another object has the name in the meantime', async () => {
    const first = await it.cluster.create('ConfigMap', mapDraft(it.owner, `map-${it.count}`))
    await it.cluster.delete('ConfigMap', key(`map-${it.count}`))
    const second = await it.cluster.create('ConfigMap', mapDraft(it.other, `map-${it.count}`))
    const secondDeletion = deletion('ConfigMap', `map-${it.count}`, first.metadata.uid ?? '')
    await expect(passOf().do(secondDeletion)).rejects.toThrow(expect.objectContaining({ reason: 'Conflict' }))
    expect(await it.cluster.get('ConfigMap', key(`map-${it.count}`))).toEqual(second)
    expect(await passOf().do(deletion('ConfigMap', `map-${it.count}`, second.metadata.uid ?? ''))).toBe('done')
    expect(await it.cluster.get('ConfigMap', key(`map-${it.count}`))).toBeUndefined()
  })

  test('fails if the object has changed and the action has a resource version', async () => {
    const seen = await it.cluster.create('ConfigMap', mapDraft(it.owner, `map-${it.count}`))
    const now = await it.cluster.replace('ConfigMap', { ...seen, data: { is: 'new' } })
    const { uid = '', resourceVersion } = seen.metadata
    await expect(passOf().do(deletion('ConfigMap', `map-${it.count}`, uid, resourceVersion))).rejects.toThrow(
      expect.objectContaining({ reason: 'Conflict' }),
    )
    const asIs = deletion('ConfigMap', `map-${it.count}`, uid, now.metadata.resourceVersion)
    expect(await passOf().do(asIs)).toBe('done')
    expect(await it.cluster.get('ConfigMap', key(`map-${it.count}`))).toBeUndefined()
  })
})

describe('owner labels', () => {
  const labelled = (object: Awaited<ReturnType<typeof foreign>>) => ({
    ...object,
    metadata: { ...object.metadata, annotations: ownerAnnotations(it.owner) },
  })
  const foreign = (of: Owner) => it.cluster.create('ConfigMap', mapDraft(of, `map-${it.count}`))

  test('are written on an object whose owner does not exist', async () => {
    const found = await foreign({ ...it.other, uid: 'one-that-was' })
    expect(await passOf().do({ do: 'label', kind: 'ConfigMap', object: labelled(found) })).toBe('done')
    const now = await it.cluster.get('ConfigMap', key(`map-${it.count}`))
    expect(now && ownerUidOf(now)).toBe(it.owner.uid)
  })

  test('are not written on an object whose owner exists', async () => {
    const found = await foreign(it.other)
    await expect(passOf().do({ do: 'label', kind: 'ConfigMap', object: labelled(found) })).rejects.toThrow(
      NameTakenError,
    )
    expect(await it.cluster.get('ConfigMap', key(`map-${it.count}`))).toEqual(found)
  })

  test('are not written on another object with the same name, and create no object', async () => {
    const found = await foreign({ ...it.other, uid: 'one-that-was' })
    await it.cluster.delete('ConfigMap', key(`map-${it.count}`))
    expect(await passOf().do({ do: 'label', kind: 'ConfigMap', object: labelled(found) })).toBe('done')
    expect(await it.cluster.get('ConfigMap', key(`map-${it.count}`))).toBeUndefined()
    const recreated = await foreign({ ...it.other, uid: 'one-that-was' })
    expect(await passOf().do({ do: 'label', kind: 'ConfigMap', object: labelled(found) })).toBe('done')
    expect(await it.cluster.get('ConfigMap', key(`map-${it.count}`))).toEqual(recreated)
  })
})

describe('the apply of a child', () => {
  const name = () => childNames.configuration(it.owner.id, 1)
  const apply = (data: Record<string, string>): Action => ({
    ...{ do: 'apply', kind: 'ConfigMap', draft: mapDraft(it.owner, name(), data) },
  })

  test('updates an object of the owner', async () => {
    expect(await passOf().do(apply({ is: 'first' }))).toBe('done')
    expect(await passOf().do(apply({ is: 'second' }))).toBe('done')
    expect((await it.cluster.get('ConfigMap', key(name())))?.data).toEqual({ is: 'second' })
  })

  test("never changes another owner's object, whatever children were observed", async () => {
    const foreign = await it.cluster.create('ConfigMap', mapDraft(it.other, name(), { is: 'theirs' }))
    const service = { ...foreign, kind: 'Service' } as unknown as Observed['children']['service']
    const route = { ...foreign, metadata: { ...foreign.metadata, name: 'route-1' } }
    for (const children of [{}, { service }, { route }])
      await expect(passOf({ children }).do(apply({ is: 'ours' }))).rejects.toThrow(NameTakenError)
    expect(await it.cluster.get('ConfigMap', key(name()))).toEqual(foreign)
  })

  test('reads nothing from the cluster if the child was observed', async () => {
    const configuration = await it.cluster.create('ConfigMap', mapDraft(it.owner, name()))
    let reads = 0
    const counting = new Proxy(it.cluster, {
      get: (target, property: keyof Cluster) => {
        if (property === 'get') reads += 1
        return target[property]
      },
    })
    await passOf({ children: { configuration }, executor: { cluster: counting } }).do(apply({ is: 'ours' }))
    const route = await it.cluster.get('ConfigMap', key(name()))
    await passOf({ children: { route }, executor: { cluster: counting } }).do(apply({ is: 'ours' }))
    expect(reads).toBe(0)
  })

  test('fails if the child has changed or was replaced since it was observed', async () => {
    const seen = await it.cluster.create('ConfigMap', mapDraft(it.owner, name()))
    const changed = await it.cluster.replace('ConfigMap', { ...seen, data: { is: 'changed' } })
    const conflict = expect.objectContaining({ reason: 'Conflict' })
    await expect(passOf({ children: { configuration: seen } }).do(apply({ is: 'ours' }))).rejects.toThrow(conflict)
    await it.cluster.delete('ConfigMap', key(name()))
    await expect(passOf({ children: { configuration: changed } }).do(apply({ is: 'ours' }))).rejects.toThrow(conflict)
    expect(await it.cluster.get('ConfigMap', key(name()))).toBeUndefined()
    const foreign = await it.cluster.create('ConfigMap', mapDraft(it.other, name(), { is: 'theirs' }))
    await expect(passOf({ children: { configuration: changed } }).do(apply({ is: 'ours' }))).rejects.toThrow(conflict)
    expect(await it.cluster.get('ConfigMap', key(name()))).toEqual(foreign)
  })

  test('creates the child again if another manager made it immutable', async () => {
    const seen = await it.cluster.create('ConfigMap', { ...mapDraft(it.owner, name(), { is: 'old' }), immutable: true })
    expect(await passOf({ children: { configuration: seen } }).do(apply({ is: 'new' }))).toBe('done')
    const recreated = await it.cluster.get('ConfigMap', key(name()))
    expect(recreated).toMatchObject({ data: { is: 'new' } })
    expect(recreated?.metadata.uid).not.toBe(seen.metadata.uid)
  })
})
