/**
 * The REST data service: serves the schemas of a database over HTTP, as PostgREST 14 does. A server of its own: it needs a configuration and a
 * Postgres, and nothing else of this project.
 */
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { makeAdminServer } from '../http/admin.ts'
import { closeServer, type ListenAddress, listen } from '../http/listen.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../http/message.ts'
import { makeServer } from '../http/server.ts'
import { connectionAddress } from '../postgres/address.ts'
import { Pool } from '../postgres/pool.ts'
import { schemaCacheText } from '../schema-cache/text.ts'
import { describeConfiguration, type RestConfiguration, type Sources } from './configuration/index.ts'
import { Listener } from './engine/listener.ts'
import { Loader, type ReloadScope } from './engine/loader.ts'
import { createMetrics } from './engine/metrics.ts'
import { answerRequest } from './engine/service.ts'
import { requestUnread, schemaNotLoaded } from './errors/catalogue.ts'
import { errorResponse, restErrorOf } from './errors/index.ts'
import type { RestError } from './errors/rest-error.ts'
import { product } from './product.ts'
import { RefusalLog } from './refusals/log.ts'

export type { ReloadScope }

export type RestOptions = {
  /** The configuration's sources, read when the service starts and whenever it is told to read them again. */
  readonly sources: () => Omit<Sources, 'database'>
  readonly logger: Logger
  readonly now?: () => number
  /** This process's share of `db-pool`, where there are several. */
  readonly poolSize?: number
  /** Called where `db-pool-automatic-recovery` is off and the database cannot be reached: the service is of no use any more. */
  readonly onLost?: () => void
  /** Called with `log-level` whenever the configuration is read. */
  readonly onLogLevel?: (level: RestConfiguration['logLevel']) => void
  /** Called once the service listens. It cannot answer yet. */
  readonly onListening?: (address: AddressInfo | string) => void
  /** Whether this process runs the admin server; one of several does not. */
  readonly admin?: boolean
}

export type RestService = {
  /** Where it listens: an address and port, or the path of a socket. */
  readonly address: AddressInfo | string
  /** Undefined where the admin server listens on a socket, too. */
  readonly adminAddress: AddressInfo | undefined
  readonly isReady: () => boolean
  readonly registry: Registry
  readonly configuration: () => string
  /** The schema cache as JSON; undefined until the database has been read. */
  readonly schemaCache: () => Promise<string | undefined>
  /** Reads configuration and schema cache again. Resolves once that has succeeded. */
  reload(scope?: ReloadScope): Promise<void>
  /** Lets what is under way end, within seconds, and stops. */
  stop(): Promise<void>
}

/** What pages may read of answers. */
const exposedHeaders =
  'Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, Transfer-Encoding, Range-Unit'
const methods = 'GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD'

const listenAddress = (configuration: RestConfiguration): ListenAddress => {
  const { serverUnixSocket: path, serverUnixSocketMode: mode, serverHost: host, serverPort: port } = configuration
  return path === undefined ? { host, port, reusePort: configuration.serverReuseport } : { path, mode }
}

/** Undefined where there is no admin server. */
export function adminListenAddress(configuration: RestConfiguration): ListenAddress | undefined {
  const { adminServerUnixSocket: path, adminServerUnixSocketMode: mode, adminServerPort: port } = configuration
  if (path !== undefined) return { path, mode }
  return port === undefined ? undefined : { host: configuration.adminServerHost ?? configuration.serverHost, port }
}

/**
 * Starts the service. It listens at once, and answers 503 until the database has been read.
 * @throws ConfigurationError, ConfigurationSyntaxError; what listening fails with
 */
export async function startRest(options: RestOptions): Promise<RestService> {
  const { sources, logger, now = Date.now, admin = true } = options
  const { onLost = () => {}, onLogLevel = () => {}, onListening = () => {} } = options
  const loader = new Loader({
    onLost,
    onLogLevel,
    sources,
    logger,
    now,
    onLoad: (succeeded, seconds) => metrics.schemaCacheLoad(succeeded, seconds),
    onTokenCache: event => metrics.tokenCache(event),
  })
  const { base } = loader
  const database = connectionAddress(base.dbUri)
  const pool = new Pool(
    {
      address: database,
      size: options.poolSize ?? base.dbPool,
      acquisitionTimeoutMs: base.dbPoolAcquisitionTimeout * 1_000,
      maximumLifetimeMs: base.dbPoolMaxLifetime * 1_000,
      maximumIdleMs: base.dbPoolMaxIdletime * 1_000,
    },
    now,
  )
  const refusals = new RefusalLog(logger, pool)
  const metrics = createMetrics(() => pool.figures)
  const listener = base.dbChannelEnabled
    ? new Listener({
        address: database,
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
            response: errorResponse(schemaNotLoaded(), base.clientErrorVerbosity === 'verbose'),
            role: undefined,
            error: undefined,
            sql: undefined,
            refused: undefined,
          }
        : await answerRequest(state, pool, request, body, signal)
    const { response, role, error, refused } = answered
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
    const cause = causeOf(error)
    if (refused !== undefined && state?.configuration.logRefusals) {
      refusals.tell(refused, { method: request.method, path: request.path })
    }
    if (response.stream !== undefined && !signal.aborted)
      return { ...response, stream: logged(response.stream, line, signal) }
    if (signal.aborted) logger.info(line, 'the client is gone')
    else if (status >= 500)
      logger.error({ ...line, code: error?.code, reason: error?.message, cause }, 'request failed')
    else if (status >= 400) logger.warn({ ...line, code: error?.code }, 'request refused')
    else if (logger.isLevelEnabled('info')) logger.info(line, 'request answered')
    return response
  }

  /** Of an answer that goes out as it comes, only its end tells how it went. */
  const logged =
    (stream: NonNullable<HttpResponse['stream']>, line: object, signal: AbortSignal): HttpResponse['stream'] =>
    async out => {
      try {
        await stream(out)
        logger.info(line, 'request answered')
      } catch (error) {
        const { code, message } = restErrorOf(error, false)
        if (signal.aborted) logger.info(line, 'the client is gone')
        else logger.error({ ...line, code, reason: message }, 'an answer that had begun was cut off')
        throw error
      }
    }

  const server = makeServer({
    product,
    maximumBodyBytes: base.serverMaxBodyBytes,
    maximumHeaderBytes: base.serverMaxHeaderBytes,
    maximumHeldBytes: base.serverMaxHeldBytes,
    rules: () => {
      const { configuration } = loader.state ?? { configuration: base }
      const own = [
        ...(configuration.keysetParameter === undefined ? [] : ['Link']),
        ...(configuration.serverEtagEnabled ? ['ETag'] : []),
      ]
      const exposed = [exposedHeaders, ...own].join(', ')
      const cors = { origins: configuration.serverCorsAllowedOrigins, methods, exposedHeaders: exposed }
      return { cors, traceHeader: configuration.serverTraceHeader }
    },
    handle,
    // What comes here has no part in a request's own answer: how much of it is said is not configured.
    renderError: error => errorResponse(restErrorOf(error, false), true),
    renderUnread: why => errorResponse(requestUnread(why, base.serverMaxHeaderBytes), true),
  })
  const address = await listen(server, listenAddress(base))
  onListening(address)
  const isReady = () =>
    loader.state !== undefined && loader.failure === undefined && (listener === undefined || listener.isListening)
  const configuration = () => describeConfiguration(loader.state?.configuration ?? base)
  const schemaCache = async () => (loader.state === undefined ? undefined : schemaCacheText(loader.state.cache))
  const metricsText = () => metrics.registry.metrics()
  const adminAddress = admin ? adminListenAddress(base) : undefined
  const adminServer =
    adminAddress !== undefined
      ? makeAdminServer({
          isLive: () => server.listening,
          isReady,
          metrics: metricsText,
          configuration: base.adminServerConfigEnabled ? configuration : undefined,
          schemaCache,
        })
      : undefined
  async function stop(): Promise<void> {
    listener?.stop()
    loader.stop()
    await Promise.all([
      closeServer(server, 10_000),
      adminServer === undefined ? undefined : closeServer(adminServer, 1_000),
    ])
    pool.close()
  }
  if (adminServer !== undefined && adminAddress !== undefined) {
    try {
      await listen(adminServer, adminAddress)
    } catch (error) {
      // What listens already would keep the process alive, and nobody could stop it.
      await stop()
      throw error
    }
  }
  await listener?.start()
  void loader.load('everything')

  return {
    address,
    adminAddress: addressOnPort(adminServer?.address()),
    isReady,
    registry: metrics.registry,
    configuration,
    schemaCache,
    reload: (scope = 'everything') => loader.load(scope),
    stop,
  }
}

const addressOnPort = (address: AddressInfo | string | null | undefined): AddressInfo | undefined =>
  typeof address === 'object' && address !== null ? address : undefined

/** Of an error that nobody foresaw, what it was; the client is not told. */
function causeOf(error: RestError | undefined): string | undefined {
  return error?.code === 'RSTX00' && error.cause instanceof Error
    ? (error.cause.stack ?? error.cause.message)
    : undefined
}
