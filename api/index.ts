/** The control-plane API as a server: caches, audit log, application and shutdown. */
import { Server as HttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Cluster } from '../cluster/index.ts'
import { version } from '../server/version.ts'
import type { ResolveService } from './agents.ts'
import { buildApp, type Certificate } from './app.ts'
import { auditToFile, auditToLog } from './audit.ts'
import { createCaches, startCaches, statesOf, stopCaches } from './caches.ts'
import type { ApiConfiguration } from './configuration.ts'
import type { ApiContext } from './context.ts'
import { createApiMetrics } from './metrics.ts'

type ApiOptions = {
  cluster: Cluster
  configuration: ApiConfiguration
  /** If present, the API serves HTTPS with this certificate, otherwise plain HTTP. */
  certificate?: Certificate | undefined
  logger: Logger
  /** Why the API can serve no request, in addition to the causes that it detects itself. */
  unready?: (() => string | undefined) | undefined
  /** Whether a database of a major version can use pgvector; if absent, the configuration decides. */
  hasPgvector?: ApiContext['hasPgvector']
  /** Resolves the Services of databases; if absent, the API uses the cluster's DNS. */
  resolve?: ResolveService
  /** The directory of the console's files; if absent, the API does not serve the console. */
  consoleDirectory?: string | undefined
  now?: () => number
}

export type Api = {
  /** The listen address, for example `http://127.0.0.1:8080`. */
  address: string
  /** The API's metrics. The caller decides where to serve them. */
  registry: Registry
  /** New connections use this certificate from now on. @throws if the certificate is invalid */
  setCertificate: (certificate: Certificate) => void
  /** Stops accepting connections, answers long polls immediately, completes requests in flight, then resolves. */
  stop: () => Promise<void>
}

const sweepEveryMs = 3600 * 1000

/** Resolves after the caches are filled and the API listens. @throws if the port is in use or a key is invalid */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { cluster, configuration, certificate, logger, now = Date.now } = options
  const { auditFile, listen, shutdownSeconds } = configuration
  const audit = auditFile === undefined ? auditToLog(logger) : await auditToFile(auditFile, logger)
  const caches = createCaches(cluster, logger)
  const metrics = createApiMetrics(version)
  metrics.watchCaches(() => statesOf(caches))
  const stopping = new AbortController()
  try {
    const { app, context } = await buildApp({
      cluster,
      caches,
      configuration,
      certificate,
      audit,
      metrics,
      logger,
      stopping: stopping.signal,
      unready: options.unready,
      resolve: options.resolve,
      hasPgvector: options.hasPgvector,
      consoleDirectory: options.consoleDirectory,
      now,
    })
    await startCaches(caches)
    await app.listen(listen)
    const sweep = () =>
      context.idempotency
        .sweep()
        .catch(error => logger.warn({ err: error }, 'cannot remove old idempotency keys; will retry'))
    const sweeping = setInterval(sweep, sweepEveryMs)
    sweeping.unref()
    context.auditRecorder.start()

    const stop = async () => {
      clearInterval(sweeping)
      stopping.abort()
      const impatience = setTimeout(() => app.server.closeAllConnections(), shutdownSeconds * 1000)
      // Otherwise, a connection whose last response was sent after the start of the stop would stay open for another
      // request.
      const idle = setInterval(() => app.server.closeIdleConnections(), 20)
      await app.close()
      clearInterval(idle)
      clearTimeout(impatience)
      await context.auditRecorder.stop()
      await stopCaches(caches)
      await audit.close()
    }
    let stopped: Promise<void> | undefined
    return {
      registry: metrics.registry,
      address: addressOf(app.server.address(), certificate === undefined ? 'http' : 'https'),
      setCertificate: renewed => {
        if (app.server instanceof HttpsServer) app.server.setSecureContext(renewed)
      },
      stop: () => (stopped ??= stop()),
    }
  } catch (error) {
    await stopCaches(caches)
    await audit.close()
    throw error
  }
}

function addressOf(address: AddressInfo | string | null, scheme: 'http' | 'https'): string {
  if (address === null || typeof address === 'string') return address ?? ''
  return `${scheme}://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`
}
