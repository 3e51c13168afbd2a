/**
 * Conformance: after a deletion, a cluster collects dependents and empties namespaces. On a real cluster,
 * kube-controller-manager does this. It takes seconds, and for custom resources up to half a minute.
 */
import { describe, expect, test } from 'vitest'
import type { OwnerReference } from '../../../crds/index.ts'
import type { AnyObject } from '../../index.ts'
import { configMap, database, smallest } from './drafts.ts'
import { eventually, keyOf, refusal, type Suite, stored } from './suite.ts'

const deadline = 55_000

const ownedBy = (owner: AnyObject): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid ?? '',
})

export function describeGarbageCollection(suite: Suite): void {
  /** Waits until an object is deleted. */
  const untilDeleted = (kind: AnyObject['kind'], namespace: string | undefined, name: string): Promise<void> =>
    eventually(async () => {
      if ((await suite.cluster().get(kind, { namespace, name })) !== undefined)
        throw new Error(`${kind} ${name} is there`)
    }, deadline)

  describe('garbage collection', () => {
    test('deletes dependents of a deleted owner, across kinds and levels', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const secret = await suite.cluster().create('Secret', {
        ...smallest.Secret(namespace, 'child'),
        metadata: { namespace, name: 'child', ownerReferences: [ownedBy(owner)] },
      })
      await suite
        .cluster()
        .create('ConfigMap', configMap(namespace, 'grandchild', {}, { ownerReferences: [ownedBy(secret)] }))
      await suite.cluster().create('ConfigMap', configMap(namespace, 'bystander'))
      await suite.cluster().delete('ManagedDatabase', keyOf(owner))
      await untilDeleted('Secret', namespace, 'child')
      await untilDeleted('ConfigMap', namespace, 'grandchild')
      await stored(suite.cluster(), 'ConfigMap', { namespace, name: 'bystander' })
    })

    test('a dependent with finalizers gets a deletionTimestamp and waits for them', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite.cluster().create('ConfigMap', configMap(namespace, 'owner'))
      const metadata = { ownerReferences: [ownedBy(owner)], finalizers: ['example.com/hold'] }
      await suite.cluster().create('ConfigMap', configMap(namespace, 'child', {}, metadata))
      await suite.cluster().delete('ConfigMap', keyOf(owner))
      const terminating = await eventually(async () => {
        const child = await stored(suite.cluster(), 'ConfigMap', { namespace, name: 'child' })
        if (child.metadata.deletionTimestamp === undefined) throw new Error('the child is not marked')
        return child
      }, deadline)
      await suite
        .cluster()
        .replace('ConfigMap', { ...terminating, metadata: { ...terminating.metadata, finalizers: [] } })
      await untilDeleted('ConfigMap', namespace, 'child')
    })

    test('a dependent with another existing owner remains', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const [one, other] = [
        await suite.cluster().create('ConfigMap', configMap(namespace, 'one')),
        await suite.cluster().create('ConfigMap', configMap(namespace, 'other')),
      ]
      const both = { ownerReferences: [ownedBy(one), ownedBy(other)] }
      await suite.cluster().create('ConfigMap', configMap(namespace, 'shared', {}, both))
      await suite.cluster().create('ConfigMap', configMap(namespace, 'single', {}, { ownerReferences: [ownedBy(one)] }))
      await suite.cluster().delete('ConfigMap', keyOf(one))
      await untilDeleted('ConfigMap', namespace, 'single')
      await eventually(async () => {
        const shared = await stored(suite.cluster(), 'ConfigMap', { namespace, name: 'shared' })
        expect(shared.metadata.ownerReferences?.map(({ name }) => name)).toEqual(['other'])
        expect(shared.metadata.deletionTimestamp).toBeUndefined()
      }, deadline)
    })

    test('a dependent created after the deletion of its owner is deleted too', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite.cluster().create('ConfigMap', configMap(namespace, 'owner'))
      await suite.cluster().delete('ConfigMap', keyOf(owner))
      await suite.cluster().create('ConfigMap', configMap(namespace, 'late', {}, { ownerReferences: [ownedBy(owner)] }))
      await untilDeleted('ConfigMap', namespace, 'late')
    })

    test('an owner with the same name but another uid does not protect a dependent', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite.cluster().create('ConfigMap', configMap(namespace, 'owner'))
      await suite
        .cluster()
        .create('ConfigMap', configMap(namespace, 'child', {}, { ownerReferences: [ownedBy(owner)] }))
      await suite.cluster().delete('ConfigMap', keyOf(owner))
      await suite.cluster().create('ConfigMap', configMap(namespace, 'owner'))
      await untilDeleted('ConfigMap', namespace, 'child')
      await stored(suite.cluster(), 'ConfigMap', { namespace, name: 'owner' })
    })

    test('Orphan keeps dependents, without their reference', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const owner = await suite.cluster().create('ConfigMap', configMap(namespace, 'owner'))
      const child = await suite
        .cluster()
        .create('ConfigMap', configMap(namespace, 'child', {}, { ownerReferences: [ownedBy(owner)] }))
      await suite.cluster().delete('ConfigMap', keyOf(owner), { propagation: 'Orphan' })
      await untilDeleted('ConfigMap', namespace, 'owner')
      await eventually(async () => {
        const orphan = await stored(suite.cluster(), 'ConfigMap', keyOf(child))
        expect(orphan.metadata.ownerReferences ?? []).toEqual([])
        expect(orphan.metadata.deletionTimestamp).toBeUndefined()
      }, deadline)
    })

    test('a cluster-scoped owner can have namespaced dependents', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const tenant = await suite.cluster().create('Tenant', smallest.Tenant('', namespace))
      await suite
        .cluster()
        .create('ConfigMap', configMap(namespace, 'child', {}, { ownerReferences: [ownedBy(tenant)] }))
      await suite.cluster().delete('Tenant', keyOf(tenant))
      await untilDeleted('ConfigMap', namespace, 'child')
    })
  })

  describe('namespaces', () => {
    test('a deleted namespace is emptied, waits for finalizers, refuses new objects, then disappears', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      await suite.cluster().create('Secret', smallest.Secret(namespace, 'one'))
      const blocked = await suite
        .cluster()
        .create('ConfigMap', configMap(namespace, 'held', {}, { finalizers: ['example.com/hold'] }))
      await suite.cluster().delete('Namespace', { name: namespace })
      expect((await stored(suite.cluster(), 'Namespace', { name: namespace })).status?.phase).toBe('Terminating')
      await refusal(suite.cluster().create('ConfigMap', configMap(namespace, 'late')), 'Forbidden')
      await untilDeleted('ManagedDatabase', namespace, 'orders')
      await untilDeleted('Secret', namespace, 'one')
      const terminating = await eventually(async () => {
        const object = await stored(suite.cluster(), 'ConfigMap', keyOf(blocked))
        if (object.metadata.deletionTimestamp === undefined) throw new Error('not marked yet')
        return object
      }, deadline)
      await suite
        .cluster()
        .replace('ConfigMap', { ...terminating, metadata: { ...terminating.metadata, finalizers: [] } })
      await untilDeleted('Namespace', undefined, namespace)
    })

    test('a namespace is Active, and has its name as a label', async () => {
      const namespace = await suite.namespace()
      const object = await stored(suite.cluster(), 'Namespace', { name: namespace })
      expect(object.status?.phase).toBe('Active')
      expect(object.metadata.labels).toMatchObject({ 'kubernetes.io/metadata.name': namespace })
    })
  })
}
