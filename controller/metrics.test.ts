import { expect, test } from 'vitest'
import { type Cluster, ClusterError, type ConfigMap, type WatchEvent } from '../cluster/index.ts'
import { instrumented } from './instrumented.ts'
import { createMetrics } from './metrics.ts'

test('an instrumented cluster counts every verb by kind and outcome, and passes results and errors on', async () => {
  const metrics = createMetrics()
  const map: ConfigMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' } }
  const port = {
    get: async () => map,
    list: async () => ({ items: [map], resourceVersion: '1' }),
    watch: async function* (): AsyncGenerator<WatchEvent<ConfigMap>> {
      yield { type: 'ADDED', object: map }
      throw new ClusterError('Expired', 'too old')
    },
    replace: async () => {
      throw new ClusterError('Conflict', 'changed')
    },
    delete: async () => {
      throw new Error('a bug')
    },
  }
  // Only these verbs are called here.
  const cluster = instrumented(port as unknown as Cluster, metrics)
  expect(await cluster.get('ConfigMap', { name: 'x' })).toBe(map)
  expect((await cluster.list('ConfigMap')).items).toEqual([map])
  await expect(cluster.replace('ConfigMap', map)).rejects.toMatchObject({ reason: 'Conflict' })
  await expect(cluster.delete('ConfigMap', { name: 'x' })).rejects.toThrow('a bug')
  const seen: unknown[] = []
  const reading = (async () => {
    const signal = new AbortController().signal
    for await (const event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) seen.push(event)
  })()
  await expect(reading).rejects.toMatchObject({ reason: 'Expired' })
  expect(seen).toHaveLength(1)
  const text = await metrics.registry.metrics()
  const counted = [
    ...text.matchAll(/request_duration_seconds_count\{verb="(\w+)",kind="ConfigMap",outcome="(\w+)"\} 1/g),
  ]
  expect(counted.map(([, verb, outcome]) => `${verb} ${outcome}`)).toEqual([
    'get ok',
    'list ok',
    'replace Conflict',
    'delete Error',
    'watch Expired',
  ])
})

test('the metrics show an informer until it is no longer watched', async () => {
  const metrics = createMetrics()
  const unwatch = metrics.watchInformer('pods', () => ({
    kind: 'Pod',
    synced: true,
    objects: 12,
    lastSync: 1_000_000,
    failingSince: undefined,
    lists: 1,
    events: 30,
    failures: 0,
    handlerErrors: 2,
  }))
  const text = await metrics.registry.metrics()
  for (const line of [
    'objects{informer="pods",kind="Pod"} 12',
    'last_sync_timestamp_seconds{informer="pods",kind="Pod"} 1000',
  ])
    expect(text).toContain(`espalier_informer_${line}`)
  unwatch()
  expect(await metrics.registry.metrics()).not.toContain('informer="pods"')
})

test('two sets of metrics in one process are independent', async () => {
  const [one, other] = [createMetrics(), createMetrics()]
  one.leading('a', true)
  expect(await other.registry.metrics()).not.toContain('lease="a"')
})
