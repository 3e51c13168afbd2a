/** Prometheus metrics of the archive. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export type ArchiveMetrics = {
  readonly registry: Registry
  request(method: string, status: number, seconds: number): void
  /** Counts the bytes of a new object, before compression. */
  stored(bytes: number): void
  /** The number of running transfers. */
  running(count: number): void
}

const methods = ['DELETE', 'GET', 'HEAD', 'PUT']

export function createArchiveMetrics(): ArchiveMetrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Histogram({
    name: 'espalier_archive_request_duration_seconds',
    help: 'Duration of requests to the archive, by method and status.',
    labelNames: ['method', 'status'],
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
    registers,
  })
  const bytes = new Counter({
    name: 'espalier_archive_stored_bytes_total',
    help: 'Bytes of new objects before compression. Backup records are not counted.',
    registers,
  })
  const transfers = new Gauge({
    name: 'espalier_archive_transfers',
    help: 'Number of running requests that read, write or delete objects.',
    registers,
  })
  return {
    registry,
    request: (method, status, seconds) =>
      requests.observe({ method: methods.includes(method) ? method : 'other', status }, seconds),
    stored: count => bytes.inc(count),
    running: count => transfers.set(count),
  }
}
