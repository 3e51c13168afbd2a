/** The Prometheus metrics of controllers: passes, queues, caches, requests to the cluster, leases and events. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { type InformerFigure, type InformerState, informerCounters, informerGauges } from '../cluster/informer/index.ts'
import { addScraped } from '../server/metrics.ts'
import type { QueueMetrics, QueueState } from './queue.ts'

/** The result of a pass. `panic` is an exception that only a programming error raises. */
export type ReconcileOutcome = 'success' | 'requeue_after' | 'conflict' | 'error' | 'timeout' | 'panic'

export type Metrics = {
  readonly registry: Registry
  queue(name: string): QueueMetrics
  /** Reads the queue's state at every scrape, until the returned function is called. */
  watchQueue(name: string, read: () => QueueState): () => void
  /** Reads the informer's state at every scrape, until the returned function is called. */
  watchInformer(name: string, read: () => InformerState): () => void
  reconciled(controller: string, outcome: ReconcileOutcome, tookMs: number): void
  requested(verb: string, kind: string, outcome: string, tookMs: number): void
  leading(lease: string, yes: boolean): void
  event(outcome: 'written' | 'dropped'): void
}

const latencies = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** Sources that are read at scrape time, by name. */
function sources<T>(): { watch: (name: string, read: () => T) => () => void; read: () => [string, T][] } {
  const readers = new Map<string, () => T>()
  return {
    watch: (name, read) => {
      readers.set(name, read)
      return () => {
        if (readers.get(name) === read) readers.delete(name)
      }
    },
    read: () => [...readers].map(([name, read]) => [name, read()]),
  }
}

function queueMetrics(registry: Registry): Pick<Metrics, 'queue' | 'watchQueue'> {
  const registers = [registry]
  const labelNames = ['name']
  const { watch, read } = sources<QueueState>()
  const seconds = (state: QueueState) => state.running.map(({ ageMs }) => ageMs / 1000)
  const figures: [name: string, help: string, value: (state: QueueState) => number][] = [
    ['depth', 'Keys that are due and wait for a worker', state => state.ready],
    ['delayed', 'Keys that are not yet due', state => state.delayed],
    ['running', 'Keys that workers process now', state => state.running.length],
    ['longest_running_processor_seconds', 'Age of the oldest running pass', state => Math.max(0, ...seconds(state))],
    [
      'unfinished_work_seconds',
      'Ages of all running passes',
      state => seconds(state).reduce((sum, age) => sum + age, 0),
    ],
  ]
  for (const [name, help, value] of figures)
    addScraped(registry, 'gauge', {
      name: `workqueue_${name}`,
      help,
      labelNames,
      read,
      value: ([queue, state]) => [{ name: queue }, value(state)],
    })
  const adds = new Counter({ name: 'workqueue_adds_total', help: 'Keys that were added', labelNames, registers })
  const retries = new Counter({
    name: 'workqueue_retries_total',
    help: 'Keys added again after a failure',
    labelNames,
    registers,
  })
  const waited = new Histogram({
    name: 'workqueue_queue_duration_seconds',
    help: 'Time from when a key is due until a worker gets it',
    labelNames,
    buckets: latencies,
    registers,
  })
  const worked = new Histogram({
    name: 'workqueue_work_duration_seconds',
    help: 'Time from when a worker gets a key until it is done',
    labelNames,
    buckets: latencies,
    registers,
  })
  return {
    watchQueue: watch,
    queue: name => ({
      added: () => adds.inc({ name }),
      retried: () => retries.inc({ name }),
      started: waitedMs => waited.observe({ name }, waitedMs / 1000),
      finished: workedMs => worked.observe({ name }, workedMs / 1000),
    }),
  }
}

function informerMetrics(registry: Registry): Pick<Metrics, 'watchInformer'> {
  const { watch, read } = sources<InformerState>()
  const add = (metricKind: 'gauge' | 'counter', { name, help, value }: InformerFigure) =>
    addScraped(registry, metricKind, {
      name: `espalier_informer_${name}`,
      help,
      labelNames: ['informer', 'kind'],
      read,
      value: ([informer, state]) => [{ informer, kind: state.kind }, value(state)],
    })
  for (const figure of informerGauges) add('gauge', figure)
  for (const figure of informerCounters) add('counter', figure)
  return { watchInformer: watch }
}

export function createMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const reconciles = new Histogram({
    name: 'espalier_reconcile_duration_seconds',
    help: 'Passes of a controller, by result',
    labelNames: ['controller', 'result'],
    buckets: latencies,
    registers,
  })
  const requests = new Histogram({
    name: 'espalier_cluster_request_duration_seconds',
    help: 'Requests to the cluster; a watch lasts as long as its stream',
    labelNames: ['verb', 'kind', 'outcome'],
    buckets: latencies,
    registers,
  })
  const leader = new Gauge({
    name: 'espalier_leader',
    help: 'Whether this process holds the lease',
    labelNames: ['lease'],
    registers,
  })
  const events = new Counter({
    name: 'espalier_events_total',
    help: 'Events for users: written to the cluster, or dropped by the rate limit or an error',
    labelNames: ['outcome'],
    registers,
  })
  return {
    registry,
    ...queueMetrics(registry),
    ...informerMetrics(registry),
    reconciled: (controller, result, tookMs) => reconciles.observe({ controller, result }, tookMs / 1000),
    requested: (verb, kind, outcome, tookMs) => requests.observe({ verb, kind, outcome }, tookMs / 1000),
    leading: (lease, yes) => leader.set({ lease }, Number(yes)),
    event: outcome => events.inc({ outcome }),
  }
}
