/** Conformance: the refusals of a ResourceQuota of objects or of storage, and its messages. */
import { describe, expect, test } from 'vitest'
import { database, smallest } from './drafts.ts'
import { eventually, keyOf, refusal, refusedOf, remove, type Suite, stored } from './suite.ts'

const counted = 'count/manageddatabases.espalier.dev'

/** Creates a quota and waits until it is enforced. On Kubernetes, a controller must observe it first. */
export async function putQuota(suite: Suite, namespace: string, name: string, hard: Record<string, string>) {
  await suite.cluster().apply('ResourceQuota', {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { namespace, name },
    spec: { hard },
  })
  await eventually(async () => {
    const { status } = await stored(suite.cluster(), 'ResourceQuota', { namespace, name })
    expect(status?.hard).toEqual(hard)
  }, 60_000)
}

export function describeQuotas(suite: Suite): void {
  describe('quotas', () => {
    const quota = (namespace: string, name: string, most: string) =>
      putQuota(suite, namespace, name, { [counted]: most })

    test('one object too many is refused, by create and by apply; existing objects can be written', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const cluster = suite.cluster()
      await quota(namespace, 'few', '1')
      const first = await cluster.create('ManagedDatabase', database(namespace, 'first'))
      const error = await refusal(cluster.create('ManagedDatabase', database(namespace, 'second')), 'Forbidden')
      expect(error.message).toContain(
        `manageddatabases.espalier.dev "second" is forbidden: exceeded quota: few, requested: ${counted}=1, used: ${counted}=1, limited: ${counted}=1`,
      )
      await refusal(cluster.apply('ManagedDatabase', database(namespace, 'third')), 'Forbidden')
      await cluster.replace('ManagedDatabase', { ...first, spec: { ...first.spec, displayName: 'First' } })
      // Objects of another kind and in another namespace do not count.
      await cluster.create('ConfigMap', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'free' } })
      await cluster.create('ManagedDatabase', database(await suite.namespace(), 'elsewhere'))
    })

    test('a deletion frees quota, and so does a higher limit', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const cluster = suite.cluster()
      await quota(namespace, 'few', '1')
      const first = await cluster.create('ManagedDatabase', database(namespace, 'first'))
      await remove(cluster, 'ManagedDatabase', keyOf(first))
      await eventually(() => cluster.create('ManagedDatabase', database(namespace, 'second')), 60_000)
      await refusal(cluster.create('ManagedDatabase', database(namespace, 'third')), 'Forbidden')
      await quota(namespace, 'few', '2')
      await eventually(() => cluster.create('ManagedDatabase', database(namespace, 'third')), 60_000)
    })

    test('of many concurrent creates, no more succeed than the quota allows', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const cluster = suite.cluster()
      await quota(namespace, 'few', '3')
      const names = Array.from({ length: 8 }, (_, index) => `database${index}`)
      const refused = await refusedOf(
        names.map(name => cluster.create('ManagedDatabase', database(namespace, name))),
        'Forbidden',
      )
      const { items } = await cluster.list('ManagedDatabase', { namespace })
      expect(items).toHaveLength(names.length - refused)
      expect(items).toHaveLength(3)
    })

    /** A claim for more storage than any provisioner here grants. */
    const claim = (namespace: string, name: string, storage: string, storageClassName?: string) => {
      const draft = smallest.PersistentVolumeClaim(namespace, name)
      const ofClass = storageClassName === undefined ? {} : { storageClassName }
      const spec = { ...draft.spec, ...ofClass, resources: { requests: { storage } } }
      return suite.cluster().create('PersistentVolumeClaim', { ...draft, spec })
    }

    test('claims count by number and by requested size; every exceeded limit is named', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      await putQuota(suite, namespace, 'room', { persistentvolumeclaims: '2', 'requests.storage': '3Gi' })
      const first = await claim(namespace, 'first', '1Gi')
      const large = await refusal(claim(namespace, 'large', '2560Mi'), 'Forbidden')
      expect(large.message).toContain(
        'persistentvolumeclaims "large" is forbidden: exceeded quota: room, requested: requests.storage=2560Mi, used: requests.storage=1Gi, limited: requests.storage=3Gi',
      )
      await claim(namespace, 'second', '2Gi')
      const third = await refusal(claim(namespace, 'third', '1Gi'), 'Forbidden')
      expect(third.message).toContain(
        'requested: persistentvolumeclaims=1,requests.storage=1Gi, used: persistentvolumeclaims=2,requests.storage=3Gi, limited: persistentvolumeclaims=2,requests.storage=3Gi',
      )
      await remove(suite.cluster(), 'PersistentVolumeClaim', keyOf(first))
      await eventually(() => claim(namespace, 'third', '1Gi'), 60_000)
    })

    test('a storage class can have its own quota, and a kind a short name', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      const ofClass = 'conformance-gold.storageclass.storage.k8s.io'
      await putQuota(suite, namespace, 'gold', { [`${ofClass}/requests.storage`]: '1Gi', secrets: '1' })
      await claim(namespace, 'one', '1Gi', 'conformance-gold')
      const error = await refusal(claim(namespace, 'two', '1Gi', 'conformance-gold'), 'Forbidden')
      expect(error.message).toContain(
        `exceeded quota: gold, requested: ${ofClass}/requests.storage=1Gi, used: ${ofClass}/requests.storage=1Gi, limited: ${ofClass}/requests.storage=1Gi`,
      )
      await claim(namespace, 'three', '5Gi', 'conformance-silver')
      await suite.cluster().create('Secret', smallest.Secret(namespace, 'one'))
      const secret = await refusal(suite.cluster().create('Secret', smallest.Secret(namespace, 'two')), 'Forbidden')
      expect(secret.message).toContain(
        'exceeded quota: gold, requested: secrets=1, used: secrets=1, limited: secrets=1',
      )
    })

    test('of many concurrent claims, no more succeed than the quota allows', async context => {
      if (suite.target().garbageCollection === false) context.skip()
      const namespace = await suite.namespace()
      await putQuota(suite, namespace, 'room', { 'requests.storage': '3Gi' })
      const names = Array.from({ length: 6 }, (_, index) => `data${index}`)
      const refused = await refusedOf(
        names.map(name => claim(namespace, name, '1Gi')),
        'Forbidden',
      )
      expect(refused).toBe(3)
    })
  })
}
