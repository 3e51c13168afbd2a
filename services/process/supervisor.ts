/**
 * Runs several processes of one service. The first process serves no requests itself: it starts and restarts workers,
 * and runs the admin server for all of them. If a worker ends, the others continue, unless the service requests
 * otherwise. Counters never decrease.
 */
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { makeAdminServer } from '../http/admin.ts'
import { type ListenAddress, listen } from '../http/listen.ts'
import { nextBackoff } from './backoff.ts'
import { aggregateText, type ProcessMetrics, retainCounters } from './metrics.ts'
import { type FromWorker, isFromWorker, poolSizeVariable, type ToWorker } from './workers.ts'

/** Integer shares that add up to the total. Each worker has at least one. */
export const poolShares = (size: number, workers: number): number[] =>
  Array.from({ length: workers }, (_, index) => Math.max(1, Math.floor((size + index) / workers)))

/** A worker that ran for this long is stable. */
const wellMs = 10_000
/**
 * The delay before a worker's restart, from its run time and the previous delay. The delay grows each time that the
 * worker ends at once.
 */
export const restartBackoff = (livedMs: number, lastBackoffMs: number): number =>
  livedMs >= wellMs ? 0 : nextBackoff(lastBackoffMs)

type WorkersOptions = {
  readonly workers: number
  /** Connections to the database, which the workers share. */
  readonly poolSize: number
  /** The configuration that the admin server shows until a worker has reported one. Undefined: not shown. */
  readonly configuration: string | undefined
  /** The address of the admin server. Undefined: there is no admin server. */
  readonly admin: ListenAddress | undefined
  /** Whether the admin server shows the schema cache. It requests the cache from a worker. */
  readonly hasSchemaCache?: boolean
  /** The workers' Unix socket, if any. The first process removes a file that an earlier run has left. */
  readonly socketPath?: string | undefined
  readonly logger: Logger
  /**
   * Whether this exit code means that the service cannot continue. If so, the worker is not restarted, and `onLost` is
   * called.
   */
  readonly isLost?: (exitCode: number | null) => boolean
  readonly onLost?: () => void
}

export type Workers<Scope extends string> = {
  readonly address: AddressInfo | string
  readonly adminAddress: AddressInfo | undefined
  reload(scope: Scope): void
  /** Stops gracefully within seconds. */
  stop(): Promise<void>
}

const longestSilenceMs = 5_000
const metricsTimeoutMs = 1_000
const schemaCacheTimeoutMs = 10_000
/**
 * Workers give requests in progress ten seconds, and exit within two more seconds. After that the first process kills
 * the worker.
 */
const longestStopMs = 13_000

/** A worker and its last report. The worker reports four times a second. */
class Known {
  readonly startedAt = performance.now()
  readonly worker: Worker
  metrics: ProcessMetrics = []
  #isReady = false
  #receivedAt = Number.NEGATIVE_INFINITY

  constructor(worker: Worker) {
    this.worker = worker
  }

  get isResponsive(): boolean {
    return performance.now() - this.#receivedAt < longestSilenceMs
  }

  get isReady(): boolean {
    return this.#isReady && this.isResponsive
  }

  take(state: Extract<FromWorker, { kind: 'state' }>): void {
    this.#isReady = state.ready
    this.#receivedAt = performance.now()
    if (state.metrics === undefined) return
    this.metrics = state.metrics
    this.worker.emit('metrics')
  }
}

/**
 * Starts the workers and restarts them. Each worker runs this program from its start, and must call serveAsWorker.
 * Resolves when one worker listens.
 * @throws listen errors of the admin server; Error if a worker ends before any worker has listened
 */
export async function startWorkers<Scope extends string>(options: WorkersOptions): Promise<Workers<Scope>> {
  const supervisor = new Supervisor<Scope>(options)
  await supervisor.start()
  return supervisor
}

class Supervisor<Scope extends string> implements Workers<Scope> {
  readonly #options: WorkersOptions
  readonly #shares: readonly number[]
  readonly #workers = new Map<Worker, Known>()
  readonly #listening = Promise.withResolvers<AddressInfo | string>()
  readonly #admin: Server | undefined
  #address: AddressInfo | string | undefined
  /** The last configuration that a worker reported. */
  #configuration: string
  /** The counters of ended workers. */
  #retained: Promise<ProcessMetrics> = Promise.resolve([])
  #isStopping = false

  constructor(options: WorkersOptions) {
    this.#options = options
    this.#shares = poolShares(options.poolSize, options.workers)
    this.#configuration = options.configuration ?? ''
    this.#admin = options.admin === undefined ? undefined : this.#createAdminServer()
  }

  async start(): Promise<void> {
    const { socketPath, admin } = this.#options
    if (socketPath !== undefined) rmSync(socketPath, { force: true })
    if (this.#admin !== undefined && admin !== undefined) await listen(this.#admin, admin)
    for (const share of this.#shares) this.#fork(share, 0)
    try {
      this.#address = await this.#listening.promise
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  get address(): AddressInfo | string {
    return this.#address ?? ''
  }

  get adminAddress(): AddressInfo | undefined {
    const address = this.#admin?.address()
    return typeof address === 'object' && address !== null ? address : undefined
  }

  #createAdminServer(): Server {
    const { configuration, hasSchemaCache = false } = this.#options
    return makeAdminServer({
      isLive: () => this.#workers.size > 0,
      isReady: () =>
        this.#workers.size === this.#shares.length && [...this.#workers.values()].every(known => known.isReady),
      metrics: () => this.#metrics(),
      configuration: configuration === undefined ? undefined : () => this.#configuration,
      schemaCache: hasSchemaCache ? () => this.#schemaCache() : undefined,
    })
  }

  #fork(share: number, lastBackoffMs: number): void {
    const worker = cluster.fork({ [poolSizeVariable]: String(share) })
    const known = new Known(worker)
    this.#workers.set(worker, known)
    worker.on('message', message => this.#take(known, message))
    worker.on('error', ({ message }) =>
      this.#options.logger.error({ reason: message }, 'cannot send a message to a worker'),
    )
    worker.on('exit', (code, signal) => this.#ended(known, { share, lastBackoffMs, code, signal }))
  }

  #take(known: Known, message: unknown): void {
    if (!isFromWorker(message)) return
    switch (message.kind) {
      case 'listening':
        this.#address ??= message.address
        this.#listening.resolve(message.address)
        return
      case 'schema cache':
        known.worker.emit('schema cache', message.text)
        return
      case 'state':
        this.#configuration = message.configuration
        known.take(message)
    }
  }

  #ended(known: Known, { share, lastBackoffMs, code, signal }: Ended): void {
    const { logger, isLost = () => false, onLost = () => {} } = this.#options
    this.#workers.delete(known.worker)
    this.#retained = this.#retained.then(before => retainCounters(before, known.metrics))
    if (this.#isStopping) return
    if (this.#address === undefined) {
      // The worker has logged the reason itself.
      this.#listening.reject(new Error('the workers cannot start'))
      return
    }
    if (isLost(code)) {
      onLost()
      return
    }
    const backoffMs = restartBackoff(performance.now() - known.startedAt, lastBackoffMs)
    logger.error({ code, signal }, `a worker has ended and will be restarted in ${backoffMs / 1_000} s`)
    setTimeout(() => this.#isStopping || this.#fork(share, backoffMs), backoffMs)
  }

  /** The metrics of all workers. For a worker that does not answer in time, its last report. */
  async #metrics(): Promise<string> {
    const signal = AbortSignal.timeout(metricsTimeoutMs)
    const message: ToWorker<Scope> = { kind: 'metrics' }
    const answers = [...this.#workers.values()]
      .filter(({ isResponsive }) => isResponsive)
      .map(({ worker }) => {
        worker.send(message)
        return once(worker, 'metrics', { signal })
      })
    await Promise.allSettled(answers)
    return aggregateText([await this.#retained, ...Array.from(this.#workers.values(), ({ metrics }) => metrics)])
  }

  /** The schema cache of any ready worker. All workers have the same cache. */
  async #schemaCache(): Promise<string | undefined> {
    const worker = [...this.#workers.values()].find(({ isReady }) => isReady)?.worker
    if (worker === undefined) return undefined
    const message: ToWorker<Scope> = { kind: 'schema cache' }
    worker.send(message)
    const [text] = await once(worker, 'schema cache', { signal: AbortSignal.timeout(schemaCacheTimeoutMs) })
    return typeof text === 'string' ? text : undefined
  }

  reload(scope: Scope): void {
    const message: ToWorker<Scope> = { kind: 'reload', scope }
    for (const worker of this.#workers.keys()) worker.send(message)
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#admin?.close()
    this.#admin?.closeAllConnections()
    const all = [...this.#workers.keys()]
    const ended = all.map(worker => new Promise<void>(resolve => worker.once('exit', () => resolve())))
    const signalAll = (signal: NodeJS.Signals) => all.map(worker => worker.process.kill(signal))
    signalAll('SIGTERM')
    const lastResort = setTimeout(() => signalAll('SIGKILL'), longestStopMs)
    await Promise.all(ended)
    clearTimeout(lastResort)
  }
}

/** How a worker ended, and how it was started. */
type Ended = {
  readonly share: number
  readonly lastBackoffMs: number
  readonly code: number
  readonly signal: string
}
