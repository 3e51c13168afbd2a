/**
 * Several processes of one service. The first process serves nothing itself: it starts the workers, starts one again that has ended, and answers for all of them on the admin
 * server. It promises that a worker's end does not end the others, unless the service says so, and that counters never go back.
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

const longestSilenceMs = 5_000
const metricsTimeoutMs = 1_000
const schemaCacheTimeoutMs = 10_000
/** Workers give what is under way ten seconds, and go within two more; one that takes longer does not run. */
const longestStopMs = 13_000

/** A worker, and what it has reported last; it reports four times a second. */
class Known {
  readonly startedAt = performance.now()
  readonly worker: Worker
  metrics: ProcessMetrics = []
  #isReady = false
  #heardAt = Number.NEGATIVE_INFINITY

  constructor(worker: Worker) {
    this.worker = worker
  }

  get isHeard(): boolean {
    return performance.now() - this.#heardAt < longestSilenceMs
  }

  get isReady(): boolean {
    return this.#isReady && this.isHeard
  }

  take(state: Extract<FromWorker, { kind: 'state' }>): void {
    this.#isReady = state.ready
    this.#heardAt = performance.now()
    if (state.metrics === undefined) return
    this.metrics = state.metrics
    this.worker.emit('metrics')
  }
}

/**
 * Starts the workers and keeps them going. Each runs this program from its beginning, and is to call serveAsWorker there. Resolves once one of them listens.
 * @throws what listening of the admin server fails with; Error where a worker ends and none has listened
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
  /** As a worker has reported it last. */
  #configuration: string
  /** Counters of workers that have ended. */
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
      // It has said why itself.
      this.#listening.reject(new Error('the workers cannot start'))
      return
    }
    if (isLost(code)) {
      onLost()
      return
    }
    const backoffMs = restartBackoff(performance.now() - known.startedAt, lastBackoffMs)
    logger.error({ code, signal }, `a worker has ended and is started again in ${backoffMs / 1_000} s`)
    setTimeout(() => this.#isStopping || this.#fork(share, backoffMs), backoffMs)
  }

  /** Of all workers; of one that does not answer in time, what it has reported last. */
  async #metrics(): Promise<string> {
    const signal = AbortSignal.timeout(metricsTimeoutMs)
    const message: ToWorker<Scope> = { kind: 'metrics' }
    const answers = [...this.#workers.values()]
      .filter(({ isHeard }) => isHeard)
      .map(({ worker }) => {
        worker.send(message)
        return once(worker, 'metrics', { signal })
      })
    await Promise.allSettled(answers)
    return aggregateText([await this.#retained, ...Array.from(this.#workers.values(), ({ metrics }) => metrics)])
  }

  /** Of one worker that is ready: all have the same. */
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

/** How a worker has ended, and what it was started with. */
type Ended = {
  readonly share: number
  readonly lastBackoffMs: number
  readonly code: number
  readonly signal: string
}
