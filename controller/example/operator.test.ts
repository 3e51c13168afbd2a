/** Tests the README's example on a store that behaves like an API server. */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import { openStore } from '../../embedded/store/index.ts'
import { startExample } from './operator.ts'

const logger = pino({ level: 'silent' })
let cluster: Cluster
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  const store = await openStore({ definitions: [], logger })
  cluster = store.connect('test')
  for (const name of ['default', 'from', 'one', 'two'])
    if ((await cluster.get('Namespace', { name })) === undefined)
      await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  stops.push(() => store.close())
  for (const identity of ['first', 'second'])
    stops.unshift(await startExample(store.connect(identity), identity, logger))
})
afterAll(async () => {
  for (const stop of stops) await stop()
})

const write = (name: string, to: string, data: Record<string, string>, namespace = 'from') =>
  cluster.apply('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace, annotations: { 'example.dev/copy-to': to } },
    data,
  })
const copied = async (namespace: string, name: string): Promise<ConfigMap['data']> =>
  (await cluster.get('ConfigMap', { namespace, name }))?.data

test('a copy is created, follows its original to another namespace, and is deleted with it', async () => {
  const { metadata } = await write('settings', 'one', { colour: 'red' })
  await expect.poll(() => copied('one', 'settings')).toEqual({ colour: 'red' })
  await write('settings', 'one', { colour: 'green' })
  await expect.poll(() => copied('one', 'settings')).toEqual({ colour: 'green' })
  await write('settings', 'two', { colour: 'green' })
  await expect.poll(() => copied('two', 'settings')).toEqual({ colour: 'green' })
  await expect.poll(() => copied('one', 'settings')).toBeUndefined()
  await cluster.delete('ConfigMap', metadata)
  await expect.poll(() => copied('two', 'settings')).toBeUndefined()
})

test('a copy that another client changes or deletes is restored', async () => {
  await write('kept', 'one', { colour: 'red' })
  await expect.poll(() => copied('one', 'kept')).toEqual({ colour: 'red' })
  const copy = await cluster.get('ConfigMap', { namespace: 'one', name: 'kept' })
  await cluster.replace('ConfigMap', { ...(copy as ConfigMap), data: { colour: 'blue' } })
  await expect.poll(() => copied('one', 'kept')).toEqual({ colour: 'red' })
  await cluster.delete('ConfigMap', { namespace: 'one', name: 'kept' })
  await expect.poll(() => copied('one', 'kept')).toEqual({ colour: 'red' })
})

test("another owner's ConfigMap of the same name is not changed, and an Event reports it", async () => {
  const foreign = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'taken', namespace: 'two' } } as const
  await cluster.create('ConfigMap', { ...foreign, data: { whose: 'theirs' } })
  await write('taken', 'two', { whose: 'ours' })
  const reasons = async () => (await cluster.list('Event', { namespace: 'from' })).items.map(({ reason }) => reason)
  await expect.poll(reasons).toContain('NameTaken')
  expect(await copied('two', 'taken')).toEqual({ whose: 'theirs' })
})
