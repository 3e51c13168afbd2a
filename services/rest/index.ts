/**
 * The REST data service: serves the schemas of a database over HTTP, as PostgREST 14 does. A server of its own: it needs a configuration and a
 * Postgres, and nothing else of this project.
 */
import cluster from 'node:cluster'
import { chmodSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { makeAdminServer } from '../http/admin.ts'
import { makeServer } from '../http/server.ts'
import { connectionAddress } from '../postgres/address.ts'
import { Pool } from '../postgres/pool.ts'
import { describeConfiguration, type RestConfiguration, type Sources } from './configuration/index.ts'
import { errorAnswer, type HttpResponse } from './engine/answer.ts'
import type { IncomingBody } from './engine/exchange.ts'
import { Listener } from './engine/listener.ts'
import { Loader } from './engine/loader.ts'
import { createMetrics } from './engine/metrics.ts'
import { answerRequest } from './engine/service.ts'
import { serviceName } from './engine/version.ts'
import { RestError } from './errors/rest-error.ts'
import type { RequestHead } from './parse/request.ts'

export { ConfigurationError, ConfigurationSyntaxError } from './configuration/index.ts'

export type RestOptions = {
  /** The configuration's sources, read when the service starts and whenever it is told to read them again. */
  readonly sources: () => Omit<Sources, 'database'>
  readonly logger: Logger
  readonly now?: () => number
  /** This process's share of `db-pool`, where there are several. */
  readonly poolSize?: number
  /** Called where `db-pool-automatic-recovery` is off and the database cannot be reached: the service is of no use any more. */
  readonly onLost?: () => void
  /** Whether this process runs the admin server; one of several does not. */
  readonly admin?: boolean
}

export type RestService = {
  /** Where it listens: an address and port, or the path of a socket. */
  readonly address: AddressInfo | string
  readonly adminAddress: AddressInfo | undefined
  readonly isReady: () => boolean
  readonly registry: Registry
  readonly configuration: () => string
  /** Reads configuration and schema cache again. Resolves once that has succeeded. */
  reload(wish?: 'everything' | 'schema'): Promise<void>
  /** Lets what is under way end, within seconds, and stops. */
  stop(): Promise<void>
}

/** Why, the log says: whoever asks is a stranger still. */
const notLoaded = (verbose: boolean): HttpResponse =>
  errorAnswer(
    new RestError({
      status: 503,
      code: 'RST002',
      message: 'Could not query the database for the schema cache. Retrying.',
      headers: [['Retry-After', '1']],
    }),
    verbose,
    serviceName,
  )

/** Hosts as PostgREST names them; `!4` and `!6` are any address of that kind only. */
function listenOptions(host: string): { host: string; ipv6Only?: boolean } {
  switch (host) {
    case '*4':
    case '!4':
      return { host: '0.0.0.0' }
    case '!6':
      return { host: '::', ipv6Only: true }
    case '*':
    case '*6':
      return { host: '::' }
    default:
      return { host }
  }
}

function listen(
  server: Server,
  options: { path: string } | { host: string; port: number; ipv6Only?: boolean },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** Listens on a host as PostgREST names them. */
export const listenOn = (server: Server, host: string, port: number): Promise<void> =>
  listen(server, { ...listenOptions(host), port })

async function listenAsConfigured(server: Server, configuration: RestConfiguration): Promise<AddressInfo | string> {
  const { serverUnixSocket: path, serverUnixSocketMode, serverHost, serverPort } = configuration
  if (path === undefined) {
    await listenOn(server, serverHost, serverPort)
  } else {
    // What an earlier run left; a socket that is in use cannot be told from it, as with PostgREST. Workers share what the first process binds.
    if (cluster.isPrimary) rmSync(path, { force: true })
    await listen(server, { path })
    chmodSync(path, serverUnixSocketMode)
  }
  const address = server.address()
  if (address === null) throw new Error('the server does not listen')
  return address
}

/** Ends a server: idle connections at once, the others when their request is answered or the time is up. */
function close(server: Server, graceMs: number): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    server.closeIdleConnections()
  })
}

/**
 * Starts the service. It listens at once, and answers 503 until the database has been read.
 * @throws ConfigurationError, ConfigurationSyntaxError; what listening fails with
 */
export async function startRest(options: RestOptions): Promise<RestService> {
  const { sources, logger, now = Date.now, admin = true } = options
  const { onLost = () => {} } = options
  const loader = new Loader({
    onLost,
    sources,
    logger,
    now,
    onLoad: (succeeded, seconds) => metrics.schemaCacheLoad(succeeded, seconds),
    onTokenCache: event => metrics.tokenCache(event),
  })
  const { base } = loader
  const address = connectionAddress(base.dbUri)
  const pool = new Pool(
    {
      address,
      size: options.poolSize ?? base.dbPool,
      acquisitionTimeoutMs: base.dbPoolAcquisitionTimeout * 1_000,
      maximumLifetimeMs: base.dbPoolMaxLifetime * 1_000,
      maximumIdleMs: base.dbPoolMaxIdletime * 1_000,
    },
    now,
  )
  const metrics = createMetrics(() => pool.figures)
  const listener = base.dbChannelEnabled
    ? new Listener({
        address,
        channel: base.dbChannel,
        logger,
        onDisconnected: () => base.dbPoolAutomaticRecovery || onLost(),
        onHeard: heard => void loader.load(heard === 'reload schema' ? 'schema' : 'everything'),
      })
    : undefined

  async function handle(request: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> {
    const start = performance.now()
    const { state } = loader
    const answered =
      state === undefined
        ? {
            response: notLoaded(base.clientErrorVerbosity === 'verbose'),
            role: undefined,
            error: undefined,
            sql: undefined,
          }
        : await answerRequest(state, pool, request, body, signal)
    const { response, role, error } = answered
    const sql = state?.configuration.logQuery ? answered.sql : undefined
    // 499 is what nginx calls it; nobody is there to be told.
    const status = signal.aborted ? 499 : response.status
    const seconds = (performance.now() - start) / 1_000
    metrics.request(request.method, status, seconds)
    const line = {
      method: request.method,
      path: request.path,
      status,
      role,
      milliseconds: Math.round(seconds * 1_000),
      sql,
    }
    if (signal.aborted) logger.info(line, 'the client is gone')
    else if (status >= 500)
      logger.error({ ...line, code: error?.code, reason: error?.message, cause: causeOf(error) }, 'request failed')
    else if (status >= 400) logger.warn({ ...line, code: error?.code }, 'request refused')
    else if (logger.isLevelEnabled('info')) logger.info(line, 'request answered')
    return response
  }

  const server = makeServer(
    {
      maximumBodyBytes: base.serverMaxBodyBytes,
      maximumHeaderBytes: base.serverMaxHeaderBytes,
      maximumHeldBytes: base.serverMaxHeldBytes,
    },
    () => {
      const { configuration } = loader.state ?? { configuration: base }
      return { corsOrigins: configuration.serverCorsAllowedOrigins, traceHeader: configuration.serverTraceHeader }
    },
    handle,
  )
  const listening = await listenAsConfigured(server, base)
  const isReady = () =>
    loader.state !== undefined && loader.failure === undefined && (listener === undefined || listener.isListening)
  const configuration = () => describeConfiguration(loader.state?.configuration ?? base)
  const metricsText = () => metrics.registry.metrics()
  const adminServer =
    admin && base.adminServerPort !== undefined
      ? makeAdminServer({ isLive: () => server.listening, isReady, metrics: metricsText, configuration })
      : undefined
  async function stop(): Promise<void> {
    listener?.stop()
    loader.stop()
    await Promise.all([close(server, 10_000), adminServer === undefined ? undefined : close(adminServer, 1_000)])
    pool.close()
  }
  if (adminServer !== undefined) {
    try {
      await listenOn(adminServer, base.adminServerHost ?? base.serverHost, base.adminServerPort ?? 0)
    } catch (error) {
      // What listens already would keep the process alive, and nobody could stop it.
      await stop()
      throw error
    }
  }
  await listener?.start()
  void loader.load('everything')

  return {
    address: listening,
    // Of a server on a port it is one.
    adminAddress: (adminServer?.address() as AddressInfo | null | undefined) ?? undefined,
    isReady,
    registry: metrics.registry,
    configuration,
    reload: (wish = 'everything') => loader.load(wish),
    stop,
  }
}

/** Of an error that nobody foresaw, what it was; the client is not told. */
function causeOf(error: RestError | undefined): string | undefined {
  return error?.code === 'RSTX00' && error.cause instanceof Error
    ? (error.cause.stack ?? error.cause.message)
    : undefined
}
