/** Conformance: server-side apply, its field ownership and its merging of lists (Kubernetes, "Server-Side Apply"). */
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { configMap, database, smallest, statefulSet } from './drafts.ts'
import { keyOf, refusal, type Suite, stored, uniqueName } from './suite.ts'

const mcp = (serviceId: string) => ({ serviceType: 'mcp' as const, serviceId, ipAllowlist: { rules: [] } })
const rest = (serviceId: string) => ({
  serviceType: 'rest' as const,
  serviceId,
  ipAllowlist: { rules: [] },
  rest: { dbSchemas: 'public', dbAnonRole: 'anonymous', dbPool: 10, maxRows: 1000 },
})

const statusOf = (object: object): unknown => ('status' in object ? object.status : undefined)

export function describeApply(suite: Suite): void {
  describe('apply', () => {
    test('creates a missing object, and a second equal apply changes nothing', async () => {
      const namespace = await suite.namespace()
      const drafts = [
        database(namespace, 'orders', { metadata: { labels: { a: '1' } } }),
        configMap(namespace, 'one', { a: '1' }),
        smallest.Secret(namespace, 'secret'),
        smallest.Service(namespace, 'service'),
        smallest.StatefulSet(namespace, 'set'),
      ]
      for (const draft of drafts) {
        await suite.cluster().apply(draft.kind, draft)
        const apply = async () => {
          const applied = await stored(suite.cluster(), draft.kind, { namespace, name: draft.metadata.name })
          return { applied, again: await suite.cluster().apply(draft.kind, draft) }
        }
        // The controllers of a real cluster may write the status at any time. An attempt with such a write proves
        // nothing.
        let { applied, again } = await apply()
        for (let left = 20; left > 0 && !isDeepStrictEqual(statusOf(applied), statusOf(again)); left--) {
          ;({ applied, again } = await apply())
        }
        expect(again.metadata.resourceVersion, draft.kind).toBe(applied.metadata.resourceVersion)
        expect(again.metadata.uid).toBe(applied.metadata.uid)
      }
    })

    test('into a missing namespace is NotFound', async () => {
      const draft = database(uniqueName('no-'), 'orders')
      await refusal(suite.cluster().apply('ManagedDatabase', draft), 'NotFound')
    })

    test('sets the fields of the draft, removes those that its previous draft set, keeps the rest', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      await other.apply('ConfigMap', configMap(namespace, 'one', { theirs: '1' }, { labels: { theirs: 'yes' } }))
      const first = await suite
        .cluster()
        .apply('ConfigMap', configMap(namespace, 'one', { ours: '1', gone: '1' }, { annotations: { gone: 'soon' } }))
      expect(first.data).toEqual({ theirs: '1', ours: '1', gone: '1' })
      const second = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { ours: '2' }))
      expect(second.data).toEqual({ theirs: '1', ours: '2' })
      expect(second.metadata.labels).toEqual({ theirs: 'yes' })
      expect(second.metadata.annotations ?? {}).toEqual({})
    })

    test('keeps fields that another client wrote by replace', async () => {
      const namespace = await suite.namespace()
      const applied = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { ours: '1' }))
      const other = await suite.target().connect('other')
      await other.replace('ConfigMap', { ...applied, data: { ...applied.data, theirs: '1' } })
      const again = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { ours: '2' }))
      expect(again.data).toEqual({ ours: '2', theirs: '1' })
    })

    test('takes ownership of a field by force, and its former owner cannot remove the field any more', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      await other.apply('ConfigMap', configMap(namespace, 'one', { shared: 'theirs', theirs: '1' }))
      const taken = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { shared: 'ours' }))
      expect(taken.data).toEqual({ shared: 'ours', theirs: '1' })
      const without = await other.apply('ConfigMap', configMap(namespace, 'one', { theirs: '1' }))
      expect(without.data).toEqual({ shared: 'ours', theirs: '1' })
    })

    test('a field that two managers set to the same value remains until both remove it', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      await other.apply('ConfigMap', configMap(namespace, 'one', { shared: 'same', theirs: '1' }))
      await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { shared: 'same', ours: '1' }))
      const one = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { ours: '1' }))
      expect(one.data).toEqual({ shared: 'same', theirs: '1', ours: '1' })
      const none = await other.apply('ConfigMap', configMap(namespace, 'one', { theirs: '1' }))
      expect(none.data).toEqual({ theirs: '1', ours: '1' })
    })

    test("overwrites another client's change by replace to a field of this manager", async () => {
      const namespace = await suite.namespace()
      const draft = configMap(namespace, 'one', { ours: '1' })
      const applied = await suite.cluster().apply('ConfigMap', draft)
      const other = await suite.target().connect('other')
      await other.replace('ConfigMap', { ...applied, data: { ours: 'changed' } })
      expect((await suite.cluster().apply('ConfigMap', draft)).data).toEqual({ ours: '1' })
    })

    test('if another client changed a field of this manager, the field belongs to that client: omitting it keeps it', async () => {
      const namespace = await suite.namespace()
      const applied = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { a: '1', b: '1' }))
      const other = await suite.target().connect('other')
      await other.replace('ConfigMap', { ...applied, data: { a: 'changed', b: '1' } })
      const again = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one'))
      expect(again.data).toEqual({ a: 'changed' })
    })

    test('a field that the same client wrote by replace does not belong to its apply: the next apply keeps it', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders')
      const applied = await suite.cluster().apply('ManagedDatabase', draft)
      const metadata = { ...applied.metadata, labels: { 'espalier.dev/id': 'x' } }
      const labelled = await suite.cluster().replace('ManagedDatabase', { ...applied, metadata })
      const again = await suite.cluster().apply('ManagedDatabase', draft)
      expect(again.metadata.labels).toEqual({ 'espalier.dev/id': 'x' })
      expect(again.metadata.resourceVersion).toBe(labelled.metadata.resourceVersion)
    })

    test('a removed field gets its default again', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders')
      const first = await suite
        .cluster()
        .apply('ManagedDatabase', database(namespace, 'orders', { spec: { suspended: true, displayName: 'Orders' } }))
      expect(first.spec).toMatchObject({ suspended: true, displayName: 'Orders' })
      const second = await suite.cluster().apply('ManagedDatabase', draft)
      expect(second.spec.suspended).toBe(false)
      expect(second.spec.displayName).toBeUndefined()
      expect(second.metadata.generation).toBe(2)
    })

    test('keeps the status, whatever the draft contains', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders')
      const applied = await suite.cluster().apply('ManagedDatabase', draft)
      const ready = await suite
        .cluster()
        .replaceStatus('ManagedDatabase', { ...applied, status: { phase: 'available' } })
      const again = await suite
        .cluster()
        .apply('ManagedDatabase', { ...draft, status: { phase: 'failed' } } as typeof draft)
      expect(again.status).toEqual({ phase: 'available' })
      expect(again.metadata.resourceVersion).toBe(ready.metadata.resourceVersion)
    })

    test('is guarded by a resourceVersion in the draft', async () => {
      const namespace = await suite.namespace()
      const applied = await suite.cluster().apply('ConfigMap', configMap(namespace, 'one', { a: '1' }))
      const { resourceVersion } = applied.metadata
      const guarded = configMap(namespace, 'one', { a: '2' }, resourceVersion === undefined ? {} : { resourceVersion })
      const second = await suite.cluster().apply('ConfigMap', guarded)
      expect(second.data).toEqual({ a: '2' })
      const late = configMap(namespace, 'one', { a: '3' }, resourceVersion === undefined ? {} : { resourceVersion })
      await refusal(suite.cluster().apply('ConfigMap', late), 'Conflict')
      expect((await stored(suite.cluster(), 'ConfigMap', keyOf(applied))).data).toEqual({ a: '2' })
    })

    test('is guarded by a uid in the draft', async () => {
      const namespace = await suite.namespace()
      const first = await suite.cluster().create('ConfigMap', configMap(namespace, 'one'))
      await suite.cluster().delete('ConfigMap', keyOf(first))
      const { uid } = first.metadata
      const draft = configMap(namespace, 'one', { a: '1' }, uid === undefined ? {} : { uid })
      await refusal(suite.cluster().apply('ConfigMap', draft), 'Conflict')
      expect(await suite.cluster().get('ConfigMap', keyOf(first))).toBeUndefined()
    })

    test('with only a resourceVersion still creates a missing object', async () => {
      const namespace = await suite.namespace()
      const created = await suite
        .cluster()
        .apply('ConfigMap', configMap(namespace, 'one', {}, { resourceVersion: '1' }))
      expect(created.metadata.resourceVersion).not.toBe('1')
    })

    test('many concurrent applies of one object all succeed, each with its own field', async () => {
      const namespace = await suite.namespace()
      const managers = await Promise.all(Array.from({ length: 6 }, (_, index) => suite.target().connect(`m${index}`)))
      await Promise.all(
        managers.map((manager, index) =>
          manager.apply('ConfigMap', configMap(namespace, 'one', { [`field-${index}`]: `${index}` })),
        ),
      )
      const merged = await stored(suite.cluster(), 'ConfigMap', { namespace, name: 'one' })
      expect(Object.keys(merged.data ?? {})).toHaveLength(6)
    })
  })

  describe('apply merges lists', () => {
    test('services of a database by serviceType, each with its own owner', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      await other.apply('ManagedDatabase', database(namespace, 'orders', { spec: { services: [rest('aaaaaaaa')] } }))
      const both = await suite
        .cluster()
        .apply('ManagedDatabase', database(namespace, 'orders', { spec: { services: [mcp('bbbbbbbb')] } }))
      expect(both.spec.services.map(({ serviceType }) => serviceType).sort()).toEqual(['mcp', 'rest'])
      const changed = await suite
        .cluster()
        .apply('ManagedDatabase', database(namespace, 'orders', { spec: { services: [mcp('cccccccc')] } }))
      expect(changed.spec.services.find(({ serviceType }) => serviceType === 'mcp')?.serviceId).toBe('cccccccc')
      const one = await suite.cluster().apply('ManagedDatabase', database(namespace, 'orders'))
      expect(one.spec.services.map(({ serviceType }) => serviceType)).toEqual(['rest'])
    })

    test('atomically for an atomic list: its last applier owns the complete list', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      const rules = (cidr: string) => ({ spec: { ipAllowlist: { rules: [{ cidr }] } } })
      await other.apply('ManagedDatabase', database(namespace, 'orders', rules('192.0.2.1')))
      const taken = await suite.cluster().apply('ManagedDatabase', database(namespace, 'orders', rules('192.0.2.2')))
      expect(taken.spec.ipAllowlist.rules).toEqual([{ cidr: '192.0.2.2' }])
    })

    test('containers by name and their environment by name', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      await other.apply(
        'StatefulSet',
        statefulSet(namespace, 'set', [
          { name: 'main', image: 'one', env: [{ name: 'THEIRS', value: '1' }] },
          { name: 'theirs', image: 'side' },
        ]),
      )
      const merged = await suite
        .cluster()
        .apply(
          'StatefulSet',
          statefulSet(namespace, 'set', [{ name: 'main', image: 'two', env: [{ name: 'OURS', value: '2' }] }]),
        )
      const containers = merged.spec?.template.spec?.containers ?? []
      expect(containers.map(({ name, image }) => [name, image])).toEqual([
        ['main', 'two'],
        ['theirs', 'side'],
      ])
      expect(containers[0]?.env?.map(({ name, value }) => `${name}=${value}`).sort()).toEqual(['OURS=2', 'THEIRS=1'])
      const without = await suite
        .cluster()
        .apply('StatefulSet', statefulSet(namespace, 'set', [{ name: 'main', image: 'two' }]))
      expect(without.spec?.template.spec?.containers[0]?.env?.map(({ name }) => name)).toEqual(['THEIRS'])
    })

    test('ports of a Service by port and protocol', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      const draft = smallest.Service(namespace, 'service')
      const port = (name: string, number: number) => ({ name, port: number, protocol: 'TCP' })
      await other.apply('Service', { ...draft, spec: { ...draft.spec, ports: [port('a', 1000)] } })
      const both = await suite
        .cluster()
        .apply('Service', { ...draft, spec: { ...draft.spec, ports: [port('b', 2000)] } })
      expect(both.spec?.ports?.map(({ name }) => name).sort()).toEqual(['a', 'b'])
    })

    test('finalizers as a set, owner references by uid', async () => {
      const namespace = await suite.namespace()
      const other = await suite.target().connect('other')
      const [left, right] = [
        await suite.cluster().create('ConfigMap', configMap(namespace, 'left')),
        await suite.cluster().create('ConfigMap', configMap(namespace, 'right')),
      ]
      const reference = ({ metadata }: typeof left) => ({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        name: metadata.name,
        uid: metadata.uid ?? '',
      })
      const draft = (owner: typeof left, finalizer: string) =>
        configMap(namespace, 'child', {}, { ownerReferences: [reference(owner)], finalizers: [finalizer] })
      await other.apply('ConfigMap', draft(left, 'example.com/left'))
      const both = await suite.cluster().apply('ConfigMap', draft(right, 'example.com/right'))
      expect(both.metadata.finalizers?.toSorted()).toEqual(['example.com/left', 'example.com/right'])
      expect(both.metadata.ownerReferences?.map(({ name }) => name).sort()).toEqual(['left', 'right'])
      await other.apply('ConfigMap', configMap(namespace, 'child'))
      const one = await suite.cluster().apply('ConfigMap', configMap(namespace, 'child'))
      expect(one.metadata.finalizers ?? []).toEqual([])
      expect(one.metadata.ownerReferences ?? []).toEqual([])
    })
  })
}
