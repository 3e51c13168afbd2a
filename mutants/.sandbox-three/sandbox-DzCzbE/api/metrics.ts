/**
 * What the API tells Prometheus: every request by route and status class, how many are being served, refused credentials,
 * rate limits, and how far its caches follow the cluster. Served on a listener of its own, never beside the routes.
 */
// @ts-nocheck

import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { type InformerState, informerGauges } from '../cluster/informer/index.ts'
import { addGauge, addScraped } from '../server/metrics.ts'
import { longPolls } from './answers.ts'
import type { App } from './context.ts'

export type ApiMetrics = {
  registry: Registry
  /** Reads the caches' states at every scrape. */
  watchCaches(read: () => InformerState[]): void
  /** Counts every request of the application, from its head to the end of its answer. */
  observe(app: App): void
}

const latencies = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
/** What is asked of a path or by a method that is not served goes under one name, so that nobody can make up labels. */
const otherRoute = 'none'
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

export function createApiMetrics(version: string): ApiMetrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Histogram({
    name: 'espalier_api_request_duration_seconds',
    help: 'Requests, by how they were answered; `gone`: the client was away before the answer. A long poll lasts as long as it waits.',
    labelNames: ['method', 'route', 'status'],
    buckets: latencies,
    registers,
  })
  const inFlight = new Gauge({ name: 'espalier_api_requests_in_flight', help: 'Requests being served.', registers })
  addGauge(registry, 'espalier_api_long_polls', 'Answers held back by Prefer: wait.', longPolls)
  const refused = new Counter({
    name: 'espalier_api_authentication_failures_total',
    help: 'Requests refused with 401 for a missing or bad credential.',
    registers,
  })
  const limited = new Counter({
    name: 'espalier_api_rate_limited_total',
    help: 'Requests refused with 429: `tenant`, too many of one account; `failures`, too many bad credentials of one address.',
    labelNames: ['limit'],
    registers,
  })
  for (const limit of ['tenant', 'failures']) limited.inc({ limit }, 0)
  new Gauge({
    name: 'espalier_build_info',
    help: 'Always 1; the labels say what runs.',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version, node: process.versions.node }, 1)

  return {
    registry,
    watchCaches: read => watchCaches(registry, read),
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
        // The second comes without the first where the client goes away.
        reply.raw.once('finish', () => end(true))
        reply.raw.once('close', () => end(false))
        done()
      }),
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
