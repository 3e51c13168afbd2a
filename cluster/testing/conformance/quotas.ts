/** Conformance: what a ResourceQuota that counts objects refuses, and in which words. */
import { describe, expect, test } from 'vitest'
import { database } from './drafts.ts'
import { eventually, keyOf, refusal, refusedOf, remove, type Suite, stored } from './suite.ts'

const counted = 'count/manageddatabases.espalier.dev'

export function describeQuotas(suite: Suite): void {
  describe('quotas', () => {
    /** A quota that is in force: on Kubernetes a controller has to see it first. */
    const quota = async (namespace: string, name: string, most: string) => {
      await suite.cluster().apply('ResourceQuota', {
        apiVersion: 'v1',
        kind: 'ResourceQuota',
        metadata: { namespace, name },
        spec: { hard: { [counted]: most } },
      })
      await eventually(async () => {
        const { status } = await stored(suite.cluster(), 'ResourceQuota', { namespace, name })
        expect(status?.hard?.[counted]).toBe(most)
      }, 60_000)
    }

    test('an object too many of a kind is refused, by create and by apply; one that is there can be written', async context => {
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
      // Another kind, another namespace: not what it counts.
      await cluster.create('ConfigMap', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'free' } })
      await cluster.create('ManagedDatabase', database(await suite.namespace(), 'elsewhere'))
    })

    test('what is deleted makes room, and a higher number too', async context => {
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

    test('of many that come at once no more get through than there is room for', async context => {
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
  })
}
