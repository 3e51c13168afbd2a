/**
 * Prometheus metrics that all servers share: metrics of the process, values that are read at scrape time, and the page
 * of several registries. Each component has its own registry, and so does the process.
 */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { MetricsPage } from './health.ts'

let ofProcess: Registry | undefined

/** Memory, event loop and garbage collection of this process; one registry, since there is one process. */
export function processMetrics(): Registry {
  if (ofProcess === undefined) {
    ofProcess = new Registry()
    collectDefaultMetrics({ register: ofProcess, eventLoopMonitoringPrecision: 20 })
  }
  return ofProcess
}

/** Metrics in Prometheus's text format: a registry, or a part of the page that another thread writes. */
export type Figures = Pick<Registry, 'metrics'>

/** The page of these metrics, in their order. The list is read at every scrape. */
export const metricsPage = (registries: () => readonly Figures[]): MetricsPage => ({
  contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  text: async () => (await Promise.all(registries().map(registry => registry.metrics()))).join('\n'),
})

/** A gauge that is read at every scrape. */
export function addGauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    },
  })
}

type Scraped<T, Label extends string> = {
  name: string
  help: string
  labelNames: Label[]
  read: () => readonly T[]
  value: (source: T) => [labels: Record<Label, string>, number: number | undefined]
}

/** A metric whose values are all set again at every scrape, so that no values of deleted objects remain. */
export function addScraped<T, Label extends string>(
  registry: Registry,
  kind: 'gauge' | 'counter',
  { name, help, labelNames, read, value }: Scraped<T, Label>,
): void {
  const collect = () => {
    metric.reset()
    for (const source of read()) {
      const [labels, number] = value(source)
      if (number !== undefined) metric.inc(labels, number)
    }
  }
  const settings = { name, help, labelNames, registers: [registry], collect }
  const metric: Gauge | Counter = kind === 'gauge' ? new Gauge(settings) : new Counter(settings)
}
