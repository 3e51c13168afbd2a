/** Conformance: delete, its preconditions, and finalizers. */
import { describe, expect, test } from 'vitest'
import { configMap, database } from './drafts.ts'
import { keyOf, refusal, type Suite, stored, versionOf } from './suite.ts'

const finalizer = 'espalier.dev/teardown'

export function describeDeletion(suite: Suite): void {
  describe('delete', () => {
    test('removes an object without finalizers at once', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      await suite.cluster().delete('ManagedDatabase', keyOf(created))
      expect(await suite.cluster().get('ManagedDatabase', keyOf(created))).toBeUndefined()
    })

    test('of a missing object succeeds, with preconditions or without', async () => {
      const namespace = await suite.namespace()
      await suite.cluster().delete('ManagedDatabase', { namespace, name: 'absent' })
      await suite.cluster().delete('ConfigMap', { namespace, name: 'absent' }, { uid: 'whatever' })
      await suite.cluster().delete('ConfigMap', { namespace: 'no-such-namespace', name: 'absent' })
    })

    test('is guarded by uid and by resourceVersion', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '1' }))
      const current = await suite.cluster().replace('ConfigMap', { ...created, data: { a: '2' } })
      const key = keyOf(created)
      const uid = '11111111-1111-4111-8111-111111111111'
      await refusal(suite.cluster().delete('ConfigMap', key, { uid }), 'Conflict')
      const { resourceVersion } = created.metadata
      await refusal(suite.cluster().delete('ConfigMap', key, { resourceVersion }), 'Conflict')
      expect(await suite.cluster().get('ConfigMap', key)).toEqual(current)
      await suite
        .cluster()
        .delete('ConfigMap', key, { uid: current.metadata.uid, resourceVersion: current.metadata.resourceVersion })
      expect(await suite.cluster().get('ConfigMap', key)).toBeUndefined()
    })
  })

  describe('finalizers', () => {
    test('block the deletion of an object until the last one is removed', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders', { metadata: { finalizers: [finalizer, 'example.com/other'] } })
      const created = await suite.cluster().create('ManagedDatabase', draft)
      const key = keyOf(created)
      await suite.cluster().delete('ManagedDatabase', key)
      const deleting = await stored(suite.cluster(), 'ManagedDatabase', key)
      expect(deleting.metadata.deletionTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
      expect(deleting.metadata.generation).toBe(2)
      expect(versionOf(deleting)).toBeGreaterThan(versionOf(created))

      const half = await suite
        .cluster()
        .replace('ManagedDatabase', { ...deleting, metadata: { ...deleting.metadata, finalizers: [finalizer] } })
      expect(half.metadata.deletionTimestamp).toBe(deleting.metadata.deletionTimestamp)
      const last = await suite
        .cluster()
        .replace('ManagedDatabase', { ...half, metadata: { ...half.metadata, finalizers: [] } })
      expect(last.metadata.uid).toBe(created.metadata.uid)
      expect(await suite.cluster().get('ManagedDatabase', key)).toBeUndefined()
    })

    test('make a second delete change nothing', async () => {
      const namespace = await suite.namespace()
      const draft = configMap(namespace, 'one', {}, { finalizers: [finalizer] })
      const created = await suite.cluster().create('ConfigMap', draft)
      await suite.cluster().delete('ConfigMap', keyOf(created))
      const deleting = await stored(suite.cluster(), 'ConfigMap', keyOf(created))
      await suite.cluster().delete('ConfigMap', keyOf(created))
      const again = await stored(suite.cluster(), 'ConfigMap', keyOf(created))
      expect(again).toEqual(deleting)
      await suite.cluster().replace('ConfigMap', { ...again, metadata: { ...again.metadata, finalizers: [] } })
    })

    test('cannot be added during deletion; spec and status can still change', async () => {
      const namespace = await suite.namespace()
      const created = await suite
        .cluster()
        .create('ManagedDatabase', database(namespace, 'orders', { metadata: { finalizers: [finalizer] } }))
      await suite.cluster().delete('ManagedDatabase', keyOf(created))
      const deleting = await stored(suite.cluster(), 'ManagedDatabase', keyOf(created))
      const finalizers = [finalizer, 'example.com/new']
      const { message } = await refusal(
        suite.cluster().replace('ManagedDatabase', { ...deleting, metadata: { ...deleting.metadata, finalizers } }),
        'Invalid',
      )
      expect(message).toContain('metadata.finalizers')
      const status = await suite
        .cluster()
        .replaceStatus('ManagedDatabase', { ...deleting, status: { phase: 'deleting' } })
      expect(status.status).toEqual({ phase: 'deleting' })
      const spec = await suite
        .cluster()
        .replace('ManagedDatabase', { ...status, spec: { ...status.spec, displayName: 'still' } })
      expect(spec.spec.displayName).toBe('still')
      await suite.cluster().replace('ManagedDatabase', { ...spec, metadata: { ...spec.metadata, finalizers: [] } })
    })

    test('prevent the removal of a deletionTimestamp, and keep the name in use', async () => {
      const namespace = await suite.namespace()
      const draft = configMap(namespace, 'one', {}, { finalizers: [finalizer] })
      const created = await suite.cluster().create('ConfigMap', draft)
      await suite.cluster().delete('ConfigMap', keyOf(created))
      const deleting = await stored(suite.cluster(), 'ConfigMap', keyOf(created))
      const { deletionTimestamp: _time, ...metadata } = deleting.metadata
      const replaced = await suite.cluster().replace('ConfigMap', { ...deleting, metadata, data: { a: '1' } })
      expect(replaced.metadata.deletionTimestamp).toBe(deleting.metadata.deletionTimestamp)
      await refusal(suite.cluster().create('ConfigMap', configMap(namespace, 'one')), 'AlreadyExists')
      await suite.cluster().replace('ConfigMap', { ...replaced, metadata: { ...replaced.metadata, finalizers: [] } })
    })

    test('are also removed by an apply, and the last removal deletes the object', async () => {
      const namespace = await suite.namespace()
      await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', {}, { finalizers: [finalizer] }))
      await suite.cluster().delete('ConfigMap', { namespace, name: 'one' })
      await suite.cluster().apply('ConfigMap', configMap(namespace, 'one'))
      expect(await suite.cluster().get('ConfigMap', { namespace, name: 'one' })).toBeUndefined()
    })

    test('do not disable preconditions: a version also guards the setting of the deletionTimestamp', async () => {
      const namespace = await suite.namespace()
      const draft = configMap(namespace, 'one', {}, { finalizers: [finalizer] })
      const created = await suite.cluster().create('ConfigMap', draft)
      const current = await suite.cluster().replace('ConfigMap', { ...created, data: { a: '1' } })
      const { resourceVersion } = created.metadata
      await refusal(suite.cluster().delete('ConfigMap', keyOf(created), { resourceVersion }), 'Conflict')
      expect(await suite.cluster().get('ConfigMap', keyOf(created))).toEqual(current)
      await suite.cluster().replace('ConfigMap', { ...current, metadata: { ...current.metadata, finalizers: [] } })
    })
  })
}
