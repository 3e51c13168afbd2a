/** When a replica is ready for requests, and when it reads the cluster instead of its caches. */
import { expect, test } from 'vitest'
import { type Cluster, ClusterError, type Kinds } from '../cluster/index.ts'
import type { InformerState } from '../cluster/informer/index.ts'
import { findOwned, mayBeOutdated, unreadiness } from './caches.ts'

const state = (changes: Partial<InformerState>): InformerState => ({
  kind: 'Task',
  synced: true,
  objects: 0,
  lastSync: 0,
  failingSince: undefined,
  lists: 1,
  events: 0,
  failures: 0,
  handlerErrors: 0,
  ...changes,
})

test.each([
  ['all filled', [state({}), state({})], undefined],
  ['one cache that is not filled yet', [state({}), state({ synced: false })], 'the caches are being filled'],
  ['one cache that has failed for some seconds', [state({ failingSince: 110_000 })], undefined],
  [
    'one cache that has failed for two minutes',
    [state({}), state({ failingSince: 79_000 })],
    'the cluster has been unreachable for a while',
  ],
])('%s', (_what, states, reason) => expect(unreadiness(states, 200_000)).toBe(reason))

test.each([
  ['that has just received an event', state({ lastSync: 200_000 }), false],
  ['whose last bookmark is 75 s old', state({ lastSync: 125_000 }), false],
  ['that has received nothing for longer', state({ lastSync: 119_000 }), true],
  ['whose watch fails', state({ lastSync: 200_000, failingSince: 199_000 }), true],
  ['that is not filled yet', state({ lastSync: undefined }), false],
])('a cache %s may be outdated: %s', (_what, given, expected) => expect(mayBeOutdated(given, 200_000)).toBe(expected))

const task = (phase: string) =>
  ({ metadata: { namespace: 'tenant', name: 'a' }, status: { phase } }) as unknown as Kinds['Task']
const cacheOf = (cached: Kinds['Task'] | undefined, lastSync: number) => ({
  state: state({ lastSync }),
  byIndex: () => (cached === undefined ? [] : [cached]),
})
type Cache = Parameters<typeof findOwned<'Task'>>[1]
const find = (cached: Kinds['Task'] | undefined, lastSync: number, list: () => Promise<{ items: Kinds['Task'][] }>) =>
  findOwned(
    { list } as unknown as Cluster,
    cacheOf(cached, lastSync) as unknown as Cache,
    'Task',
    'tenant',
    'x',
    200_000,
  )

test('reads an object of an outdated cache from the cluster, if the cluster responds', async () => {
  const [old, current] = [task('running'), task('succeeded')]
  const responds = async () => ({ items: [current] })
  expect(await find(old, 190_000, responds)).toBe(old)
  expect(await find(old, 100_000, responds)).toBe(current)
  expect(await find(old, 100_000, async () => ({ items: [] }))).toBeUndefined()
  const refuses = async () => {
    throw new ClusterError('Unavailable', 'busy')
  }
  expect(await find(old, 100_000, refuses)).toBe(old)
  await expect(find(undefined, 190_000, refuses)).rejects.toThrow('busy')
})

test('returns the cached object after two seconds if the cluster does not respond, and immediately while eight reads run', async () => {
  const stuck = { list: () => new Promise(() => {}) } as unknown as Cluster
  const began = performance.now()
  const read = () =>
    findOwned(stuck, cacheOf(task('running'), 100_000) as unknown as Cache, 'Task', 'tenant', 'x', 200_000)
  const took = async () => {
    expect(await read()).toMatchObject({ status: { phase: 'running' } })
    return performance.now() - began
  }
  const all = await Promise.all(Array.from({ length: 12 }, took))
  expect(all.filter(ms => ms > 1_900)).toHaveLength(8)
})
