/**
 * Conformance: deletion in the foreground. The owner is marked first and stays, with the finalizer `foregroundDeletion`;
 * all dependents without another owner are deleted at once, whatever other finalizers the owner has; the owner waits
 * for those that block it. On a real cluster the collector is kube-controller-manager's.
 */
// @ts-nocheck

import { describe, expect, test } from 'vitest'
import type { OwnerReference } from '../../../crds/index.ts'
import type { AnyObject, ObjectKey } from '../../index.ts'
import { configMap, database, smallest } from './drafts.ts'
import { eventually, keyOf, type Suite, stored, undisturbed } from './suite.ts'

const deadline = 55_000
const foreground = 'foregroundDeletion'
const hold = 'example.com/hold'

const ownedBy = (owner: AnyObject, blockOwnerDeletion = true): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid ?? '',
  blockOwnerDeletion,
})

export function describeForegroundDeletion(suite: Suite): void {
  const gone = (kind: AnyObject['kind'], key: ObjectKey): Promise<void> =>
    eventually(async () => {
      if ((await suite.cluster().get(kind, key)) !== undefined) throw new Error(`${kind} ${key.name} is there`)
    }, deadline)

  const marked = (kind: 'ConfigMap' | 'ManagedDatabase', key: ObjectKey): Promise<void> =>
    eventually(async () => {
      const { metadata } = await stored(suite.cluster(), kind, key)
      if (metadata.deletionTimestamp === undefined) throw new Error(`${kind} ${key.name} is not marked`)
    }, deadline)

  /** Takes every finalizer of a test's own from an object. */
  const release = (kind: 'ConfigMap' | 'ManagedDatabase', key: ObjectKey): Promise<void> =>
    undisturbed(async () => {
      const object = await stored(suite.cluster(), kind, key)
      const finalizers = object.metadata.finalizers?.filter(each => each !== hold) ?? []
      await suite.cluster().replace(kind, { ...object, metadata: { ...object.metadata, finalizers } })
    })

  /**
   * Waits until the collector has seen everything of these kinds that was made before: it follows each kind by itself, and
   * an owner whose dependents it has yet to see is let go at once.
   */
  const untilSeen = async (namespace: string): Promise<void> => {
    const absent = { apiVersion: 'v1', kind: 'ConfigMap', name: 'absent', uid: 'b2c7c2a6-3f6e-4d53-9e0c-6f5f0a4d2d11' }
    const metadata = { namespace, name: 'seen', ownerReferences: [absent] }
    await suite.cluster().create('Secret', { ...smallest.Secret(namespace, 'seen'), metadata })
    await suite
      .cluster()
      .create('PersistentVolumeClaim', { ...smallest.PersistentVolumeClaim(namespace, 'seen'), metadata })
    for (const kind of ['Secret', 'PersistentVolumeClaim'] as const) await gone(kind, { namespace, name: 'seen' })
  }

  const make = (namespace: string, name: string, metadata: object = {}) =>
    suite.cluster().create('ConfigMap', configMap(namespace, name, {}, metadata))

  describe('foreground deletion', { timeout: 150_000 }, () => {
    test('marks the owner, deletes its dependents, and waits for those that block it', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const held = await make(namespace, 'held', { ownerReferences: [ownedBy(owner)], finalizers: [hold] })
      const free = await make(namespace, 'free', { ownerReferences: [ownedBy(owner, false)] })
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      const waiting = await stored(suite.cluster(), 'ConfigMap', keyOf(owner))
      expect(waiting.metadata.deletionTimestamp).toBeDefined()
      expect(waiting.metadata.finalizers).toEqual([foreground])
      await gone('ConfigMap', keyOf(free))
      await marked('ConfigMap', keyOf(held))
      expect((await stored(suite.cluster(), 'ConfigMap', keyOf(owner))).metadata.finalizers).toEqual([foreground])
      await release('ConfigMap', keyOf(held))
      await gone('ConfigMap', keyOf(held))
      await gone('ConfigMap', keyOf(owner))
    })

    test("takes the dependents even where the owner's own finalizer holds it", async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite
        .cluster()
        .create('ManagedDatabase', database(namespace, 'orders', { metadata: { finalizers: [hold] } }))
      const ownerReferences = [{ ...ownedBy(owner), controller: true }]
      const secret = smallest.Secret(namespace, 'credentials')
      await suite.cluster().create('Secret', { ...secret, metadata: { ...secret.metadata, ownerReferences } })
      const claim = smallest.PersistentVolumeClaim(namespace, 'data')
      await suite
        .cluster()
        .create('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, ownerReferences } })
      await untilSeen(namespace)
      await suite.cluster().delete('ManagedDatabase', keyOf(owner), { propagation: 'Foreground' })
      await gone('Secret', { namespace, name: 'credentials' })
      await gone('PersistentVolumeClaim', { namespace, name: 'data' })
      await eventually(async () => {
        const { metadata } = await stored(suite.cluster(), 'ManagedDatabase', keyOf(owner))
        expect(metadata.deletionTimestamp).toBeDefined()
        expect(metadata.finalizers).toEqual([hold])
      }, deadline)
      await release('ManagedDatabase', keyOf(owner))
      await gone('ManagedDatabase', keyOf(owner))
    })

    test('does not wait for a dependent that does not block', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const metadata = { ownerReferences: [ownedBy(owner, false)], finalizers: [hold] }
      const held = await make(namespace, 'held', metadata)
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      await gone('ConfigMap', keyOf(owner))
      await marked('ConfigMap', keyOf(held))
      await release('ConfigMap', keyOf(held))
      await gone('ConfigMap', keyOf(held))
    })

    test('goes down all levels, and the top waits for the bottom', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const top = await make(namespace, 'top')
      const middle = await make(namespace, 'middle', { ownerReferences: [ownedBy(top)] })
      const metadata = { ownerReferences: [ownedBy(middle)], finalizers: [hold] }
      const bottom = await make(namespace, 'bottom', metadata)
      await suite.cluster().delete('ConfigMap', keyOf(top), { propagation: 'Foreground' })
      await marked('ConfigMap', keyOf(bottom))
      const { metadata: waiting } = await stored(suite.cluster(), 'ConfigMap', keyOf(middle))
      expect(waiting.deletionTimestamp).toBeDefined()
      expect(waiting.finalizers).toEqual([foreground])
      await stored(suite.cluster(), 'ConfigMap', keyOf(top))
      await release('ConfigMap', keyOf(bottom))
      for (const object of [bottom, middle, top]) await gone('ConfigMap', keyOf(object))
    })

    test('leaves a dependent with another owner, without the reference', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const other = await make(namespace, 'other')
      const shared = await make(namespace, 'shared', { ownerReferences: [ownedBy(owner), ownedBy(other)] })
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      await gone('ConfigMap', keyOf(owner))
      const { metadata } = await stored(suite.cluster(), 'ConfigMap', keyOf(shared))
      expect(metadata.ownerReferences?.map(({ name }) => name)).toEqual(['other'])
      expect(metadata.deletionTimestamp).toBeUndefined()
    })

    test('of owners in a circle ends', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const one = await make(namespace, 'one')
      const other = await make(namespace, 'other', { ownerReferences: [ownedBy(one)] })
      const metadata = { ...one.metadata, ownerReferences: [ownedBy(other)] }
      await suite.cluster().replace('ConfigMap', { ...one, metadata })
      await suite.cluster().delete('ConfigMap', keyOf(one), { propagation: 'Foreground' })
      for (const object of [one, other]) await gone('ConfigMap', keyOf(object))
    })

    test('becomes background deletion where that is asked for afterwards', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await make(namespace, 'owner')
      const held = await make(namespace, 'held', { ownerReferences: [ownedBy(owner)], finalizers: [hold] })
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Foreground' })
      await marked('ConfigMap', keyOf(held))
      await stored(suite.cluster(), 'ConfigMap', keyOf(owner))
      await suite.cluster().delete('ConfigMap', keyOf(owner))
      expect(await suite.cluster().get('ConfigMap', keyOf(owner))).toBeUndefined()
      await release('ConfigMap', keyOf(held))
      await gone('ConfigMap', keyOf(held))
    })
  })
}
