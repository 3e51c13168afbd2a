/** Conformance: a watch returns every change after a version, once and in order. */
import { describe, expect, test } from 'vitest'
import { configMap, database, smallest } from './drafts.ts'
import { collect, eventually, keyOf, refusal, type Suite, stored, uniqueName, versionOf } from './suite.ts'

/** A cluster's own controllers create a ConfigMap in each namespace, at any time. */
const ownLabels = { mark: 'ours' }

export function describeWatches(suite: Suite): void {
  describe('watch', () => {
    test('from the version of a list returns every later change, in order, each once', async () => {
      const namespace = await suite.namespace()
      const before = await suite.cluster().create('ManagedDatabase', database(namespace, 'before'))
      const { resourceVersion } = await suite.cluster().list('ManagedDatabase', { namespace })
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const watch = collect(suite.cluster(), 'ManagedDatabase', { namespace, resourceVersion })
      const status = await suite
        .cluster()
        .replaceStatus('ManagedDatabase', { ...created, status: { phase: 'creating' } })
      const changed = await suite
        .cluster()
        .replace('ManagedDatabase', { ...status, spec: { ...status.spec, suspended: true } })
      await suite.cluster().delete('ManagedDatabase', keyOf(before))
      await watch.until(4)
      await watch.stop()
      expect(watch.events.slice(0, 3)).toEqual([
        { type: 'ADDED', object: created },
        { type: 'MODIFIED', object: status },
        { type: 'MODIFIED', object: changed },
      ])
      expect(watch.events.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'MODIFIED', 'DELETED'])
      const versions = watch.events.map(({ object }) => versionOf(object))
      expect(versions).toEqual([...versions].sort((left, right) => (left < right ? -1 : 1)))
    })

    test('a deletion has the last state, with a newer resourceVersion', async () => {
      const namespace = await suite.namespace()
      const draft = configMap(namespace, 'one', { a: '1' }, { labels: ownLabels })
      const created = await suite.cluster().create('ConfigMap', draft)
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      const watch = collect(suite.cluster(), 'ConfigMap', { namespace, labels: ownLabels, resourceVersion })
      await suite.cluster().delete('ConfigMap', keyOf(created))
      await watch.until(1)
      await watch.stop()
      const [event] = watch.events
      expect(event?.type).toBe('DELETED')
      expect(event?.object.data).toEqual({ a: '1' })
      expect(event?.object.metadata.uid).toBe(created.metadata.uid)
      if (event !== undefined) expect(versionOf(event.object)).toBeGreaterThan(versionOf(created))
    })

    test('a deletion blocked by a finalizer is first a change, then a deletion', async () => {
      const namespace = await suite.namespace()
      const draft = configMap(namespace, 'one', {}, { labels: ownLabels, finalizers: ['example.com/hold'] })
      const created = await suite.cluster().create('ConfigMap', draft)
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      const watch = collect(suite.cluster(), 'ConfigMap', { namespace, labels: ownLabels, resourceVersion })
      await suite.cluster().delete('ConfigMap', keyOf(created))
      const terminating = await stored(suite.cluster(), 'ConfigMap', keyOf(created))
      await suite
        .cluster()
        .replace('ConfigMap', { ...terminating, metadata: { ...terminating.metadata, finalizers: [] } })
      await watch.until(2)
      await watch.stop()
      expect(watch.events[0]).toEqual({ type: 'MODIFIED', object: terminating })
      expect(watch.events[1]?.type).toBe('DELETED')
      expect(watch.events[1]?.object.metadata.deletionTimestamp).toBe(terminating.metadata.deletionTimestamp)
    })

    test('resumes from the last version received', async () => {
      const namespace = await suite.namespace()
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      const first = collect(suite.cluster(), 'ConfigMap', { namespace, labels: { mark: 'yes' }, resourceVersion })
      const metadata = { labels: { mark: 'yes' } }
      const one = await suite.cluster().create('ConfigMap', configMap(namespace, 'one', {}, metadata))
      await first.until(1)
      await first.stop()
      const two = await suite.cluster().create('ConfigMap', configMap(namespace, 'two', {}, metadata))
      const three = await suite.cluster().create('ConfigMap', configMap(namespace, 'three', {}, metadata))
      const second = collect(suite.cluster(), 'ConfigMap', {
        namespace,
        labels: { mark: 'yes' },
        resourceVersion: one.metadata.resourceVersion ?? '',
      })
      await second.until(2)
      await second.stop()
      expect(second.events.map(({ object }) => object)).toEqual([two, three])
    })

    test('a write that changes nothing causes no event', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders')
      const created = await suite.cluster().apply('ManagedDatabase', draft)
      const { resourceVersion } = await suite.cluster().list('ManagedDatabase', { namespace })
      const watch = collect(suite.cluster(), 'ManagedDatabase', { namespace, resourceVersion })
      await suite.cluster().apply('ManagedDatabase', draft)
      await suite.cluster().replace('ManagedDatabase', created)
      const end = await suite.cluster().create('ManagedDatabase', database(namespace, 'end'))
      await watch.until(1)
      await watch.stop()
      expect(watch.events).toEqual([{ type: 'ADDED', object: end }])
    })

    test('of one namespace reports no change of another; of all namespaces, both', async () => {
      const [here, there] = [await suite.namespace(), await suite.namespace()]
      const mark = uniqueName('mark-')
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { labels: { mark } })
      const narrow = collect(suite.cluster(), 'ConfigMap', { namespace: here, labels: { mark }, resourceVersion })
      const wide = collect(suite.cluster(), 'ConfigMap', { labels: { mark }, resourceVersion })
      await suite.cluster().create('ConfigMap', configMap(there, 'there', {}, { labels: { mark } }))
      await suite.cluster().create('ConfigMap', configMap(here, 'here', {}, { labels: { mark } }))
      await narrow.until(1)
      await wide.until(2)
      await narrow.stop()
      await wide.stop()
      expect(narrow.events.map(({ object }) => object.metadata.name)).toEqual(['here'])
      expect(wide.events.map(({ object }) => object.metadata.name)).toEqual(['there', 'here'])
    })

    test('with a selector: an object that starts to match is ADDED, an object that stops matching is DELETED', async () => {
      const namespace = await suite.namespace()
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      const watch = collect(suite.cluster(), 'ConfigMap', { namespace, labels: { mark: 'yes' }, resourceVersion })
      const plain = await suite.cluster().create('ConfigMap', configMap(namespace, 'one', { a: '1' }))
      const labelled = await suite
        .cluster()
        .replace('ConfigMap', { ...plain, metadata: { ...plain.metadata, labels: { mark: 'yes' } } })
      const changed = await suite.cluster().replace('ConfigMap', { ...labelled, data: { a: '2' } })
      const other = await suite
        .cluster()
        .replace('ConfigMap', { ...changed, metadata: { ...changed.metadata, labels: { mark: 'no' } } })
      await suite.cluster().delete('ConfigMap', keyOf(other))
      const end = await suite
        .cluster()
        .create('ConfigMap', configMap(namespace, 'end', {}, { labels: { mark: 'yes' } }))
      await watch.until(4)
      await watch.stop()
      expect(watch.events.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'DELETED', 'ADDED'])
      expect(watch.events[0]?.object).toEqual(labelled)
      expect(watch.events[1]?.object).toEqual(changed)
      const left = watch.events[2]?.object
      expect(left?.metadata.labels).toEqual({ mark: 'yes' })
      expect(left?.metadata.resourceVersion).toBe(other.metadata.resourceVersion)
      expect(watch.events[3]?.object).toEqual(end)
    })

    test('of Tasks that have not ended: a Task that ends is DELETED, and never reported again', async () => {
      const namespace = await suite.namespace()
      const { resourceVersion } = await suite.cluster().list('Task', { namespace })
      const watch = collect(suite.cluster(), 'Task', { namespace, open: true, resourceVersion })
      const created = await suite.cluster().create('Task', smallest.Task(namespace, 'one'))
      const running = await suite.cluster().replaceStatus('Task', { ...created, status: { phase: 'running' } })
      const ended = await suite.cluster().replaceStatus('Task', { ...running, status: { phase: 'succeeded' } })
      await suite.cluster().delete('Task', keyOf(ended))
      await suite.cluster().create('Task', smallest.Task(namespace, 'two'))
      await watch.until(4)
      await watch.stop()
      expect(watch.events.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'DELETED', 'ADDED'])
      expect(watch.events[1]?.object).toEqual(running)
      expect(watch.events[2]?.object.metadata.resourceVersion).toBe(ended.metadata.resourceVersion)
      expect(watch.events[3]?.object.metadata.name).toBe('two')
    })

    test('of a cluster-scoped kind', async () => {
      const name = uniqueName('conformance')
      const draft = { ...smallest.Tenant('', name) }
      const labels = { mark: name }
      suite.removeAfterwards('Tenant', draft.metadata.name)
      const { resourceVersion } = await suite.cluster().list('Tenant')
      const watch = collect(suite.cluster(), 'Tenant', { labels, resourceVersion })
      const created = await suite.cluster().create('Tenant', { ...draft, metadata: { ...draft.metadata, labels } })
      await watch.until(1)
      await watch.stop()
      expect(watch.events).toEqual([{ type: 'ADDED', object: created }])
    })

    test('many watchers receive the same order from many concurrent writers', async () => {
      const namespace = await suite.namespace()
      const labels = { mark: 'yes' }
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      const watches = Array.from({ length: 4 }, () =>
        collect(suite.cluster(), 'ConfigMap', { namespace, labels, resourceVersion }),
      )
      await Promise.all(
        Array.from({ length: 8 }, async (_, writer) => {
          let object = await suite.cluster().create('ConfigMap', configMap(namespace, `w${writer}`, {}, { labels }))
          for (let round = 0; round < 5; round += 1)
            object = await suite.cluster().replace('ConfigMap', { ...object, data: { round: `${round}` } })
          await suite.cluster().delete('ConfigMap', keyOf(object))
        }),
      )
      for (const watch of watches) await watch.until(8 * 7)
      for (const watch of watches) await watch.stop()
      const seen = watches.map(({ events }) =>
        events.map(({ type, object }) => `${type} ${object.metadata.name} ${object.metadata.resourceVersion}`),
      )
      expect(new Set(seen[0]).size).toBe(8 * 7)
      for (const other of seen) expect(other).toEqual(seen[0])
    })

    test('ends without an error when its signal aborts: before it began, while it waits, between events', async () => {
      const namespace = await suite.namespace()
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      const seen: string[] = []
      for await (const event of suite
        .cluster()
        .watch('ConfigMap', { namespace, resourceVersion, signal: AbortSignal.abort() }))
        seen.push(event.type)
      expect(seen).toEqual([])

      const waiting = collect(suite.cluster(), 'ConfigMap', { namespace, labels: { mark: 'yes' }, resourceVersion })
      await waiting.stop()

      await suite.cluster().create('ConfigMap', configMap(namespace, 'one', {}, { labels: { mark: 'yes' } }))
      await suite.cluster().create('ConfigMap', configMap(namespace, 'two', {}, { labels: { mark: 'yes' } }))
      const abort = new AbortController()
      const options = { namespace, labels: { mark: 'yes' }, resourceVersion, signal: abort.signal }
      for await (const event of suite.cluster().watch('ConfigMap', options)) {
        seen.push(event.type)
        abort.abort()
      }
      expect(seen).toEqual(['ADDED'])
    })

    test('a consumer that leaves the loop frees the watch', async () => {
      const namespace = await suite.namespace()
      const { resourceVersion } = await suite.cluster().list('ConfigMap', { namespace })
      await suite.cluster().create('ConfigMap', configMap(namespace, 'one'))
      const { signal } = new AbortController()
      for await (const event of suite.cluster().watch('ConfigMap', { namespace, resourceVersion, signal }))
        if (event.type === 'ADDED') break
    })

    test('from an expired version is Expired', async context => {
      const { expiredVersion } = suite.target()
      if (expiredVersion === undefined) return context.skip()
      const resourceVersion = await expiredVersion()
      const read = async (): Promise<void> => {
        const { signal } = new AbortController()
        for await (const _event of suite.cluster().watch('ManagedDatabase', { resourceVersion, signal })) break
      }
      await refusal(read(), 'Expired')
    })

    test('a quiet watch gets a bookmark in time, and can resume from its version', async () => {
      const within = suite.target().bookmarkWithin ?? 30_000
      const { namespace, resourceVersion, watch } = await suite.quiet()
      await eventually(() => expect(watch.bookmarks).not.toEqual([]), within)
      await watch.stop()
      expect(watch.events).toEqual([])
      const bookmark = watch.bookmarks.at(-1) ?? ''
      expect(BigInt(bookmark)).toBeGreaterThanOrEqual(BigInt(resourceVersion))
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const resumed = collect(suite.cluster(), 'ManagedDatabase', { namespace, resourceVersion: bookmark })
      await resumed.until(1)
      await resumed.stop()
      expect(resumed.events).toEqual([{ type: 'ADDED', object: created }])
    }, 150_000)
  })
}
