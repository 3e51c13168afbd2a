/**
 * Runs the gateway in a separate thread, so that logins and sessions do not wait for the event loop of API, operator,
 * store and runtime. Both threads communicate by messages (protocol.ts). If the thread ends unexpectedly, the
 * installation ends: `failed` resolves, and all readiness probes fail.
 */
import module from 'node:module'
import { Worker } from 'node:worker_threads'
import type { Logger } from 'pino'
import type { GatewayCluster } from '../../gateway/cluster.ts'
import type { HttpsOptions } from '../../gateway/in-process.ts'
import type { Certificate } from '../../server/certificate.ts'
import type { Figures } from '../../server/metrics.ts'
import type { Endpoints } from '../runtime/index.ts'
import type { FromThread, ThreadSettings, ToThread } from './protocol.ts'
import { serveCluster } from './serve-cluster.ts'

export type GatewayThread = {
  /** Resolves once the gateway runs. @throws Error if it cannot be started */
  started: Promise<void>
  /** Resolves with the problem if the thread ends before it is stopped. */
  failed: Promise<string>
  /** Returns the current problem, if there is one. */
  check(): string | undefined
  /** Replaces the certificate. An invalid certificate is logged, and the previous certificate stays. */
  setCertificate(certificate: Certificate): void
  /** Replaces the certificates for HTTPS, in the same way. */
  setHttpsCertificates(certificates: readonly Certificate[]): void
  /** Passes on changed endpoints of Services. */
  setEndpoints(changes: Endpoints[]): void
  figures: Figures
  /** Like `Gateway.stop`; then ends the thread, with a time limit. */
  stop(options: { drainMs: number }): Promise<void>
}

/** How long the thread may take to stop after it has drained. */
const stopMs = 10_000
/** The young generation's limit. Session data is not on the heap, and other allocations are short-lived. */
const youngGenerationMiB = 6

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const

export function startGatewayThread(options: {
  cluster: GatewayCluster
  identity: string
  listenHost: string
  certificate: Certificate
  https?: HttpsOptions
  logger: Logger
}): GatewayThread {
  const { cluster, identity, listenHost, certificate, https, logger } = options
  const settings: ThreadSettings = {
    ...{ identity, listenHost, certificate, https },
    level: logger.level,
    compileCache: module.getCompileCacheDir(),
  }
  const worker = new Worker(new URL('./worker.mjs', import.meta.url), {
    name: 'gateway',
    workerData: settings,
    resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMiB },
  })
  const post = (message: ToThread): void => worker.postMessage(message)
  const served = serveCluster(cluster, post)
  const started = Promise.withResolvers<void>()
  started.promise.catch(() => {}) // `started` can reject before the caller awaits it
  const failed = Promise.withResolvers<string>()
  const stopped = Promise.withResolvers<void>()
  const pages = new Map<number, PromiseWithResolvers<string>>()
  let lastPage = 0
  let failure: string | undefined
  let isStopping = false

  const log = (level: string, fields: Record<string, unknown>, message: string): void =>
    logger[levels.find(known => known === level) ?? 'error'](fields, message)

  const receive = (message: FromThread): void => {
    if (message.type === 'log') log(message.level, message.fields, message.message)
    else if (message.type === 'started') started.resolve()
    else if (message.type === 'metrics') pages.get(message.id)?.resolve(message.text)
    else if (message.type === 'stopped') stopped.resolve()
    else served.receive(message)
  }

  const end = (error?: Error): void => {
    served.close()
    stopped.resolve()
    if (isStopping && error !== undefined) logger.warn({ err: error }, "the gateway's thread failed while it stopped")
    if (isStopping || failure !== undefined) return
    failure = `the gateway's thread has ended: ${error?.message ?? 'without an error'}`
    logger.fatal({ err: error }, "the gateway's thread has ended; no database can be reached")
    started.reject(new Error(failure, { cause: error }))
    for (const page of pages.values()) page.reject(new Error(failure))
    failed.resolve(failure)
  }
  worker.on('message', receive)
  worker.on('error', (error: unknown) => end(error instanceof Error ? error : new Error(String(error))))
  worker.on('exit', () => end())

  const metrics = async (): Promise<string> => {
    if (failure !== undefined) throw new Error(failure)
    const id = ++lastPage
    const page = Promise.withResolvers<string>()
    pages.set(id, page)
    post({ type: 'metrics', id })
    return page.promise.finally(() => pages.delete(id))
  }

  return {
    started: started.promise,
    failed: failed.promise,
    check: () => failure,
    setCertificate: next => post({ type: 'certificate', certificate: next }),
    setHttpsCertificates: certificates => post({ type: 'https-certificates', certificates }),
    setEndpoints: changes => post({ type: 'endpoints', changes }),
    figures: { metrics },
    stop: async ({ drainMs }) => {
      isStopping = true
      post({ type: 'stop', drainMs })
      const deadline = setTimeout(() => {
        logger.warn("the gateway's thread does not stop; ending it")
        stopped.resolve()
      }, drainMs + stopMs)
      await stopped.promise
      clearTimeout(deadline)
      await worker.terminate()
    },
  }
}
