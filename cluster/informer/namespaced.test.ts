import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openStore, type Store } from '../../embedded/store/index.ts'
import { type Cluster, ClusterError, type Draft } from '../index.ts'
import { createNamespacedInformer, type NamespacedInformer } from './namespaced.ts'

const logger = pino({ level: 'silent' })
let store: Store
let cluster: Cluster
let informer: NamespacedInformer<'Secret'>
/** Namespaces whose Secrets may be listed. */
let allowed: Set<string>

beforeEach(async () => {
  store = await openStore({ definitions: [], logger })
  cluster = store.connect('test')
  for (const name of ['one', 'two'])
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  allowed = new Set(['one', 'two'])
  const limited: Cluster = {
    ...cluster,
    list: async (kind, options = {}) => {
      if (allowed.has(options.namespace ?? '')) return cluster.list(kind, options)
      throw new ClusterError('Forbidden', 'not here')
    },
  }
  informer = createNamespacedInformer(limited, 'Secret', {
    labels: { mark: true },
    indexes: { mark: ({ metadata }) => [metadata.labels?.mark ?? ''] },
    logger,
  })
})
afterEach(async () => {
  await informer.stop()
  await store.close()
})

const secret = (namespace: string, name: string, mark = 'm'): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { namespace, name, labels: { mark } },
})
const synced = (...namespaces: string[]) =>
  vi.waitFor(() => expect(namespaces.every(namespace => informer.isSynced(namespace))).toBe(true))

test('the namespaces that are followed are known, each from its first list on, and no other', async () => {
  await cluster.create('Secret', secret('one', 'a'))
  await cluster.create('Secret', secret('two', 'a'))
  expect(informer.isSynced('one')).toBe(false)
  informer.follow('one')
  informer.follow('one')
  await synced('one')
  expect(informer.get({ namespace: 'one', name: 'a' })).toBeDefined()
  expect(informer.within('one').byIndex('mark', 'm')).toHaveLength(1)
  expect(informer.isSynced('two')).toBe(false)
  expect(informer.get({ namespace: 'two', name: 'a' })).toBeUndefined()
  expect(informer.within('two').byIndex('mark', 'm')).toEqual([])
  expect(informer.state).toMatchObject({ kind: 'Secret', synced: true, objects: 1, lists: 1 })
})

test('a handler hears of what is there and of every change, wherever it comes later', async () => {
  await cluster.create('Secret', secret('one', 'a'))
  informer.follow('one')
  await synced('one')
  const heard: string[] = []
  informer.onChange(() => {
    throw new Error('a handler that fails hinders no other')
  })
  const end = informer.onChange(({ type, object: { metadata } }) => {
    heard.push(`${type} ${metadata.namespace}/${metadata.name}`)
  })
  informer.follow('two')
  await synced('two')
  await cluster.create('Secret', secret('two', 'b'))
  await cluster.delete('Secret', { namespace: 'one', name: 'a' })
  await vi.waitFor(() => expect(heard.toSorted()).toEqual(['deleted one/a', 'set one/a', 'set two/b']))
  end()
  informer.writeThrough(await cluster.create('Secret', secret('two', 'c')))
  expect(informer.get({ namespace: 'two', name: 'c' })).toBeDefined()
  expect(heard).toHaveLength(3)
})

test('a namespace in which there are no rights yet is known as soon as there are', async () => {
  allowed.delete('one')
  informer.follow('one')
  await vi.waitFor(() => expect(informer.state.failures).toBeGreaterThan(0))
  expect(informer.isSynced('one')).toBe(false)
  allowed.add('one')
  await synced('one')
})

test('a namespace that is followed no more is unknown', async () => {
  await cluster.create('Secret', secret('one', 'a'))
  informer.follow('one')
  await synced('one')
  informer.unfollow('one')
  expect(informer.isSynced('one')).toBe(false)
  expect(informer.get({ namespace: 'one', name: 'a' })).toBeUndefined()
  await informer.stop()
  informer.follow('one')
  expect(informer.isSynced('one')).toBe(false)
})
