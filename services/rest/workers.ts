/**
 * Several processes of one service, where `server-workers` asks for them: they share the port, and each has its share of `db-pool`. The first process serves nothing
 * itself; it starts a worker again that has ended, and answers for all of them on the admin server.
 */
import cluster, { type Worker } from 'node:cluster'
import { rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AggregatorRegistry } from 'prom-client'
import { describeConfiguration, loadConfiguration } from './configuration/index.ts'
import { makeAdminServer } from './http/admin.ts'
import { listenOn, type RestOptions, startRest } from './index.ts'

export const isWorker = cluster.isWorker

const shareName = 'ESPALIER_REST_WORKER_POOL'
/** What a worker tells the first process, and the other way round. */
type FromWorker = { ready: boolean; configuration: string }
type ToWorker = { reload: 'everything' | 'schema' }

const isToWorker = (message: unknown): message is ToWorker =>
  typeof message === 'object' && message !== null && 'reload' in message
const isFromWorker = (message: unknown): message is FromWorker =>
  typeof message === 'object' && message !== null && 'ready' in message

/** Serves as one of several workers until `stopped` says with which exit code to end. */
export async function serveAsWorker(options: RestOptions, stopped: Promise<number>): Promise<number> {
  const poolSize = Number(process.env[shareName])
  const service = await startRest({ ...options, admin: false, poolSize })
  // Making one is what lets this process answer the first one's question for its figures.
  new AggregatorRegistry()
  AggregatorRegistry.setRegistries(service.registry)
  const tell = () => {
    const message: FromWorker = { ready: service.isReady(), configuration: service.configuration() }
    if (process.connected) process.send?.(message)
  }
  const timer = setInterval(tell, 250)
  process.on('message', message => {
    if (isToWorker(message)) void service.reload(message.reload).then(tell)
  })
  // Without the first process nobody would end this one.
  const orphaned = new Promise<number>(resolve => process.once('disconnect', () => resolve(0)))
  const code = await Promise.race([stopped, orphaned])
  clearInterval(timer)
  await service.stop()
  cluster.worker?.disconnect()
  return code
}

/** Whole shares that add up to all of it; each worker has one at least. */
export const poolShares = (size: number, workers: number): number[] =>
  Array.from({ length: workers }, (_, index) => Math.max(1, Math.floor((size + index) / workers)))

export type Workers = {
  readonly adminAddress: AddressInfo | undefined
  reload(wish: 'everything' | 'schema'): void
  stop(): Promise<void>
}

const shortestLifeMs = 1_000

/** Starts the workers and keeps them going. */
export async function startWorkers({
  sources,
  logger,
  onLost = () => {},
}: Pick<RestOptions, 'sources' | 'logger' | 'onLost'>): Promise<Workers> {
  const configuration = loadConfiguration(sources())
  const shares = poolShares(configuration.dbPool, configuration.serverWorkers)
  const ready = new Map<Worker, boolean>()
  let inForce = describeConfiguration(configuration)
  let isStopping = false
  if (configuration.serverUnixSocket !== undefined) rmSync(configuration.serverUnixSocket, { force: true })

  function fork(share: number): void {
    const startedAt = Date.now()
    const worker = cluster.fork({ [shareName]: String(share) })
    ready.set(worker, false)
    worker.on('message', message => {
      if (!isFromWorker(message)) return
      ready.set(worker, message.ready)
      inForce = message.configuration
    })
    worker.on('error', error => logger.error({ reason: error.message }, 'a worker cannot be told something'))
    worker.on('exit', (code, signal) => {
      ready.delete(worker)
      if (isStopping) return
      if (code === 1 && !configuration.dbPoolAutomaticRecovery) {
        onLost()
        return
      }
      logger.error({ code, signal }, 'a worker has ended and is started again')
      setTimeout(() => isStopping || fork(share), Date.now() - startedAt < shortestLifeMs ? shortestLifeMs : 0)
    })
  }

  const registry = new AggregatorRegistry()
  let admin: Server | undefined
  if (configuration.adminServerPort !== undefined) {
    admin = makeAdminServer({
      isLive: () => ready.size > 0,
      isReady: () => ready.size === shares.length && [...ready.values()].every(Boolean),
      metrics: () => registry.clusterMetrics(),
      configuration: () => inForce,
    })
    await listenOn(admin, configuration.adminServerHost ?? configuration.serverHost, configuration.adminServerPort)
  }
  for (const share of shares) fork(share)
  return {
    // Of a server on a port it is one.
    adminAddress: (admin?.address() as AddressInfo | null | undefined) ?? undefined,
    reload(wish) {
      const message: ToWorker = { reload: wish }
      for (const worker of ready.keys()) worker.send(message)
    },
    async stop() {
      isStopping = true
      admin?.close()
      admin?.closeAllConnections()
      const ended = [...ready.keys()].map(worker => new Promise<void>(resolve => worker.once('exit', () => resolve())))
      for (const worker of ready.keys()) worker.process.kill('SIGTERM')
      await Promise.all(ended)
    },
  }
}
