/** Prometheus metrics. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { CacheEvent } from '../../authentication/index.ts'
import type { PoolFigures } from '../../postgres/pool.ts'

export type Metrics = {
  readonly registry: Registry
  request(method: string, status: number, seconds: number): void
  schemaCacheLoad(succeeded: boolean, seconds: number): void
  tokenCache(event: CacheEvent): void
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

export function createMetrics(pool: () => PoolFigures): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Counter({
    name: 'rst_requests_total',
    help: 'Requests answered, by method and status',
    labelNames: ['method', 'status'],
    registers,
  })
  const durations = new Histogram({
    name: 'rst_request_duration_seconds',
    help: 'Seconds from reading a request to building its response',
    buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const loads = new Counter({
    name: 'rst_schema_cache_loads_total',
    help: 'Loads of the schema cache, by status',
    labelNames: ['status'],
    registers,
  })
  const loadTime = new Gauge({
    name: 'rst_schema_cache_load_seconds',
    help: 'How long the last load of the schema cache took',
    // Across workers, report the longest load.
    aggregator: 'max',
    registers,
  })
  const gauge = (name: string, help: string, read: (figures: PoolFigures) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read(pool()))
      },
    })
  gauge('rst_db_pool_max', 'Maximum connections', ({ size }) => size)
  gauge('rst_db_pool_open', 'Connections that are open', ({ open }) => open)
  gauge('rst_db_pool_available', 'Connections that are open and idle', ({ idle }) => idle)
  gauge('rst_db_pool_waiting', 'Requests that wait for a connection', ({ waiting }) => waiting)
  new Counter({
    name: 'rst_db_pool_timeouts_total',
    help: 'Requests that waited too long for a connection',
    registers,
    // The pool counts its timeouts: copy its total.
    collect() {
      this.reset()
      this.inc(pool().timeouts)
    },
  })
  const tokens = (name: string, help: string) => new Counter({ name: `rst_jwt_cache_${name}_total`, help, registers })
  const tokenEvents: Record<CacheEvent, Counter> = {
    lookup: tokens('requests', 'Tokens looked up in the cache of verified tokens'),
    hit: tokens('hits', 'Verified tokens found in the cache'),
    eviction: tokens('evictions', 'Verified tokens evicted from the cache'),
  }
  return {
    registry,
    request(method, status, seconds) {
      requests.inc({ method: methods.has(method) ? method : 'other', status })
      durations.observe(seconds)
    },
    schemaCacheLoad(succeeded, seconds) {
      loads.inc({ status: succeeded ? 'success' : 'failure' })
      loadTime.set(seconds)
    },
    tokenCache: event => tokenEvents[event].inc(),
  }
}
