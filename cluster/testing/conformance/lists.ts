/** Conformance: lists, their selectors and their pages. */
import { describe, expect, test } from 'vitest'
import type { LabelSelector, ListOptions } from '../../index.ts'
import { configMap, database, size, smallest } from './drafts.ts'
import { keyOf, refusal, type Suite, uniqueName } from './suite.ts'

export function describeLists(suite: Suite): void {
  const names = async (options: ListOptions): Promise<string[]> =>
    (await suite.cluster().list('ConfigMap', options)).items.map(({ metadata }) => metadata.name)

  /** Creates this many ConfigMaps named `item-00`, `item-01`, ... */
  const fill = async (namespace: string, count: number): Promise<void> => {
    for (let index = 0; index < count; index += 1)
      await suite.cluster().create('ConfigMap', configMap(namespace, `item-${`${index}`.padStart(2, '0')}`))
  }

  describe('list', () => {
    test('returns complete objects of one namespace, ordered by name', async () => {
      const [namespace, elsewhere] = [await suite.namespace(), await suite.namespace()]
      const [b, a] = [
        await suite.cluster().create('ManagedDatabase', database(namespace, 'b')),
        await suite.cluster().create('ManagedDatabase', database(namespace, 'a')),
      ]
      await suite.cluster().create('ManagedDatabase', database(elsewhere, 'c'))
      const list = await suite.cluster().list('ManagedDatabase', { namespace })
      expect(list.items).toEqual([a, b])
      expect(list.continueToken).toBeUndefined()
      expect(list.resourceVersion).toMatch(/^[1-9][0-9]*$/)
    })

    test('items of built-in kinds have apiVersion and kind too', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '1' }))
      const { items } = await suite.cluster().list('ConfigMap', { namespace, labels: {} })
      expect(items.find(({ metadata }) => metadata.name === 'one')).toEqual(created)
    })

    test('without matches is empty, also in a missing namespace', async () => {
      const namespace = await suite.namespace()
      expect((await suite.cluster().list('ManagedDatabase', { namespace })).items).toEqual([])
      expect((await suite.cluster().list('Secret', { namespace: uniqueName('no-') })).items).toEqual([])
    })

    test('without a namespace includes all namespaces', async () => {
      const [left, right] = [await suite.namespace(), await suite.namespace()]
      const label = uniqueName('mark-')
      const metadata = { labels: { mark: label } }
      await suite.cluster().create('ManagedDatabase', database(left, 'one', { metadata }))
      await suite.cluster().create('ManagedDatabase', database(right, 'two', { metadata }))
      const { items } = await suite.cluster().list('ManagedDatabase', { labels: { mark: label } })
      expect(items.map(object => [object.metadata.namespace, object.metadata.name]).sort()).toEqual(
        [
          [left, 'one'],
          [right, 'two'],
        ].sort(),
      )
    })

    test('can select Events about one object; for another kind that is refused', async () => {
      const namespace = await suite.namespace()
      const [one, other] = [
        await suite.cluster().create('ConfigMap', configMap(namespace, 'one')),
        await suite.cluster().create('ConfigMap', configMap(namespace, 'other')),
      ]
      for (const { metadata } of [one, other, one]) {
        const involvedObject = {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          namespace,
          name: metadata.name,
          uid: metadata.uid,
        }
        const draft = smallest.Event(namespace, uniqueName('event-'))
        await suite.cluster().create('Event', { ...draft, involvedObject })
      }
      const { items } = await suite.cluster().list('Event', { namespace, about: one.metadata.uid })
      expect(items.map(({ involvedObject }) => involvedObject.name)).toEqual(['one', 'one'])
      await refusal(suite.cluster().list('ConfigMap', { namespace, about: one.metadata.uid }), 'BadRequest')
    })

    test('can select Tasks that have not ended; for another kind that is refused', async () => {
      const namespace = await suite.namespace()
      for (const phase of [undefined, 'queued', 'running', 'succeeded', 'failed'] as const) {
        const task = await suite.cluster().create('Task', smallest.Task(namespace, phase ?? 'untold'))
        if (phase !== undefined) await suite.cluster().replaceStatus('Task', { ...task, status: { phase } })
      }
      const listed = async (options: ListOptions) =>
        (await suite.cluster().list('Task', { namespace, ...options })).items.map(({ metadata }) => metadata.name)
      expect(await listed({ open: true })).toEqual(['queued', 'running', 'untold'])
      expect(await listed({ open: true, labels: { no: 'such' } })).toEqual([])
      expect(await listed({})).toHaveLength(5)
      await refusal(suite.cluster().list('ConfigMap', { namespace, open: true }), 'BadRequest')
    })

    test('of a cluster-scoped kind', async () => {
      const name = uniqueName('conformance')
      suite.removeAfterwards('Size', `${name}-v1`)
      const created = await suite.cluster().create('Size', size(name))
      const { items } = await suite.cluster().list('Size')
      expect(items.find(object => object.metadata.name === created.metadata.name)).toEqual(created)
    })

    test('selects by label values, by presence, and by all of them together', async () => {
      const namespace = await suite.namespace()
      const labelled = (name: string, labels: Record<string, string>) =>
        suite.cluster().create('ConfigMap', configMap(namespace, name, {}, { labels }))
      await labelled('a', { tier: 'one', 'espalier.dev/component': 'route' })
      await labelled('b', { tier: 'two', 'espalier.dev/component': 'route' })
      await labelled('c', { tier: 'one' })
      await labelled('d', { tier: '' })
      expect(await names({ namespace, labels: { tier: 'one' } })).toEqual(['a', 'c'])
      expect(await names({ namespace, labels: { 'espalier.dev/component': true } })).toEqual(['a', 'b'])
      expect(await names({ namespace, labels: { tier: true, 'espalier.dev/component': 'route' } })).toEqual(['a', 'b'])
      expect(await names({ namespace, labels: { tier: 'one', 'espalier.dev/component': true } })).toEqual(['a'])
      expect(await names({ namespace, labels: { tier: '' } })).toEqual(['d'])
      expect(await names({ namespace, labels: { tier: 'three' } })).toEqual([])
    })

    test('refuses an invalid selector instead of selecting more', async () => {
      const namespace = await suite.namespace()
      const selectors: LabelSelector[] = [
        { tier: 'one,two' },
        { tier: '-' },
        { tier: 'x'.repeat(64) },
        { 'a b': 'c' },
        { '': 'c' },
      ]
      for (const labels of selectors)
        await refusal(suite.cluster().list('ConfigMap', { namespace, labels }), 'BadRequest')
    })

    test('includes objects that were written just before', async () => {
      const namespace = await suite.namespace()
      for (let index = 0; index < 20; index += 1) {
        await suite.cluster().create('ManagedDatabase', database(namespace, `d${index}`))
        expect((await suite.cluster().list('ManagedDatabase', { namespace })).items).toHaveLength(index + 1)
      }
    })
  })

  describe('pages', () => {
    test('contain at most the limit each, and together the complete list', async () => {
      const namespace = await suite.namespace()
      await fill(namespace, 7)
      const labels = undefined
      const all = await names({ namespace, labels })
      const found: string[] = []
      let continueToken: string | undefined
      do {
        const page = await suite.cluster().list('ConfigMap', { namespace, limit: 3, continueToken })
        expect(page.items.length).toBeLessThanOrEqual(3)
        found.push(...page.items.map(({ metadata }) => metadata.name))
        continueToken = page.continueToken
      } while (continueToken !== undefined)
      expect(found).toEqual(all)
    })

    test('show the cluster at the time of the first page, whatever is written in between', async () => {
      const namespace = await suite.namespace()
      await fill(namespace, 6)
      const before = await suite.cluster().list('ConfigMap', { namespace })
      const first = await suite.cluster().list('ConfigMap', { namespace, limit: 2 })
      const last = before.items.at(-1)
      if (last === undefined) throw new Error('the list is not empty')
      await suite.cluster().delete('ConfigMap', { namespace, name: 'item-03' })
      await suite.cluster().create('ConfigMap', configMap(namespace, 'item-03a'))
      await suite.cluster().replace('ConfigMap', { ...last, data: { changed: 'yes' } })
      const { continueToken } = first
      const second = await suite.cluster().list('ConfigMap', { namespace, limit: 100, continueToken })
      expect([...first.items, ...second.items]).toEqual(before.items)
      expect(second.resourceVersion).toBe(first.resourceVersion)
      expect(second.continueToken).toBeUndefined()
    })

    test('honour the selector', async () => {
      const namespace = await suite.namespace()
      await fill(namespace, 3)
      for (const name of ['x', 'y', 'z'])
        await suite.cluster().create('ConfigMap', configMap(namespace, name, {}, { labels: { mark: 'yes' } }))
      const options = { namespace, labels: { mark: 'yes' }, limit: 2 }
      const first = await suite.cluster().list('ConfigMap', options)
      const second = await suite.cluster().list('ConfigMap', { ...options, continueToken: first.continueToken })
      expect([...first.items, ...second.items].map(({ metadata }) => metadata.name)).toEqual(['x', 'y', 'z'])
    })

    test('a watch from the version of a paged list misses no write between the pages', async () => {
      const namespace = await suite.namespace()
      await fill(namespace, 4)
      const first = await suite.cluster().list('ConfigMap', { namespace, limit: 2 })
      const created = await suite.cluster().create('ConfigMap', configMap(namespace, 'between'))
      const { continueToken } = first
      const second = await suite.cluster().list('ConfigMap', { namespace, limit: 100, continueToken })
      const abort = new AbortController()
      const watch = suite
        .cluster()
        .watch('ConfigMap', { namespace, resourceVersion: second.resourceVersion, signal: abort.signal })
      for await (const event of watch) {
        if (event.type === 'BOOKMARK') continue
        expect(event).toEqual({ type: 'ADDED', object: created })
        abort.abort()
      }
      expect(await suite.cluster().get('ConfigMap', keyOf(created))).toEqual(created)
    })

    test('an invalid continueToken is refused', async () => {
      const namespace = await suite.namespace()
      await refusal(
        suite.cluster().list('ConfigMap', { namespace, limit: 2, continueToken: 'nonsense' }),
        'BadRequest',
        'Expired',
      )
    })
  })
}
