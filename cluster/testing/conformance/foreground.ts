/**
 * Conformance: foreground deletion. The owner first gets a deletionTimestamp and the finalizer `foregroundDeletion`.
 * All dependents without another owner are deleted at once, whatever other finalizers the owner has. The owner waits
 * for the dependents that block it. On a real cluster, kube-controller-manager's garbage collector does this.
 */
import { describe, expect, test } from 'vitest'
import type { OwnerReference } from '../../../crds/index.ts'
import type { AnyObject, ObjectKey } from '../../index.ts'
import { configMap, database, smallest } from './drafts.ts'
import { eventually, keyOf, type Suite, stored, undisturbed } from './suite.ts'

const deadline = 55_000
const foreground = 'foregroundDeletion'
const finalizer = 'example.com/hold'

const ownedBy = (owner: AnyObject, blockOwnerDeletion = true): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid ?? '',
  blockOwnerDeletion,
})

export function describeForegroundDeletion(suite: Suite): void {
  const untilDeleted = (kind: AnyObject['kind'], key: ObjectKey): Promise<void> =>
    eventually(async () => {
      if ((await suite.cluster().get(kind, key)) !== undefined) throw new Error(`${kind} ${key.name} is there`)
    }, deadline)

  const untilTerminating = (kind: 'ConfigMap' | 'ManagedDatabase', key: ObjectKey): Promise<void> =>
    eventually(async () => {
      const { metadata } = await stored(suite.cluster(), kind, key)
      if (metadata.deletionTimestamp === undefined) throw new Error(`${kind} ${key.name} is not marked`)
    }, deadline)

  /** Removes every finalizer of a test from an object. */
  const release = (kind: 'ConfigMap' | 'ManagedDatabase', key: ObjectKey): Promise<void> =>
    undisturbed(async () => {
      const object = await stored(suite.cluster(), kind, key)
      const finalizers = object.metadata.finalizers?.filter(each => each !== finalizer) ?? []
      await suite.cluster().replace(kind, { ...object, metadata: { ...object.metadata, finalizers } })
    })

  /**
   * Waits until the garbage collector has seen every existing object of these kinds. It watches each kind separately.
   * If it has not yet seen the dependents, it deletes an owner at once.
   */
  const untilSeen = async (namespace: string): Promise<void> => {
    const absent = { apiVersion: 'v1', kind: 'ConfigMap', name: 'absent', uid: 'b2c7c2a6-3f6e-4d53-9e0c-6f5f0a4d2d11' }
    const metadata = { namespace, name: 'seen', ownerReferences: [absent] }
    await suite.cluster().create('Secret', { ...smallest.Secret(namespace, 'seen'), metadata })
    await suite
      .cluster()
      .create('PersistentVolumeClaim', { ...smallest.PersistentVolumeClaim(namespace, 'seen'), metadata })
    for (const kind of ['Secret', 'PersistentVolumeClaim'] as const)
      await untilDeleted(kind, { namespace, name: 'seen' })
  }

  const make = (namespace: string, name: string, metadata: object = {}) =>
    suite.cluster().create('ConfigMap', configMap(namespace, name, {}, metadata))

  describe('foreground deletion', { timeout: 150_000 }, () => {
    test("sets the owner's deletionTimestamp, deletes its dependents, and waits for those that block it", async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const blocked = await make(namespace, 'held', { ownerReferences: [ownedBy(owner)], finalizers: [finalizer] })
      const free = await make(namespace, 'free', { ownerReferences: [ownedBy(owner, false)] })
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      const waiting = await stored(suite.cluster(), 'ConfigMap', keyOf(owner))
      expect(waiting.metadata.deletionTimestamp).toBeDefined()
      expect(waiting.metadata.finalizers).toEqual([foreground])
      await untilDeleted('ConfigMap', keyOf(free))
      await untilTerminating('ConfigMap', keyOf(blocked))
      expect((await stored(suite.cluster(), 'ConfigMap', keyOf(owner))).metadata.finalizers).toEqual([foreground])
      await release('ConfigMap', keyOf(blocked))
      await untilDeleted('ConfigMap', keyOf(blocked))
      await untilDeleted('ConfigMap', keyOf(owner))
    })

    test("deletes the dependents even while the owner's own finalizer blocks its deletion", async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite
        .cluster()
        .create('ManagedDatabase', database(namespace, 'orders', { metadata: { finalizers: [finalizer] } }))
      const ownerReferences = [{ ...ownedBy(owner), controller: true }]
      const secret = smallest.Secret(namespace, 'credentials')
      await suite.cluster().create('Secret', { ...secret, metadata: { ...secret.metadata, ownerReferences } })
      const claim = smallest.PersistentVolumeClaim(namespace, 'data')
      await suite
        .cluster()
        .create('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, ownerReferences } })
      await untilSeen(namespace)
      await suite.cluster().delete('ManagedDatabase', keyOf(owner), { propagation: 'Foreground' })
      await untilDeleted('Secret', { namespace, name: 'credentials' })
      await untilDeleted('PersistentVolumeClaim', { namespace, name: 'data' })
      await eventually(async () => {
        const { metadata } = await stored(suite.cluster(), 'ManagedDatabase', keyOf(owner))
        expect(metadata.deletionTimestamp).toBeDefined()
        expect(metadata.finalizers).toEqual([finalizer])
      }, deadline)
      await release('ManagedDatabase', keyOf(owner))
      await untilDeleted('ManagedDatabase', keyOf(owner))
    })

    test('does not wait for a dependent that does not block', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const metadata = { ownerReferences: [ownedBy(owner, false)], finalizers: [finalizer] }
      const blocked = await make(namespace, 'held', metadata)
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      await untilDeleted('ConfigMap', keyOf(owner))
      await untilTerminating('ConfigMap', keyOf(blocked))
      await release('ConfigMap', keyOf(blocked))
      await untilDeleted('ConfigMap', keyOf(blocked))
    })

    test('covers all levels, and the top-level owner waits for the lowest level', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const top = await make(namespace, 'top')
      const middle = await make(namespace, 'middle', { ownerReferences: [ownedBy(top)] })
      const metadata = { ownerReferences: [ownedBy(middle)], finalizers: [finalizer] }
      const bottom = await make(namespace, 'bottom', metadata)
      await suite.cluster().delete('ConfigMap', keyOf(top), { propagation: 'Foreground' })
      await untilTerminating('ConfigMap', keyOf(bottom))
      const { metadata: waiting } = await stored(suite.cluster(), 'ConfigMap', keyOf(middle))
      expect(waiting.deletionTimestamp).toBeDefined()
      expect(waiting.finalizers).toEqual([foreground])
      await stored(suite.cluster(), 'ConfigMap', keyOf(top))
      await release('ConfigMap', keyOf(bottom))
      for (const object of [bottom, middle, top]) await untilDeleted('ConfigMap', keyOf(object))
    })

    test('keeps a dependent with another owner, without the reference', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const other = await make(namespace, 'other')
      const shared = await make(namespace, 'shared', { ownerReferences: [ownedBy(owner), ownedBy(other)] })
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      await untilDeleted('ConfigMap', keyOf(owner))
      const { metadata } = await stored(suite.cluster(), 'ConfigMap', keyOf(shared))
      expect(metadata.ownerReferences?.map(({ name }) => name)).toEqual(['other'])
      expect(metadata.deletionTimestamp).toBeUndefined()
    })

    test('of owners in a cycle ends', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const one = await make(namespace, 'one')
      const other = await make(namespace, 'other', { ownerReferences: [ownedBy(one)] })
      const metadata = { ...one.metadata, ownerReferences: [ownedBy(other)] }
      await suite.cluster().replace('ConfigMap', { ...one, metadata })
      await suite.cluster().delete('ConfigMap', keyOf(one), { propagation: 'Foreground' })
      for (const object of [one, other]) await untilDeleted('ConfigMap', keyOf(object))
    })

    test('becomes background deletion if a client requests that afterwards', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const blocked = await make(namespace, 'held', { ownerReferences: [ownedBy(owner)], finalizers: [finalizer] })
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      await untilTerminating('ConfigMap', keyOf(blocked))
      await stored(suite.cluster(), 'ConfigMap', keyOf(owner))
      await suite.cluster().delete('ConfigMap', keyOf(owner))
      expect(await suite.cluster().get('ConfigMap', keyOf(owner))).toBeUndefined()
      await release('ConfigMap', keyOf(blocked))
      await untilDeleted('ConfigMap', keyOf(blocked))
    })
  })
}
