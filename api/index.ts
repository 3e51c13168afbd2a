/** The control-plane API as a server: caches, audit log, the application and its stop. */
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
  /** Serves HTTPS with it; absent: plain HTTP. */
  certificate?: Certificate | undefined
  logger: Logger
  /** Why no request can be served, beside what the API sees by itself. */
  unready?: (() => string | undefined) | undefined
  /** Whether a database of a major version can have pgvector; absent: as the configuration says. */
  hasPgvector?: ApiContext['hasPgvector']
  /** How the Services of databases are found; absent: by the cluster's DNS. */
  resolve?: ResolveService
  now?: () => number
}

export type Api = {
  /** Where it listens, for example `http://127.0.0.1:8080`. */
  address: string
  /** Its figures; whoever starts it decides where they are served. */
  registry: Registry
  /** From now on new connections are served with this one. @throws where it is none */
  setCertificate: (certificate: Certificate) => void
  /** Accepts nothing more, answers long polls at once, finishes what is in flight, then resolves. */
  stop: () => Promise<void>
}

const sweepEveryMs = 3600 * 1000

/** Resolves once the caches are filled and it listens. @throws where the port is taken or a key is unusable */
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
      now,
    })
    await startCaches(caches)
    await app.listen(listen)
    const sweep = () =>
      context.idempotency
        .sweep()
        .catch(error => logger.warn({ err: error }, 'cannot remove old idempotency keys; will try again'))
    const sweeping = setInterval(sweep, sweepEveryMs)
    sweeping.unref()

    const stop = async () => {
      clearInterval(sweeping)
      stopping.abort()
      const impatience = setTimeout(() => app.server.closeAllConnections(), shutdownSeconds * 1000)
      // A connection whose last answer came after the stop began would be kept alive for its client's next request.
      const idle = setInterval(() => app.server.closeIdleConnections(), 20)
      await app.close()
      clearInterval(idle)
      clearTimeout(impatience)
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
