/**
 * The REST data service: serves a database's schemas over HTTP, as PostgREST 14 does. It is an independent server that
 * needs only a configuration and a Postgres.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { makeAdminServer } from '../http/admin.ts'
import type { ResponseRules } from '../http/exchange.ts'
import { closeServer, type ListenAddress, listen } from '../http/listen.ts'
import { RequestFigures } from '../http/request-figures.ts'
import { makeServer } from '../http/server.ts'
import { StartupCheck } from '../http/startup-check.ts'
import { connectionAddress } from '../postgres/address.ts'
import { Pool } from '../postgres/pool.ts'
import { runSamples, type SamplesAddress } from '../samples/index.ts'
import { schemaCacheText } from '../schema-cache/text.ts'
import { describeConfiguration, type RestConfiguration, type Sources } from './configuration/index.ts'
import { Listener } from './engine/listener.ts'
import { Loader, type ReloadScope } from './engine/loader.ts'
import { createMetrics, type Metrics } from './engine/metrics.ts'
import { requestUnread } from './errors/catalogue.ts'
import { errorResponse, restErrorOf } from './errors/index.ts'
import { RequestHandler } from './handler.ts'
import { probeApi, targetOf } from './probe.ts'
import { product } from './product.ts'
import { RefusalLog } from './refusals/log.ts'

export type { ReloadScope }

export type RestOptions = {
  /** The configuration's sources, read at the start and on each reload. */
  readonly sources: () => Omit<Sources, 'database'>
  readonly logger: Logger
  readonly now?: () => number
  /** This process's share of `db-pool`, if there are several processes. */
  readonly poolSize?: number
  /** Called if the database is unreachable and `db-pool-automatic-recovery` is off. The service cannot continue. */
  readonly onLost?: () => void
  /** Called with `log-level` each time the configuration is loaded. */
  readonly onLogLevel?: (level: RestConfiguration['logLevel']) => void
  /** Called once the service listens. The service is not ready yet. */
  readonly onListening?: (address: AddressInfo | string) => void
  /** Whether this process runs the admin server. Workers do not run it. */
  readonly admin?: boolean
  /** The address to which the service sends usage samples. Undefined: the service takes no samples. */
  readonly samples?: SamplesAddress | undefined
}

export type RestService = {
  /** The address: host and port, or the socket's path. */
  readonly address: AddressInfo | string
  /** Undefined if the admin server listens on a socket, too. */
  readonly adminAddress: AddressInfo | undefined
  readonly isReady: () => boolean
  readonly registry: Registry
  readonly configuration: () => string
  /** The schema cache as JSON. Undefined until the service has read the database. */
  readonly schemaCache: () => Promise<string | undefined>
  /** Reloads the configuration and the schema cache. Resolves once the reload has succeeded. */
  readonly reload: (scope?: ReloadScope) => Promise<void>
  /** Waits for the requests in progress, at most some seconds, and stops. */
  readonly stop: () => Promise<void>
}

/** Response headers that web pages of other origins may read. */
const exposedHeaders =
  'Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, Transfer-Encoding, Range-Unit'
const methods = 'GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD'

export const listenAddress = (configuration: RestConfiguration): ListenAddress => {
  const { serverUnixSocket: path, serverUnixSocketMode: mode, serverHost: host, serverPort: port } = configuration
  return path === undefined ? { host, port, reusePort: configuration.serverReuseport } : { path, mode }
}

/** Undefined if there is no admin server. */
export function adminListenAddress(configuration: RestConfiguration): ListenAddress | undefined {
  const { adminServerUnixSocket: path, adminServerUnixSocketMode: mode, adminServerPort: port } = configuration
  if (path !== undefined) return { path, mode }
  return port === undefined ? undefined : { host: configuration.adminServerHost ?? configuration.serverHost, port }
}

/**
 * Starts the service. The service listens at once, and answers 503 until it has read the database.
 * @throws ConfigurationError, ConfigurationSyntaxError; listen errors
 */
export async function startRest(options: RestOptions): Promise<RestService> {
  const rest = new Rest(options)
  await rest.start()
  return rest
}

class Rest implements RestService {
  readonly #options: RestOptions
  readonly #loader: Loader
  /** The configuration at the start, for settings that cannot change later. */
  readonly #base: RestConfiguration
  readonly #pool: Pool
  readonly #metrics: Metrics
  readonly #requests = new RequestFigures()
  readonly #listener: Listener | undefined
  readonly #server: Server
  readonly #adminServer: Server | undefined
  #address: AddressInfo | string = ''
  readonly #startup = new StartupCheck(() => this.#probeItself())
  #samples: Awaited<ReturnType<typeof runSamples>>

  constructor(options: RestOptions) {
    const { sources, logger, onLost = () => {}, onLogLevel = () => {}, now = Date.now } = options
    this.#options = options
    this.#loader = new Loader({
      onLost,
      onLogLevel,
      sources,
      logger,
      now,
      onLoad: (succeeded, seconds) => this.#metrics.schemaCacheLoad(succeeded, seconds),
      onTokenCache: event => this.#metrics.tokenCache(event),
    })
    this.#base = this.#loader.base
    this.#pool = this.#createPool(now)
    this.#metrics = createMetrics(() => this.#pool.figures)
    this.#listener = this.#createListener(onLost)
    this.#server = this.#createServer()
    this.#adminServer = this.#createAdminServer()
  }

  #createPool(now: () => number): Pool {
    const { dbUri, dbPool, dbPoolAcquisitionTimeout, dbPoolMaxLifetime, dbPoolMaxIdletime } = this.#base
    const settings = {
      address: connectionAddress(dbUri),
      size: this.#options.poolSize ?? dbPool,
      acquisitionTimeoutMs: dbPoolAcquisitionTimeout * 1_000,
      maximumLifetimeMs: dbPoolMaxLifetime * 1_000,
      maximumIdleMs: dbPoolMaxIdletime * 1_000,
    }
    return new Pool(settings, now)
  }

  #createListener(onLost: () => void): Listener | undefined {
    const { dbUri, dbChannelEnabled, dbChannel, dbPoolAutomaticRecovery, dbSchemaWatchInterval } = this.#base
    if (!dbChannelEnabled) return undefined
    return new Listener({
      address: connectionAddress(dbUri),
      channel: dbChannel,
      watchIntervalMs: dbSchemaWatchInterval * 1_000,
      logger: this.#options.logger,
      onDisconnected: () => dbPoolAutomaticRecovery || onLost(),
      onNotice: notice => void this.reload(notice === 'reload schema' ? 'schema' : 'everything'),
    })
  }

  #createServer(): Server {
    const { serverMaxBodyBytes, serverMaxHeaderBytes, serverMaxHeldBytes } = this.#base
    const { logger } = this.#options
    const [loader, pool, metrics] = [this.#loader, this.#pool, this.#metrics]
    const handler = new RequestHandler({ loader, pool, metrics, refusals: new RefusalLog(logger, pool), logger })
    return makeServer({
      product,
      maximumBodyBytes: serverMaxBodyBytes,
      maximumHeaderBytes: serverMaxHeaderBytes,
      maximumBufferedBytes: serverMaxHeldBytes,
      requests: this.#requests,
      rules: () => responseRules(this.#configuration),
      handle: handler.handle,
      // No request belongs to these errors, so the configured verbosity does not apply.
      renderError: error => errorResponse(restErrorOf(error, false), true),
      renderUnread: why => errorResponse(requestUnread(why, serverMaxHeaderBytes), true),
    })
  }

  #createAdminServer(): Server | undefined {
    if (this.#adminListenAddress === undefined) return undefined
    return makeAdminServer({
      isLive: () => this.#server.listening,
      isReady: this.isReady,
      hasAnswered: async () => (await this.#startup.run()) === undefined,
      metrics: () => this.registry.metrics(),
      configuration: this.#base.adminServerConfigEnabled ? this.configuration : undefined,
      schemaCache: this.schemaCache,
    })
  }

  get #adminListenAddress(): ListenAddress | undefined {
    return this.#options.admin === false ? undefined : adminListenAddress(this.#base)
  }

  get #configuration(): RestConfiguration {
    return this.#loader.state?.configuration ?? this.#base
  }

  /** @throws listen errors */
  async start(): Promise<void> {
    this.#address = await listen(this.#server, listenAddress(this.#base))
    this.#options.onListening?.(this.#address)
    try {
      const admin = this.#adminListenAddress
      if (this.#adminServer !== undefined && admin !== undefined) await listen(this.#adminServer, admin)
    } catch (error) {
      // The listening server would keep the process running.
      await this.stop()
      throw error
    }
    this.#samples = await runSamples(this.#options.samples, this.#sampled, this.#options.logger)
    await this.#listener?.start()
    void this.reload()
  }

  get #sampled() {
    const own = () => {
      const { size, open, idle, waiting, timeouts } = this.#pool.figures
      return { pool_size: size, pool_in_use: open - idle, pool_waiting: waiting, pool_timeouts: timeouts }
    }
    return { service: 'rest', requests: this.#requests, own } as const
  }

  get address(): AddressInfo | string {
    return this.#address
  }

  get adminAddress(): AddressInfo | undefined {
    const address = this.#adminServer?.address()
    return typeof address === 'object' && address !== null ? address : undefined
  }

  get registry(): Registry {
    return this.#metrics.registry
  }

  readonly isReady = (): boolean => {
    const { state, failure } = this.#loader
    return state !== undefined && failure === undefined && this.#listener?.isListening !== false
  }

  /** Sends an API request to the service itself. @returns why the request failed */
  async #probeItself(): Promise<string | undefined> {
    const at = this.#address
    if (!this.isReady() || at === '') return 'the database has not been read'
    const target = typeof at === 'string' ? { path: at } : { host: at.address, port: at.port }
    const { isReady, text } = await probeApi(targetOf(target))
    return isReady ? undefined : text
  }

  readonly configuration = (): string => describeConfiguration(this.#configuration)

  readonly schemaCache = async (): Promise<string | undefined> => {
    const { state } = this.#loader
    return state === undefined ? undefined : schemaCacheText(state.cache)
  }

  readonly reload = (scope: ReloadScope = 'everything'): Promise<void> => this.#loader.load(scope)

  readonly stop = async (): Promise<void> => {
    this.#listener?.stop()
    this.#loader.stop()
    const admin = this.#adminServer
    await Promise.all([
      closeServer(this.#server, 10_000),
      admin === undefined ? undefined : closeServer(admin, 1_000),
      this.#samples?.stop(),
    ])
    this.#pool.close()
  }
}

/** The headers that the server adds under this configuration. */
function responseRules(configuration: RestConfiguration): ResponseRules {
  const { keysetParameter, serverEtagEnabled, serverCorsAllowedOrigins: origins, serverTraceHeader } = configuration
  const own = [...(keysetParameter === undefined ? [] : ['Link']), ...(serverEtagEnabled ? ['ETag'] : [])]
  const cors = { origins, methods, exposedHeaders: [exposedHeaders, ...own].join(', ') }
  return { cors, traceHeader: serverTraceHeader }
}
