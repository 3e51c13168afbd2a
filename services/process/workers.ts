/** A worker: one of several processes of a service, which supervisor.ts starts. They share the port, and each has its share of the connections to the database. */
import cluster from 'node:cluster'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import type { ProcessMetrics } from './metrics.ts'

export const isWorker = cluster.isWorker

export const poolSizeVariable = 'ESPALIER_WORKER_POOL_SIZE'
/** What a worker tells the first process, and the other way round. `Scope` is what a service can be told to read again. */
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
 * Resolves when a worker is to end. A supervisor may signal all processes, and the first one passes it on: once or twice is the same, and reloads are the first one's
 * business.
 */
export function workerStopSignal(): Promise<NodeJS.Signals> {
  for (const signal of ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {})
  return new Promise(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, resolve)
  })
}

/** What runs in a worker, as far as the first process has to know it. */
export type WorkerService<Scope extends string> = {
  /** Whether it can answer. */
  isReady(): boolean
  /** The configuration in force, without its secrets. */
  configuration(): string
  readonly registry: Registry
  /** The schema cache as JSON, undefined while there is none; only where the admin server shows it. */
  schemaCache?(): Promise<string | undefined>
  reload(scope: Scope): Promise<void>
  stop(): Promise<void>
}

/** What one of several workers starts with. */
export type WorkerShare = {
  /** Its share of the connections to the database. */
  readonly poolSize: number
  /** To be called once it listens: Node itself reports only ports that the first process holds. */
  readonly onListening: (address: AddressInfo | string) => void
}

/**
 * Serves as one of several workers until `stopped` says with which exit code to end. Without the first process, Node ends this one.
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
  const tell = (metrics?: ProcessMetrics) =>
    send({
      kind: 'state',
      ready: service.isReady(),
      configuration: service.configuration(),
      ...(metrics && { metrics }),
    })
  const sendSchemaCache = async () => send({ kind: 'schema cache', text: await service.schemaCache?.() })
  const timer = setInterval(tell, 250)
  process.on('message', message => {
    if (!isToWorker<Scope>(message)) return
    if (message.kind === 'metrics') void service.registry.getMetricsAsJSON().then(tell)
    else if (message.kind === 'schema cache') void sendSchemaCache()
    else void service.reload(message.scope).then(() => tell())
  })
  const code = await stopped
  clearInterval(timer)
  await service.stop()
  return code
}

/** Lets a worker end that has nothing more to do; otherwise Node keeps it for as long as the first process may say something. */
export const leaveWorkers = (): void => {
  cluster.worker?.disconnect()
}
