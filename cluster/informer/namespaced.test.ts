import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openStore, type Store } from '../../embedded/store/index.ts'
import { type Cluster, ClusterError, type Draft } from '../index.ts'
import { createNamespacedInformer, type NamespacedInformer } from './namespaced.ts'

const logger = pino({ level: 'silent' })
let store: Store
let cluster: Cluster
let informer: NamespacedInformer<'Secret'>
/** The namespaces whose Secrets the client may list. */
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

const secret = (namespace: string, name: string, label = 'm'): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { namespace, name, labels: { mark: label } },
})
const synced = (...namespaces: string[]) =>
  vi.waitFor(() => expect(namespaces.every(namespace => informer.isSynced(namespace))).toBe(true), { timeout: 30_000 })

test('a watched namespace is known from its first list on, and no other namespace', async () => {
  await cluster.create('Secret', secret('one', 'a'))
  await cluster.create('Secret', secret('two', 'a'))
  expect(informer.isSynced('one')).toBe(false)
  informer.subscribe('one')
  informer.subscribe('one')
  await synced('one')
  expect(informer.get({ namespace: 'one', name: 'a' })).toBeDefined()
  expect(informer.within('one').byIndex('mark', 'm')).toHaveLength(1)
  expect(informer.isSynced('two')).toBe(false)
  expect(informer.get({ namespace: 'two', name: 'a' })).toBeUndefined()
  expect(informer.within('two').byIndex('mark', 'm')).toEqual([])
  expect(informer.state).toMatchObject({ kind: 'Secret', synced: true, objects: 1, lists: 1 })
})

test('a handler receives the existing objects and every change, even from namespaces added later', async () => {
  await cluster.create('Secret', secret('one', 'a'))
  informer.subscribe('one')
  await synced('one')
  const received: string[] = []
  informer.onChange(() => {
    throw new Error('a handler that fails hinders no other')
  })
  const end = informer.onChange(({ type, object: { metadata } }) => {
    received.push(`${type} ${metadata.namespace}/${metadata.name}`)
  })
  informer.subscribe('two')
  await synced('two')
  await cluster.create('Secret', secret('two', 'b'))
  await cluster.delete('Secret', { namespace: 'one', name: 'a' })
  await vi.waitFor(() => expect(received.toSorted()).toEqual(['deleted one/a', 'set one/a', 'set two/b']), {
    timeout: 30_000,
  })
  end()
  informer.writeThrough(await cluster.create('Secret', secret('two', 'c')))
  expect(informer.get({ namespace: 'two', name: 'c' })).toBeDefined()
  expect(received).toHaveLength(3)
})

test('a namespace without permissions is known as soon as the permissions are granted', async () => {
  allowed.delete('one')
  informer.subscribe('one')
  await vi.waitFor(() => expect(informer.state.failures).toBeGreaterThan(0), { timeout: 30_000 })
  expect(informer.isSynced('one')).toBe(false)
  allowed.add('one')
  await synced('one')
})

test('a namespace that is no longer watched is unknown', async () => {
  await cluster.create('Secret', secret('one', 'a'))
  informer.subscribe('one')
  await synced('one')
  informer.unsubscribe('one')
  expect(informer.isSynced('one')).toBe(false)
  expect(informer.get({ namespace: 'one', name: 'a' })).toBeUndefined()
  await informer.stop()
  informer.subscribe('one')
  expect(informer.isSynced('one')).toBe(false)
})
