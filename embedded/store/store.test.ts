/** Tests that cannot run against a real API server: limits, time, shared values, and the store's own features. */
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { smallest } from '../../cluster/testing/conformance/drafts.ts'
import { eventually, refusal, untyped } from '../../cluster/testing/conformance/suite.ts'
import { configMap, testStore } from './testing/store.ts'

const key = (name: string) => ({ namespace: 'default', name })

async function writeMany(cluster: Cluster, count: number): Promise<void> {
  for (let write = 0; write < count; write++) await cluster.apply('ConfigMap', configMap('busy', { value: `${write}` }))
}

describe('watches', () => {
  test('that are too slow are closed; other watches continue', async () => {
    const { cluster } = await testStore({ historyCapacity: 10 })
    const { resourceVersion } = await cluster.list('ConfigMap')
    const { signal } = new AbortController()
    const slow = cluster.watch('ConfigMap', { resourceVersion, signal })[Symbol.asyncIterator]()
    const first = slow.next()
    const seen: string[] = []
    const quick = (async () => {
      for await (const event of cluster.watch('ConfigMap', { resourceVersion, signal })) {
        if (event.type !== 'BOOKMARK') seen.push(event.object.data?.value ?? '')
        if (seen.length === 60) return
      }
    })()
    for (let write = 0; write < 60; write++) {
      await cluster.apply('ConfigMap', configMap('busy', { value: `${write}` }))
      await turn()
    }
    await quick
    expect(seen).toEqual(Array.from({ length: 60 }, (_, index) => `${index}`))
    expect(await first).toMatchObject({ value: { type: 'ADDED' } })
    expect((await refusal(slow.next(), 'Expired')).message).toContain('too slow')
  })

  test('of a quiet kind keep their position while another kind has many changes', async () => {
    const { cluster } = await testStore({ historyCapacity: 10 })
    const { resourceVersion } = await cluster.list('Secret')
    await writeMany(cluster, 100)
    await cluster.create('Secret', smallest.Secret('default', 'one'))
    for await (const event of cluster.watch('Secret', { resourceVersion, signal: new AbortController().signal })) {
      expect(event).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'one' } } })
      break
    }
  })

  test('from a future version end with Expired; from a version that is not a number, with BadRequest', async () => {
    const { cluster } = await testStore()
    const next = (resourceVersion: string) =>
      cluster.watch('Pod', { resourceVersion, signal: new AbortController().signal })[Symbol.asyncIterator]().next()
    expect((await refusal(next('999999'), 'Expired')).message).toContain('too large resource version: 999999')
    for (const none of ['', 'x', '-1', '1.5']) await refusal(next(none), 'BadRequest')
  })

  test('end when the store closes, also while they wait', async () => {
    const { store, cluster } = await testStore()
    const { resourceVersion } = await cluster.list('ConfigMap')
    const watch = () =>
      cluster.watch('ConfigMap', { resourceVersion, signal: new AbortController().signal })[Symbol.asyncIterator]()
    const [waiting, reading] = [watch(), watch()]
    await cluster.create('ConfigMap', configMap('one'))
    await waiting.next()
    await reading.next()
    const end = waiting.next()
    await store.close()
    expect((await end).done).toBe(true)
    expect((await reading.next()).done).toBe(true)
    await refusal(cluster.create('ConfigMap', configMap('two')), 'Unavailable')
  })
})

describe('pages', () => {
  test('of a list that is no longer in the history are Expired', async () => {
    const { cluster } = await testStore({ historyCapacity: 10 })
    for (const name of ['a', 'b', 'c']) await cluster.create('ConfigMap', configMap(name))
    const { continueToken } = await cluster.list('ConfigMap', { limit: 1 })
    await writeMany(cluster, 50)
    await refusal(cluster.list('ConfigMap', { limit: 1, continueToken }), 'Expired')
  })

  test('need a valid limit', async () => {
    const { cluster } = await testStore()
    for (const limit of [-1, 1.5, Number.NaN]) await refusal(cluster.list('ConfigMap', { limit }), 'BadRequest')
  })
})

describe('objects', () => {
  test("that the store returns are shared and frozen; later changes to a caller's draft have no effect", async () => {
    const { cluster } = await testStore()
    const draft = configMap('one', { value: '1' }, { labels: { a: '1' } })
    const created = await cluster.create('ConfigMap', draft)
    expect(await cluster.get('ConfigMap', key('one'))).toBe(created)
    expect((await cluster.list('ConfigMap')).items[0]).toBe(created)
    expect(Object.isFrozen(created.metadata.labels)).toBe(true)
    draft.data = { value: 'changed' }
    if (draft.metadata.labels) draft.metadata.labels.a = 'changed'
    expect(created).toMatchObject({ data: { value: '1' }, metadata: { labels: { a: '1' } } })
  })

  test('share unchanged parts with the previous version', async () => {
    const { cluster } = await testStore()
    const created = await cluster.create('ManagedDatabase', smallest.ManagedDatabase('default', 'orders'))
    const ready = await cluster.replaceStatus('ManagedDatabase', { ...created, status: { phase: 'available' } })
    expect(ready.spec).toBe(created.spec)
  })

  test('may have up to 1.5 MiB, including managedFields', async () => {
    const { cluster } = await testStore()
    const task = (bytes: number) => ({
      ...smallest.Task('default', 'one'),
      spec: { ...smallest.Task('default', 'one').spec, request: { text: 'x'.repeat(bytes) } },
    })
    const { message } = await refusal(cluster.create('Task', task(1.5 * 2 ** 20)), 'Invalid')
    expect(message).toMatch(/too large: \d+ bytes; at most 1572864 are allowed/)
    await cluster.create('Task', task(1.4 * 2 ** 20))
  })

  test('must be JSON, and of the requested kind', async () => {
    const { cluster } = await testStore()
    const bad: [object, string][] = [
      [{ ...configMap('one'), kind: 'Secret' }, 'the object is a Secret (v1); expected a ConfigMap (v1)'],
      [{ ...configMap('one'), data: { a: () => 1 } }, 'JSON has no function'],
      [{ ...configMap('one'), data: { a: Number.NaN } }, 'data.a: NaN'],
      [
        JSON.parse('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"__proto__":"x"}}'),
        '__proto__',
      ],
    ]
    for (const [object, expected] of bad) {
      const { message } = await refusal(cluster.create('ConfigMap', untyped(object)), 'BadRequest')
      expect(message).toContain(expected)
    }
    let deep: object = {}
    for (let level = 0; level < 200; level++) deep = { deep }
    await refusal(cluster.create('ConfigMap', untyped({ ...configMap('one'), deep })), 'BadRequest')
  })

  test('must have metadata of the right types, without unknown fields', async () => {
    const { cluster } = await testStore()
    const wrong: [object, string][] = [
      [{ labels: { a: 1 } }, 'metadata.labels.a'],
      [{ labels: [] }, 'metadata.labels'],
      [{ finalizers: ['UPPER case'] }, 'metadata.finalizers'],
      [{ finalizers: 'a' }, 'metadata.finalizers'],
      [{ nonsense: true }, 'unknown field "metadata.nonsense"'],
      [{ ownerReferences: [{ kind: 'Pod', name: 'x', uid: 'y' }] }, 'metadata.ownerReferences[0].apiVersion'],
      [{ annotations: { a: 'x'.repeat(300_000) } }, 'metadata.annotations: Too long'],
      [{ name: '' }, 'metadata.name: Required value'],
      [{ namespace: '' }, 'metadata.namespace: Required value'],
    ]
    for (const [metadata, expected] of wrong) {
      const draft = untyped<'ConfigMap'>({
        ...configMap('one'),
        metadata: { namespace: 'default', name: 'one', ...metadata },
      })
      expect((await refusal(cluster.create('ConfigMap', draft), 'Invalid')).message).toContain(expected)
    }
    await cluster.create(
      'ConfigMap',
      untyped(configMap('one', {}, untyped<'ConfigMap'>({ creationTimestamp: null }) as object)),
    )
  })

  test('with concurrent writers are written one after another, and each writer sees the previous write', async () => {
    const { cluster } = await testStore()
    await cluster.create('ConfigMap', configMap('counter', { value: '0' }))
    const increment = async (): Promise<void> => {
      for (;;) {
        const current = await cluster.get('ConfigMap', key('counter'))
        if (current === undefined) throw new Error('the counter does not exist')
        const value = `${Number(current.data?.value) + 1}`
        try {
          await cluster.replace('ConfigMap', { ...current, data: { value } })
          return
        } catch {
          // Another write changed the object first: retry.
        }
      }
    }
    await Promise.all(Array.from({ length: 20 }, increment))
    expect((await cluster.get('ConfigMap', key('counter')))?.data).toEqual({ value: '20' })
  })
})

describe('the store', () => {
  test('deletes Events one hour after they were last reported', async () => {
    let now = Date.parse('2026-01-02T03:00:00Z')
    const { cluster } = await testStore({ now: () => now, eventSweepMs: 10 })
    await cluster.create('Event', { ...smallest.Event('default', 'old'), lastTimestamp: '2026-01-02T03:00:00Z' })
    now = Date.parse('2026-01-02T03:30:00Z')
    await cluster.create('Event', { ...smallest.Event('default', 'new'), lastTimestamp: '2026-01-02T03:30:00Z' })
    const names = async () => (await cluster.list('Event')).items.map(({ metadata }) => metadata.name)
    await eventually(async () => expect(await names()).toEqual(['new', 'old']))
    now = Date.parse('2026-01-02T04:01:00Z')
    await eventually(async () => expect(await names()).toEqual(['new']))
    now = Date.parse('2026-01-02T04:31:00Z')
    await eventually(async () => expect(await names()).toEqual([]))
  })

  test('reads logs from the component that runs the pods', async () => {
    const { store, cluster } = await testStore()
    await refusal(cluster.logs(key('one')), 'NotFound')
    await cluster.create('Pod', smallest.Pod('default', 'one'))
    await refusal(cluster.logs(key('one')), 'Unavailable')
    store.setLogSource(async (pod, options) => [`${pod.name} ${options?.tailLines}`])
    expect(await cluster.logs(key('one'), { tailLines: 5 })).toEqual(['one 5'])
  })

  test('keeps an object whose owner has an unknown kind', async () => {
    const { cluster } = await testStore()
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Endpoints', name: 'here', uid: 'x' }]
    await cluster.create('ConfigMap', configMap('mirror', {}, { ownerReferences }))
    const missing = [{ apiVersion: 'v1', kind: 'Pod', name: 'none', uid: 'x' }]
    await cluster.create('ConfigMap', configMap('orphan', {}, { ownerReferences: missing }))
    await eventually(async () => expect(await cluster.get('ConfigMap', key('orphan'))).toBeUndefined())
    expect(await cluster.get('ConfigMap', key('mirror'))).toBeDefined()
  })
})
