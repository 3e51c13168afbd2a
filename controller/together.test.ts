/**
 * Tests all parts together, on a real store and a real clock. The work is done once, only by the leader, and nothing
 * remains after the stop.
 */
import { pino } from 'pino'
import { expect, test } from 'vitest'
import type { Cluster, ConfigMap } from '../cluster/index.ts'
import { createInformer, keyOf, parseKey } from '../cluster/informer/index.ts'
import { definitionOf } from '../crds/definition.ts'
import { declarations } from '../crds/index.ts'
import { openStore } from '../embedded/store/index.ts'
import { startHealthServer } from '../server/health.ts'
import { metricsPage } from '../server/metrics.ts'
import {
  createEventRecorder,
  createMetrics,
  fenced,
  instrumented,
  runWithLeaderLease,
  startController,
} from './index.ts'

const logger = pino({ level: 'silent' })
const system = 'espalier-system'

/** Timers and sockets that keep this process alive. */
const openResources = (): number =>
  process.getActiveResourcesInfo().filter(resource => /Timeout|TCP|Pipe|Immediate/.test(resource)).length

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 20_000; !(await condition()); ) {
    if (Date.now() > deadline) throw new Error(`not in 20 s: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** A process that copies `wanted` to `done` in every ConfigMap of a namespace. */
async function startProcess(plain: Cluster, identity: string, done: string[]) {
  const metrics = createMetrics()
  const reading = instrumented(plain, metrics)
  const maps = createInformer(reading, 'ConfigMap', { namespace: 'work', logger })
  metrics.watchInformer('maps', () => maps.state)
  await maps.start()

  const lead = async (signal: AbortSignal, isLeader: () => boolean) => {
    const cluster = fenced(reading, signal, isLeader)
    const recorder = createEventRecorder({ cluster, component: 'test', instance: identity, logger, metrics })
    const controller = startController({
      name: 'copy',
      workers: 4,
      signal,
      keys: () => maps.list().map(keyOf),
      logger,
      metrics,
      reconcile: async key => {
        const map = maps.get(parseKey(key))
        if (!map || map.data?.done === map.data?.wanted) return undefined
        maps.writeThrough(
          await cluster.replace('ConfigMap', { ...map, data: { ...map.data, done: map.data?.wanted ?? '' } }),
        )
        recorder.record(map, 'Normal', 'Copied', `Copied ${map.data?.wanted}.`)
        done.push(`${identity} ${key} ${map.data?.wanted}`)
        return undefined
      },
    })
    const leave = maps.onChange(({ object }) => controller.enqueue(keyOf(object)))
    await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
    leave()
    await controller.stop()
    await recorder.stop()
  }
  const election = runWithLeaderLease({
    cluster: reading,
    name: 'test',
    namespace: system,
    identity,
    leaseMs: 3_000,
    renewMs: 2_000,
    retryMs: 100,
    onStarted: lead,
    logger,
    metrics,
  })
  const health = await startHealthServer({
    host: '127.0.0.1',
    port: 0,
    live: {},
    ready: { maps: () => (maps.synced ? undefined : 'no list yet') },
    metrics: metricsPage(() => [metrics.registry]),
    logger,
  })
  const stop = async () => {
    await election.stop()
    await maps.stop()
    await health.stop()
  }
  return { election, health, stop }
}

test('the leader does the work, a second process takes over, and nothing remains', async () => {
  const openBefore = openResources()
  const store = await openStore({ definitions: Object.values(declarations).map(definitionOf), logger })
  const cluster = store.connect('test')
  for (const name of [system, 'work'])
    if (!(await cluster.get('Namespace', { name })))
      await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  const draft = (n: number): ConfigMap => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: `map-${n}`, namespace: 'work' },
    data: { wanted: 'first' },
  })
  for (let n = 0; n < 600; n++) await cluster.create('ConfigMap', draft(n))

  const done: string[] = []
  const one = await startProcess(cluster, 'one', done)
  const two = await startProcess(store.connect('other'), 'two', done)
  await until('all 600 objects are copied', () => done.length === 600)
  expect(new Set(done).size).toBe(600)
  expect(done.every(entry => entry.startsWith('one '))).toBe(true)
  expect([one.election.leading, two.election.leading]).toEqual([true, false])

  const page = await fetch(`http://127.0.0.1:${one.health.address.port}/metrics`)
  const text = await page.text()
  expect(text).toContain('espalier_informer_objects{informer="maps",kind="ConfigMap"} 600')
  expect(text).toContain('espalier_leader{lease="test"} 1')
  expect(text).toMatch(/request_duration_seconds_count\{verb="replace",kind="ConfigMap",outcome="ok"\} 600/)
  await until('an Event is written for each of the 600 copies', async () => {
    const { items } = await cluster.list('Event', { namespace: 'work' })
    return items.length === 600 && items.every(({ reason, count }) => reason === 'Copied' && count === 1)
  })

  await one.stop()
  const changed = await cluster.get('ConfigMap', { namespace: 'work', name: 'map-7' })
  if (changed) await cluster.replace('ConfigMap', { ...changed, data: { ...changed.data, wanted: 'second' } })
  await until('the second process copies the new object', () => done.length === 601)
  expect(done.at(-1)).toBe('two work/map-7 second')
  await two.stop()
  expect((await cluster.get('Lease', { namespace: system, name: 'test' }))?.spec?.holderIdentity).toBe('')
  await store.close()
  await until('no more timers and sockets are open than before', () => openResources() <= openBefore)
})
