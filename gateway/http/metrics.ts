/** The metrics of the HTTPS listener, in a prom-client registry. There are no series per database. */
import { Counter, Histogram, type Registry } from 'prom-client'
import type { ServiceType } from '../../routes/route.ts'
import { addGauge } from '../../server/metrics.ts'

export type HttpMetrics = {
  /** `service`: undefined if the request was for no service. */
  count(service: ServiceType | undefined, code: number, seconds: number): void
}

const buckets = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

export function createHttpMetrics(
  registry: Registry,
  { connections, requests, hosts }: { connections: () => number; requests: () => number; hosts: () => number },
): HttpMetrics {
  const registers = [registry]
  const total = new Counter({
    name: 'espalier_gateway_http_requests_total',
    help: 'Requests that have ended, by service and status; 499: the client disconnected before the response started.',
    labelNames: ['service', 'code'],
    registers,
  })
  const duration = new Histogram({
    name: 'espalier_gateway_http_request_seconds',
    help: 'From the headers of a request to the end of its response, by service.',
    labelNames: ['service'],
    buckets,
    registers,
  })
  addGauge(registry, 'espalier_gateway_http_open_connections', 'Connections of the HTTPS listener.', connections)
  addGauge(registry, 'espalier_gateway_http_open_streams', 'Requests in progress.', requests)
  addGauge(registry, 'espalier_gateway_http_hosts', 'Routed host names.', hosts)
  return {
    count: (service = undefined, code, seconds) => {
      total.inc({ service: service ?? 'none', code: String(code) })
      duration.observe({ service: service ?? 'none' }, seconds)
    },
  }
}
