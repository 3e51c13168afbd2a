/** Conformance: get, create, replace, replaceStatus, and how a resourceVersion guards them. */
import { describe, expect, test } from 'vitest'
import { configMap, database, smallest } from './drafts.ts'
import { keyOf, refusal, refusedOf, type Suite, stored, undisturbed, uniqueName, versionOf } from './suite.ts'

export function describeWrites(suite: Suite): void {
  describe('get and create', () => {
    test('get of a missing object is undefined, whether its namespace exists or not', async () => {
      const namespace = await suite.namespace()
      expect(await suite.cluster().get('ManagedDatabase', { namespace, name: 'absent' })).toBeUndefined()
      expect(await suite.cluster().get('ConfigMap', { namespace, name: 'absent' })).toBeUndefined()
      expect(await suite.cluster().get('Secret', { namespace: uniqueName('no-'), name: 'absent' })).toBeUndefined()
      expect(await suite.cluster().get('Tenant', { name: 'absent' })).toBeUndefined()
    })

    test('create returns the fields that only the server sets, and get reads them back', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      expect(created).toMatchObject({ apiVersion: 'espalier.dev/v1alpha1', kind: 'ManagedDatabase' })
      expect(created.metadata).toMatchObject({ namespace, name: 'orders', generation: 1 })
      expect(created.metadata.uid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(created.metadata.resourceVersion).toMatch(/^[1-9][0-9]*$/)
      expect(created.metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
      expect(await suite.cluster().get('ManagedDatabase', keyOf(created))).toEqual(created)
    })

    test('create ignores status, generation, uid and timestamps that the client sends', async () => {
      const namespace = await suite.namespace()
      const forged = {
        ...database(namespace, 'orders'),
        metadata: {
          namespace,
          name: 'orders',
          generation: 7,
          uid: '11111111-1111-4111-8111-111111111111',
          creationTimestamp: '2001-01-01T00:00:00Z',
          deletionTimestamp: '2001-01-01T00:00:00Z',
        },
        status: { phase: 'available' as const },
      }
      const created = await suite.cluster().create('ManagedDatabase', forged)
      expect(created.status).toBeUndefined()
      expect(created.metadata.generation).toBe(1)
      expect(created.metadata.uid).not.toBe(forged.metadata.uid)
      expect(created.metadata.creationTimestamp).not.toBe(forged.metadata.creationTimestamp)
      expect(created.metadata.deletionTimestamp).toBeUndefined()
    })

    test('a second create of one name is AlreadyExists and changes nothing', async () => {
      const namespace = await suite.namespace()
      const first = await suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '1' }))
      const error = await refusal(
        suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '2' })),
        'AlreadyExists',
      )
      expect(error.message).toContain('one')
      expect(await suite.cluster().get('ConfigMap', keyOf(first))).toEqual(first)
    })

    test('two namespaces can use the same name', async () => {
      const [left, right] = [await suite.namespace(), await suite.namespace()]
      const one = await suite.cluster().create('ManagedDatabase', database(left, 'orders'))
      const other = await suite.cluster().create('ManagedDatabase', database(right, 'orders'))
      expect(one.metadata.uid).not.toBe(other.metadata.uid)
    })

    test('create in a missing namespace is NotFound and names it', async () => {
      const namespace = uniqueName('no-')
      const error = await refusal(suite.cluster().create('ManagedDatabase', database(namespace, 'orders')), 'NotFound')
      expect(error.message).toContain(namespace)
      await refusal(suite.cluster().create('Secret', smallest.Secret(namespace, 'one')), 'NotFound')
    })

    test('of many concurrent creates of one name exactly one succeeds', async () => {
      const namespace = await suite.namespace()
      const attempts = Array.from({ length: 12 }, (_, index) =>
        suite.cluster().create('ConfigMap', configMap(namespace, 'contended', { winner: `${index}` })),
      )
      expect(await refusedOf(attempts, 'AlreadyExists')).toBe(11)
    })
  })

  describe('replace', () => {
    test('writes the complete object over the version it names', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '1', b: '2' }))
      const replaced = await suite.cluster().replace('ConfigMap', { ...created, data: { b: '3' } })
      expect(replaced.data).toEqual({ b: '3' })
      expect(versionOf(replaced)).toBeGreaterThan(versionOf(created))
      expect(replaced.metadata.uid).toBe(created.metadata.uid)
      expect(replaced.metadata.creationTimestamp).toBe(created.metadata.creationTimestamp)
    })

    test('with a stale resourceVersion is Conflict and changes nothing', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const newer = await suite
        .cluster()
        .replace('ManagedDatabase', { ...created, spec: { ...created.spec, suspended: true } })
      await refusal(
        suite.cluster().replace('ManagedDatabase', { ...created, spec: { ...created.spec, displayName: 'late' } }),
        'Conflict',
      )
      expect(await suite.cluster().get('ManagedDatabase', keyOf(created))).toEqual(newer)
    })

    test('without a resourceVersion is Invalid, for every kind', async () => {
      const namespace = await suite.namespace()
      const custom = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const builtIn = await suite.cluster().create('ConfigMap', configMap(namespace, 'one'))
      const { resourceVersion: _one, ...customMeta } = custom.metadata
      const { resourceVersion: _other, ...builtInMeta } = builtIn.metadata
      const error = await refusal(
        suite.cluster().replace('ManagedDatabase', { ...custom, metadata: customMeta }),
        'Invalid',
      )
      expect(error.message).toContain('metadata.resourceVersion')
      await refusal(suite.cluster().replace('ConfigMap', { ...builtIn, metadata: builtInMeta }), 'Invalid')
      await refusal(suite.cluster().replaceStatus('ManagedDatabase', { ...custom, metadata: customMeta }), 'Invalid')
    })

    test('of a deleted object is refused, and does not create it again', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const lease = await suite.cluster().create('Lease', smallest.Lease(namespace, 'leader'))
      await suite.cluster().delete('ManagedDatabase', keyOf(created))
      await suite.cluster().delete('Lease', keyOf(lease))
      await refusal(suite.cluster().replace('ManagedDatabase', created), 'Conflict', 'NotFound')
      await refusal(
        suite.cluster().replaceStatus('ManagedDatabase', { ...created, status: {} }),
        'Conflict',
        'NotFound',
      )
      await refusal(suite.cluster().replace('Lease', lease), 'Conflict', 'NotFound')
      expect(await suite.cluster().get('ManagedDatabase', keyOf(created))).toBeUndefined()
      expect(await suite.cluster().get('Lease', keyOf(lease))).toBeUndefined()
    })

    test('of a new object with the same name is Conflict', async () => {
      const namespace = await suite.namespace()
      const first = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      await suite.cluster().delete('ManagedDatabase', keyOf(first))
      const second = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      await refusal(suite.cluster().replace('ManagedDatabase', first), 'Conflict')
      const { resourceVersion } = second.metadata
      await refusal(
        suite.cluster().replace('ManagedDatabase', { ...first, metadata: { ...first.metadata, resourceVersion } }),
        'Conflict',
      )
    })

    test('that changes nothing keeps the resourceVersion', async () => {
      const namespace = await suite.namespace()
      for (const created of [
        await suite.cluster().create('ManagedDatabase', database(namespace, 'orders')),
        await suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '1' })),
        await suite.cluster().create('StatefulSet', smallest.StatefulSet(namespace, 'set')),
      ]) {
        const { current, again } = await undisturbed(async () => {
          const current = await stored(suite.cluster(), created.kind, keyOf(created))
          return { current, again: await suite.cluster().replace(current.kind, current) }
        })
        if (created.kind !== 'StatefulSet')
          expect(current.metadata.resourceVersion).toBe(created.metadata.resourceVersion)
        expect(again.metadata.resourceVersion).toBe(current.metadata.resourceVersion)
      }
    })

    test('generation increases with the spec only', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const labelled = await suite
        .cluster()
        .replace('ManagedDatabase', { ...created, metadata: { ...created.metadata, labels: { a: '1' } } })
      expect(labelled.metadata.generation).toBe(1)
      const status = await suite
        .cluster()
        .replaceStatus('ManagedDatabase', { ...labelled, status: { phase: 'creating' } })
      expect(status.metadata.generation).toBe(1)
      const changed = await suite
        .cluster()
        .replace('ManagedDatabase', { ...status, spec: { ...status.spec, suspended: true } })
      expect(changed.metadata.generation).toBe(2)
    })

    test('of many concurrent replaces of one version exactly one succeeds', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const attempts = Array.from({ length: 12 }, (_, index) =>
        suite
          .cluster()
          .replace('ManagedDatabase', { ...created, spec: { ...created.spec, displayName: `winner ${index}` } }),
      )
      expect(await refusedOf(attempts, 'Conflict')).toBe(11)
    })
  })

  describe('status', () => {
    test('replaceStatus writes the status and nothing else', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const written = await suite.cluster().replaceStatus('ManagedDatabase', {
        ...created,
        metadata: {
          ...created.metadata,
          labels: { sneaked: 'in' },
          annotations: { sneaked: 'in' },
          finalizers: ['a/b'],
        },
        spec: { ...created.spec, suspended: true },
        status: { phase: 'creating', observedGeneration: 1 },
      })
      expect(written.status).toEqual({ phase: 'creating', observedGeneration: 1 })
      expect(written.spec).toEqual(created.spec)
      expect(written.metadata.labels).toBeUndefined()
      expect(written.metadata.annotations).toBeUndefined()
      expect(written.metadata.finalizers).toBeUndefined()
    })

    test('replace keeps the stored status, whatever the object contains', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const ready = await suite
        .cluster()
        .replaceStatus('ManagedDatabase', { ...created, status: { phase: 'available' } })
      const replaced = await suite.cluster().replace('ManagedDatabase', {
        ...ready,
        spec: { ...ready.spec, suspended: true },
        status: { phase: 'failed' },
      })
      expect(replaced.status).toEqual({ phase: 'available' })
      const { status: _status, ...without } = replaced
      const again = await suite
        .cluster()
        .replace('ManagedDatabase', { ...without, spec: { ...without.spec, suspended: false } })
      expect(again.status).toEqual({ phase: 'available' })
    })

    test('a built-in kind has a separate status too', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('StatefulSet', smallest.StatefulSet(namespace, 'set'))
      const key = keyOf(created)
      const { resourceVersion: _version, ...metadata } = created.metadata
      const replaced = await undisturbed(async () => {
        const current = await stored(suite.cluster(), 'StatefulSet', key)
        return suite.cluster().replace('StatefulSet', {
          ...current,
          metadata: { ...current.metadata, labels: { a: '1' } },
          status: { replicas: 9 },
        })
      })
      expect(replaced.status?.replicas).not.toBe(9)
      expect(replaced.metadata.uid).toBe(metadata.uid)
    })

    test('a status decided on a stale version is Conflict', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      await suite.cluster().replace('ManagedDatabase', { ...created, spec: { ...created.spec, suspended: true } })
      await refusal(
        suite.cluster().replaceStatus('ManagedDatabase', { ...created, status: { phase: 'available' } }),
        'Conflict',
      )
    })

    test('replaceStatus that changes nothing keeps the resourceVersion', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const status = {
        phase: 'available' as const,
        conditions: [
          {
            type: 'Ready',
            status: 'True' as const,
            reason: 'Serves',
            message: 'a client was answered',
            lastTransitionTime: '2026-01-02T03:04:05Z',
          },
        ],
      }
      const written = await suite.cluster().replaceStatus('ManagedDatabase', { ...created, status })
      expect(written.status).toEqual(status)
      const again = await suite.cluster().replaceStatus('ManagedDatabase', { ...written, status })
      expect(again.metadata.resourceVersion).toBe(written.metadata.resourceVersion)
    })

    test('resourceVersions of one kind compare as numbers, whatever the write', async () => {
      const namespace = await suite.namespace()
      const first = await suite.cluster().create('ManagedDatabase', database(namespace, 'one'))
      const second = await suite.cluster().create('ManagedDatabase', database(namespace, 'two'))
      const third = await suite.cluster().replaceStatus('ManagedDatabase', { ...first, status: { phase: 'creating' } })
      const fourth = await suite
        .cluster()
        .replace('ManagedDatabase', { ...second, spec: { ...second.spec, suspended: true } })
      const list = await suite.cluster().list('ManagedDatabase', { namespace })
      const versions = [first, second, third, fourth].map(versionOf)
      expect(versions).toEqual([...versions].sort((left, right) => (left < right ? -1 : 1)))
      expect(new Set(versions).size).toBe(4)
      expect(BigInt(list.resourceVersion)).toBeGreaterThanOrEqual(versions[3] ?? 0n)
    })
  })
}
