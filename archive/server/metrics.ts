/** What the archive reports to Prometheus. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export type ArchiveMetrics = {
  readonly registry: Registry
  request(method: string, status: number, seconds: number): void
  /** The content of a new object, before compression. */
  stored(bytes: number): void
  /** How many transfers run now. */
  running(count: number): void
}

const methods = ['GET', 'HEAD', 'PUT']

export function createArchiveMetrics(): ArchiveMetrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Histogram({
    name: 'espalier_archive_request_duration_seconds',
    help: 'How long requests to the archive took, by method and status.',
    labelNames: ['method', 'status'],
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
    registers,
  })
  const bytes = new Counter({
    name: 'espalier_archive_stored_bytes_total',
    help: 'Bytes of new objects, before compression.',
    registers,
  })
  const transfers = new Gauge({
    name: 'espalier_archive_transfers',
    help: 'Transfers that run.',
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
