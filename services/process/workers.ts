/**
 * A worker: one of several processes of a service. supervisor.ts starts it. The workers share the port, and each has
 * its share of the database connections.
 */
import cluster from 'node:cluster'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import type { ProcessMetrics } from './metrics.ts'

export const isWorker = cluster.isWorker

export const poolSizeVariable = 'ESPALIER_WORKER_POOL_SIZE'
/** Messages between a worker and the first process. `Scope`: what a service can reload. */
export type FromWorker =
  | { kind: 'listening'; address: AddressInfo | string }
  | { kind: 'state'; ready: boolean; configuration: string; metrics?: ProcessMetrics }
  | { kind: 'schema cache'; text: string | undefined }
export type ToWorker<Scope extends string> =
  | { kind: 'metrics' }
  | { kind: 'schema cache' }
  | { kind: 'reload'; scope: Scope }

const isToWorker = <Scope extends string>(message: unknown): message is ToWorker<Scope> =>
  typeof message === 'object' && message !== null && 'kind' in message
export const isFromWorker = (message: unknown): message is FromWorker =>
  typeof message === 'object' && message !== null && 'kind' in message

/**
 * Resolves when the worker must end. A process manager may signal all processes, and the first process forwards the
 * signal, too: the worker ignores the second signal. Only the first process handles reloads.
 */
export function workerStopSignal(): Promise<NodeJS.Signals> {
  for (const signal of ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {})
  return new Promise(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, resolve)
  })
}

/** What the first process must know of a worker's service. */
export type WorkerService<Scope extends string> = {
  /** Whether the service is ready. */
  isReady(): boolean
  /** The active configuration, without secrets. */
  configuration(): string
  readonly registry: Registry
  /** The schema cache as JSON; undefined while it is not loaded. Defined only if the admin server shows the cache. */
  schemaCache?(): Promise<string | undefined>
  reload(scope: Scope): Promise<void>
  stop(): Promise<void>
}

/** The start parameters of a worker. */
export type WorkerShare = {
  /** The worker's share of the database connections. */
  readonly poolSize: number
  /** The service must call this when it listens: Node itself reports only ports that the first process opened. */
  readonly onListening: (address: AddressInfo | string) => void
}

/**
 * Serves as a worker until `stopped` returns the exit code. If the first process ends, Node ends this process.
 * @param start starts the service
 */
export async function serveAsWorker<Scope extends string>(
  start: (share: WorkerShare) => Promise<WorkerService<Scope>>,
  stopped: Promise<number>,
): Promise<number> {
  const send = (message: FromWorker) => {
    if (process.connected) process.send?.(message)
  }
  const service = await start({
    poolSize: Number(process.env[poolSizeVariable]),
    onListening: address => send({ kind: 'listening', address }),
  })
  const reportMetrics = (metrics?: ProcessMetrics) =>
    send({
      kind: 'state',
      ready: service.isReady(),
      configuration: service.configuration(),
      ...(metrics && { metrics }),
    })
  const sendSchemaCache = async () => send({ kind: 'schema cache', text: await service.schemaCache?.() })
  const timer = setInterval(reportMetrics, 250)
  process.on('message', message => {
    if (!isToWorker<Scope>(message)) return
    if (message.kind === 'metrics') void service.registry.getMetricsAsJSON().then(reportMetrics)
    else if (message.kind === 'schema cache') void sendSchemaCache()
    else void service.reload(message.scope).then(() => reportMetrics())
  })
  const code = await stopped
  clearInterval(timer)
  await service.stop()
  return code
}

/**
 * Allows a worker with no remaining work to exit. Otherwise the message channel to the first process keeps it running.
 */
export const disconnectWorkers = (): void => {
  cluster.worker?.disconnect()
}
