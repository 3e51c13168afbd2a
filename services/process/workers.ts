/**
 * Several processes of one service, where `server-workers` asks for them: they share the port, and each has its share of `db-pool`. The first process serves nothing
 * itself; it starts a worker again that has ended, and answers for all of them on the admin server.
 */
import cluster, { type Address, type Worker } from 'node:cluster'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { makeAdminServer } from '../http/admin.ts'
import { describeConfiguration, loadConfiguration } from '../rest/configuration/index.ts'
import { listenOn, type RestOptions, startRest } from '../rest/index.ts'
import { nextPause } from './backoff.ts'
import { bequeath, type Figures, figuresText } from './metrics.ts'

export const isWorker = cluster.isWorker

const shareName = 'ESPALIER_REST_WORKER_POOL'
/** What a worker tells the first process, and the other way round. */
type FromWorker = { ready: boolean; configuration: string; figures?: Figures }
type ToWorker = { wish: 'everything' | 'schema' | 'figures' }

const isToWorker = (message: unknown): message is ToWorker =>
  typeof message === 'object' && message !== null && 'wish' in message
const isFromWorker = (message: unknown): message is FromWorker =>
  typeof message === 'object' && message !== null && 'ready' in message

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

/** Serves as one of several workers until `stopped` says with which exit code to end. Without the first process, Node ends this one. */
export async function serveAsWorker(options: RestOptions, stopped: Promise<number>): Promise<number> {
  const poolSize = Number(process.env[shareName])
  const service = await startRest({ ...options, admin: false, poolSize })
  const tell = (figures?: Figures) => {
    const message: FromWorker = { ready: service.isReady(), configuration: service.configuration(), figures }
    if (process.connected) process.send?.(message)
  }
  const timer = setInterval(tell, 250)
  process.on('message', message => {
    if (!isToWorker(message)) return
    if (message.wish === 'figures') void service.registry.getMetricsAsJSON().then(tell)
    else void service.reload(message.wish).then(() => tell())
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
export const restartPause = (livedMs: number, lastPauseMs: number): number =>
  livedMs >= wellMs ? 0 : nextPause(lastPauseMs)

/** As Node's servers say it. */
const addressInfo = ({ address, port, addressType }: Address): AddressInfo | string =>
  addressType === -1 ? address : { address, port, family: addressType === 6 ? 'IPv6' : 'IPv4' }

export type Workers = {
  readonly address: AddressInfo | string
  readonly adminAddress: AddressInfo | undefined
  reload(wish: 'everything' | 'schema'): void
  /** Lets what is under way end, within seconds, and stops. */
  stop(): Promise<void>
}

/** What is known of a worker; it tells four times a second. */
type Known = { ready: boolean; heardAt: number; figures: Figures }
const longestSilenceMs = 5_000
const figuresTimeoutMs = 1_000
/** Workers give what is under way ten seconds, and go within two more; one that takes longer does not run. */
const longestStopMs = 13_000

/**
 * Starts the workers and keeps them going. Resolves once one of them listens.
 * @throws ConfigurationError, ConfigurationSyntaxError; what listening of the admin server fails with; Error where a worker ends and none has listened
 */
export async function startWorkers({
  sources,
  logger,
  onLost = () => {},
}: Pick<RestOptions, 'sources' | 'logger' | 'onLost'>): Promise<Workers> {
  const configuration = loadConfiguration(sources())
  const shares = poolShares(configuration.dbPool, configuration.serverWorkers)
  const workers = new Map<Worker, Known>()
  const listening = Promise.withResolvers<AddressInfo | string>()
  let inForce = describeConfiguration(configuration)
  let left: Promise<Figures> = Promise.resolve([])
  let hasListened = false
  let isStopping = false
  if (configuration.serverUnixSocket !== undefined) rmSync(configuration.serverUnixSocket, { force: true })

  function fork(share: number, lastPauseMs: number): void {
    const startedAt = performance.now()
    const worker = cluster.fork({ [shareName]: String(share) })
    const known: Known = { ready: false, heardAt: Number.NEGATIVE_INFINITY, figures: [] }
    workers.set(worker, known)
    worker.once('listening', address => {
      hasListened = true
      listening.resolve(addressInfo(address))
    })
    worker.on('message', message => {
      if (!isFromWorker(message)) return
      known.ready = message.ready
      known.heardAt = performance.now()
      inForce = message.configuration
      if (message.figures === undefined) return
      known.figures = message.figures
      worker.emit('figures')
    })
    worker.on('error', error => logger.error({ reason: error.message }, 'a worker cannot be told something'))
    worker.on('exit', (code, signal) => {
      workers.delete(worker)
      left = left.then(before => bequeath(before, known.figures))
      if (isStopping) return
      if (!hasListened) {
        // It has said why itself.
        listening.reject(new Error('the workers cannot start'))
        return
      }
      if (code === 1 && !configuration.dbPoolAutomaticRecovery) {
        onLost()
        return
      }
      const pauseMs = restartPause(performance.now() - startedAt, lastPauseMs)
      logger.error({ code, signal }, `a worker has ended and is started again in ${pauseMs / 1_000} s`)
      setTimeout(() => isStopping || fork(share, pauseMs), pauseMs)
    })
  }

  const isHeard = ({ heardAt }: Known): boolean => performance.now() - heardAt < longestSilenceMs

  /** Of all workers; of one that does not answer in time, what it has told last. */
  async function metrics(): Promise<string> {
    const signal = AbortSignal.timeout(figuresTimeoutMs)
    const message: ToWorker = { wish: 'figures' }
    const told = [...workers]
      .filter(([, known]) => isHeard(known))
      .map(([worker]) => {
        worker.send(message)
        return once(worker, 'figures', { signal })
      })
    await Promise.allSettled(told)
    return figuresText([await left, ...Array.from(workers.values(), ({ figures }) => figures)])
  }

  let admin: Server | undefined
  if (configuration.adminServerPort !== undefined) {
    admin = makeAdminServer({
      isLive: () => workers.size > 0,
      isReady: () =>
        workers.size === shares.length && [...workers.values()].every(known => known.ready && isHeard(known)),
      metrics,
      configuration: () => inForce,
    })
    await listenOn(admin, configuration.adminServerHost ?? configuration.serverHost, configuration.adminServerPort)
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
  return {
    address,
    // Of a server on a port it is one.
    adminAddress: (admin?.address() as AddressInfo | null | undefined) ?? undefined,
    reload(wish) {
      const message: ToWorker = { wish }
      for (const worker of workers.keys()) worker.send(message)
    },
    stop,
  }
}
