/**
 * The API's Prometheus metrics: requests by route and status class, requests in flight, refused credentials, rate
 * limits, and cache lag. They have their own listener, and are never served with the routes.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { type InformerState, informerGauges } from '../cluster/informer/index.ts'
import { addGauge, addScraped } from '../server/metrics.ts'
import { longPolls } from './answers.ts'
import type { App } from './context.ts'
import { onceClosed } from './disconnect.ts'

export type ApiMetrics = {
  registry: Registry
  /** Reads the caches' states at every scrape. */
  watchCaches(read: () => InformerState[]): void
  /** Metrics of the SQL endpoint. */
  sql: SqlFigures
  /** Reads the number of event streams at every scrape. */
  watchEventStreams(read: () => number): void
  /** Counts audit entries that clients cannot read. */
  auditDropped(count: number): void
  /** Counts every request of the application, from its head to the end of its response. */
  observe(app: App): void
}

export type SqlFigures = {
  /** Reads the number of connections at every scrape. */
  watch(connections: () => number): void
  ended(mode: 'read' | 'write', result: 'completed' | 'failed' | 'canceled'): void
}

const latencies = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
/** Requests for unknown paths or methods share one label value, so that clients cannot create label values. */
const otherRoute = 'none'
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

export function createApiMetrics(version: string): ApiMetrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Histogram({
    name: 'espalier_api_request_duration_seconds',
    help: 'Requests by status class; `gone`: the client disconnected before the response. A long poll lasts as long as it waits, a stream of events until it ends.',
    labelNames: ['method', 'route', 'status'],
    buckets: latencies,
    registers,
  })
  const inFlight = new Gauge({ name: 'espalier_api_requests_in_flight', help: 'Requests being served.', registers })
  addGauge(registry, 'espalier_api_long_polls', 'Responses delayed by Prefer: wait.', longPolls)
  const refused = new Counter({
    name: 'espalier_api_authentication_failures_total',
    help: 'Requests refused with 401 for a missing or invalid credential.',
    registers,
  })
  const limited = new Counter({
    name: 'espalier_api_rate_limited_total',
    help: 'Requests refused with 429: `tenant`, too many from one account; `failures`, too many invalid credentials from one address.',
    labelNames: ['limit'],
    registers,
  })
  for (const limit of ['tenant', 'failures']) limited.inc({ limit }, 0)
  const auditDropped = new Counter({
    name: 'espalier_api_audit_dropped_total',
    help: 'Audit entries that GET /audit does not return, since they could not be stored. The log of the API has them.',
    registers,
  })
  new Gauge({
    name: 'espalier_build_info',
    help: 'Always 1; the labels show the running version.',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version, node: process.versions.node }, 1)

  return {
    registry,
    sql: sqlFigures(registry),
    auditDropped: count => auditDropped.inc(count),
    watchCaches: read => watchCaches(registry, read),
    watchEventStreams: read =>
      addGauge(registry, 'espalier_api_event_streams', 'Streams of events (GET /events) that are open.', read),
    observe: app =>
      void app.addHook('onRequest', (request, reply, done) => {
        const startedAt = performance.now()
        inFlight.inc()
        let ended = false
        const end = (answered: boolean) => {
          if (ended) return
          ended = true
          inFlight.dec()
          const { statusCode } = reply.raw
          const status = answered ? `${Math.floor(statusCode / 100)}xx` : 'gone'
          const route = (request.is404 ? undefined : request.routeOptions.url) ?? otherRoute
          const method = methods.has(request.method) ? request.method : otherRoute
          requests.observe({ method, route, status }, (performance.now() - startedAt) / 1000)
          if (status === '4xx' && statusCode === 401) refused.inc()
          if (status === '4xx' && statusCode === 429)
            limited.inc({ limit: request.principal === undefined ? 'failures' : 'tenant' })
        }
        // If the client disconnects, `close` is emitted without `finish`.
        reply.raw.once('finish', () => end(true))
        onceClosed(reply, () => end(false))
        done()
      }),
  }
}

function sqlFigures(registry: Registry): SqlFigures {
  const requests = new Counter({
    name: 'espalier_api_sql_requests_total',
    help: 'Ended requests that ran SQL, by mode and result; `canceled`: the client disconnected before the end.',
    labelNames: ['mode', 'result'],
    registers: [registry],
  })
  for (const mode of ['read', 'write'])
    for (const result of ['completed', 'failed', 'canceled']) requests.inc({ mode, result }, 0)
  let connections = () => 0
  addGauge(registry, 'espalier_api_sql_connections', 'Connections to databases that run SQL for a request.', () =>
    connections(),
  )
  return {
    watch: read => {
      connections = read
    },
    ended: (mode, result) => requests.inc({ mode, result }),
  }
}

function watchCaches(registry: Registry, read: () => InformerState[]): void {
  for (const { name, help, value } of informerGauges)
    addScraped(registry, 'gauge', {
      name: `espalier_api_cache_${name}`,
      help,
      labelNames: ['kind'],
      read,
      value: state => [{ kind: state.kind }, value(state)],
    })
}
