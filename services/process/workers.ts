/**
 * Several processes of one service: they share the port, and each has its share of the connections to the database. The first process serves nothing itself; it starts a worker
 * again that has ended, and answers for all of them on the admin server. It promises that no worker's end ends the others, but where the service says so, and that what
 * has been counted counts on.
 */
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { makeAdminServer } from '../http/admin.ts'
import { type ListenAddress, listen } from '../http/listen.ts'
import { nextBackoff } from './backoff.ts'
import { aggregateText, type ProcessMetrics, retainCounters } from './metrics.ts'

export const isWorker = cluster.isWorker

const poolSizeVariable = 'ESPALIER_WORKER_POOL_SIZE'
/** What a worker tells the first process, and the other way round. `Scope` is what a service can be told to read again. */
type FromWorker =
  | { kind: 'listening'; address: AddressInfo | string }
  | { kind: 'state'; ready: boolean; configuration: string; metrics?: ProcessMetrics }
  | { kind: 'schema cache'; text: string | undefined }
type ToWorker<Scope extends string> = { kind: 'metrics' } | { kind: 'schema cache' } | { kind: 'reload'; scope: Scope }

const isToWorker = <Scope extends string>(message: unknown): message is ToWorker<Scope> =>
  typeof message === 'object' && message !== null && 'kind' in message
const isFromWorker = (message: unknown): message is FromWorker =>
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

/** Whole shares that add up to all of it; each worker has one at least. */
export const poolShares = (size: number, workers: number): number[] =>
  Array.from({ length: workers }, (_, index) => Math.max(1, Math.floor((size + index) / workers)))

/** One that has lived so long was well. */
const wellMs = 10_000
/** How long to wait before a worker is started again, after it has lived so long and the one before it was waited for so long: longer each time that it ends at once. */
export const restartBackoff = (livedMs: number, lastBackoffMs: number): number =>
  livedMs >= wellMs ? 0 : nextBackoff(lastBackoffMs)

type WorkersOptions = {
  readonly workers: number
  /** Connections to the database that the workers share out. */
  readonly poolSize: number
  /** What the admin server shows as configuration until a worker has told; undefined where it does not show it. */
  readonly configuration: string | undefined
  /** Where the admin server listens; there is none where undefined. */
  readonly admin: ListenAddress | undefined
  /** Whether the admin server shows the schema cache, which it asks a worker for. */
  readonly hasSchemaCache?: boolean
  /** Where the workers listen, if it is a Unix socket: what an earlier run has left there is removed. */
  readonly socketPath?: string | undefined
  readonly logger: Logger
  /** Whether a worker that ended with this code says that the service is of no use any more: it is not started again, and `onLost` is called. */
  readonly isLost?: (exitCode: number | null) => boolean
  readonly onLost?: () => void
}

export type Workers<Scope extends string> = {
  readonly address: AddressInfo | string
  readonly adminAddress: AddressInfo | undefined
  reload(scope: Scope): void
  /** Lets what is under way end, within seconds, and stops. */
  stop(): Promise<void>
}

/** What is known of a worker; it tells four times a second. */
type Known = { ready: boolean; heardAt: number; metrics: ProcessMetrics }
const longestSilenceMs = 5_000
const metricsTimeoutMs = 1_000
const schemaCacheTimeoutMs = 10_000
/** Workers give what is under way ten seconds, and go within two more; one that takes longer does not run. */
const longestStopMs = 13_000

/**
 * Starts the workers and keeps them going. Each runs this program from its beginning, and is to call serveAsWorker there. Resolves once one of them listens.
 * @throws what listening of the admin server fails with; Error where a worker ends and none has listened
 */
export async function startWorkers<Scope extends string>({
  workers: count,
  poolSize,
  configuration,
  admin: adminAddress,
  hasSchemaCache = false,
  socketPath,
  logger,
  isLost = () => false,
  onLost = () => {},
}: WorkersOptions): Promise<Workers<Scope>> {
  const shares = poolShares(poolSize, count)
  const workers = new Map<Worker, Known>()
  const listening = Promise.withResolvers<AddressInfo | string>()
  let inForce = configuration ?? ''
  let retained: Promise<ProcessMetrics> = Promise.resolve([])
  let hasListened = false
  let isStopping = false
  if (socketPath !== undefined) rmSync(socketPath, { force: true })

  function fork(share: number, lastBackoffMs: number): void {
    const startedAt = performance.now()
    const worker = cluster.fork({ [poolSizeVariable]: String(share) })
    const known: Known = { ready: false, heardAt: Number.NEGATIVE_INFINITY, metrics: [] }
    workers.set(worker, known)
    worker.on('message', message => {
      if (!isFromWorker(message)) return
      if (message.kind === 'listening') {
        hasListened = true
        listening.resolve(message.address)
        return
      }
      if (message.kind === 'schema cache') {
        worker.emit('schema cache', message.text)
        return
      }
      known.ready = message.ready
      known.heardAt = performance.now()
      inForce = message.configuration
      if (message.metrics === undefined) return
      known.metrics = message.metrics
      worker.emit('metrics')
    })
    worker.on('error', error => logger.error({ reason: error.message }, 'cannot send a message to a worker'))
    worker.on('exit', (code, signal) => {
      workers.delete(worker)
      retained = retained.then(before => retainCounters(before, known.metrics))
      if (isStopping) return
      if (!hasListened) {
        // It has said why itself.
        listening.reject(new Error('the workers cannot start'))
        return
      }
      if (isLost(code)) {
        onLost()
        return
      }
      const backoffMs = restartBackoff(performance.now() - startedAt, lastBackoffMs)
      logger.error({ code, signal }, `a worker has ended and is started again in ${backoffMs / 1_000} s`)
      setTimeout(() => isStopping || fork(share, backoffMs), backoffMs)
    })
  }

  const isHeard = ({ heardAt }: Known): boolean => performance.now() - heardAt < longestSilenceMs

  /** Of all workers; of one that does not answer in time, what it has told last. */
  async function metrics(): Promise<string> {
    const signal = AbortSignal.timeout(metricsTimeoutMs)
    const message: ToWorker<Scope> = { kind: 'metrics' }
    const told = [...workers]
      .filter(([, known]) => isHeard(known))
      .map(([worker]) => {
        worker.send(message)
        return once(worker, 'metrics', { signal })
      })
    await Promise.allSettled(told)
    return aggregateText([await retained, ...Array.from(workers.values(), known => known.metrics)])
  }

  /** Of one worker that is ready: all have the same. */
  async function schemaCache(): Promise<string | undefined> {
    const [worker] = [...workers].find(([, known]) => known.ready && isHeard(known)) ?? []
    if (worker === undefined) return undefined
    const message: ToWorker<Scope> = { kind: 'schema cache' }
    worker.send(message)
    const [text] = await once(worker, 'schema cache', { signal: AbortSignal.timeout(schemaCacheTimeoutMs) })
    return typeof text === 'string' ? text : undefined
  }

  let admin: Server | undefined
  if (adminAddress !== undefined) {
    admin = makeAdminServer({
      isLive: () => workers.size > 0,
      isReady: () =>
        workers.size === shares.length && [...workers.values()].every(known => known.ready && isHeard(known)),
      metrics,
      configuration: configuration === undefined ? undefined : () => inForce,
      schemaCache: hasSchemaCache ? schemaCache : undefined,
    })
    await listen(admin, adminAddress)
  }

  async function stop(): Promise<void> {
    isStopping = true
    admin?.close()
    admin?.closeAllConnections()
    const all = [...workers.keys()]
    const ended = all.map(worker => new Promise<void>(resolve => worker.once('exit', () => resolve())))
    const signalAll = (signal: NodeJS.Signals) => all.map(worker => worker.process.kill(signal))
    signalAll('SIGTERM')
    const lastResort = setTimeout(() => signalAll('SIGKILL'), longestStopMs)
    await Promise.all(ended)
    clearTimeout(lastResort)
  }

  for (const share of shares) fork(share, 0)
  const address = await listening.promise.catch(async (error: unknown) => {
    await stop()
    throw error
  })
  const adminAt = admin?.address()
  return {
    address,
    adminAddress: typeof adminAt === 'object' && adminAt !== null ? adminAt : undefined,
    reload(scope) {
      const message: ToWorker<Scope> = { kind: 'reload', scope }
      for (const worker of workers.keys()) worker.send(message)
    },
    stop,
  }
}
