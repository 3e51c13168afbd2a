/**
 * Owns the state from which requests are answered. Loads it at the start, on request, and repeatedly while the database
 * is unreachable. The service uses the old state until the new state is complete.
 */
import type { Logger } from 'pino'
import type { CacheEvent } from '../../authentication/index.ts'
import { nextBackoff, startupBackoff } from '../../process/backoff.ts'
import type { Sources } from '../configuration/index.ts'
import { loadConfiguration, type RestConfiguration } from '../configuration/index.ts'
import { readDatabaseConfiguration, readRoleSettings, readSchemaCache } from './read-database.ts'
import { type ConfiguredState, configuredState, type State, stateOf } from './state.ts'

type LoaderOptions = {
  /** The configuration's sources. Each load reads them again. */
  readonly sources: () => Omit<Sources, 'database'>
  readonly logger: Logger
  readonly now: () => number
  /** Called if the database cannot be read and retries are disabled. */
  readonly onLost: () => void
  /** Called with `log-level` each time the configuration is loaded. */
  readonly onLogLevel: (level: RestConfiguration['logLevel']) => void
  /** Called with the result of each load of the schema cache. */
  readonly onLoad: (succeeded: boolean, seconds: number) => void
  /** Called with the hits and evictions of the token cache. */
  readonly onTokenCache: (event: CacheEvent) => void
}

/** What to reload: the configuration and the schema, or only the schema. */
export type ReloadScope = 'everything' | 'schema'

/**
 * Error messages of Postgres and the network contain no secrets. The configuration's error messages contain only keys
 * and rules.
 */
const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error))

export class Loader {
  readonly #options: LoaderOptions
  readonly #stop = new AbortController()
  #base: RestConfiguration
  #warnedOf = ''
  #configured: ConfiguredState | undefined
  #state: State | undefined
  #wanted: ReloadScope | undefined
  #running: Promise<void> | undefined
  #failure: string | undefined
  #retriedFor: string | undefined
  readonly #begunAt = performance.now()

  /** @throws what loadConfiguration throws */
  constructor(options: LoaderOptions) {
    this.#options = options
    this.#base = loadConfiguration(options.sources())
  }

  /** The configuration from file and environment. Settings that cannot change at run time are read from here. */
  get base(): RestConfiguration {
    return this.#base
  }
  /** Undefined until the first load. */
  get state(): State | undefined {
    return this.#state
  }
  /** Why the last load failed. Undefined after a load has succeeded. */
  get failure(): string | undefined {
    return this.#failure
  }

  /**
   * Reloads. If a load is in progress, runs once more after it. Resolves when the reload is complete, or when the
   * service stops.
   */
  load(scope: ReloadScope): Promise<void> {
    this.#wanted = this.#wanted === 'everything' ? 'everything' : scope
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  stop(): void {
    this.#stop.abort()
  }

  #backoffAfter(lastMs: number): number {
    return this.#state === undefined ? startupBackoff(performance.now() - this.#begunAt, lastMs) : nextBackoff(lastMs)
  }

  async #run(): Promise<void> {
    let backoffMs = this.#backoffAfter(0)
    while (this.#wanted !== undefined && !this.#stop.signal.aborted) {
      const scope = this.#wanted
      this.#wanted = undefined
      try {
        await this.#read(scope)
        backoffMs = nextBackoff(0)
      } catch (error) {
        this.#failure = reason(error)
        if (!this.#base.dbPoolAutomaticRecovery) {
          this.#options.logger.fatal(
            { reason: this.#failure },
            'could not read the database, and db-pool-automatic-recovery is off',
          )
          this.#options.onLost()
          return
        }
        this.#logRetry(this.#failure, backoffMs)
        // Merges the reloads that were requested meanwhile with the failed load.
        this.#wanted = this.#wanted === 'everything' ? 'everything' : scope
        await this.#pause(backoffMs)
        backoffMs = this.#backoffAfter(backoffMs)
      }
    }
  }

  /** Retries with a delay below a second are logged only if the reason differs from the previous retry's. */
  #logRetry(reason: string, backoffMs: number): void {
    const isKnown = this.#retriedFor === reason && backoffMs < 1_000
    this.#retriedFor = reason
    if (!isKnown)
      this.#options.logger.error({ reason }, `could not read the database, retrying in ${backoffMs / 1_000} s`)
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms)
      this.#stop.signal.addEventListener('abort', () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  async #read(scope: ReloadScope): Promise<void> {
    const { logger, now, onLoad } = this.#options
    if (scope === 'everything' || this.#configured === undefined) this.#configured = await this.#readConfiguration()
    const start = performance.now()
    try {
      const cache = await readSchemaCache(this.#configured.configuration)
      this.#state = stateOf(this.#configured, cache, this.#state)
    } catch (error) {
      onLoad(false, (performance.now() - start) / 1_000)
      throw error
    }
    this.#failure = undefined
    this.#retriedFor = undefined
    onLoad(true, (performance.now() - start) / 1_000)
    logger.info({ milliseconds: Math.round(performance.now() - start), at: now() }, 'schema cache loaded')
  }

  /** Logs each set of names once. It logs an error, because the default log-level `error` hides warnings. */
  #warnOfReadableSecrets(names: readonly string[]): void {
    const text = names.join(', ')
    if (text === this.#warnedOf) return
    this.#warnedOf = text
    if (names.length === 0) return
    this.#options.logger.error(
      { settings: names },
      'every role can read these settings in pg_db_role_setting: move the secret to the file or environment, reset the setting (ALTER ROLE or ALTER DATABASE), and replace the secret',
    )
  }

  /**
   * If the configuration is invalid, the previous configuration remains in use. Without a previous configuration,
   * loading is retried as if the database were unreachable.
   */
  async #readConfiguration(): Promise<ConfiguredState> {
    const { sources, logger, now, onTokenCache } = this.#options
    try {
      this.#base = loadConfiguration(sources())
      this.#options.onLogLevel(this.#base.logLevel)
    } catch (error) {
      logger.error({ reason: reason(error) }, 'the configuration cannot be loaded; the previous one remains in use')
    }
    const database = this.#base.dbConfig ? await readDatabaseConfiguration(this.#base) : {}
    const roles = await readRoleSettings(this.#base)
    this.#warnOfReadableSecrets(roles.readableSecrets)
    try {
      return configuredState(loadConfiguration({ ...sources(), database }), roles, now, onTokenCache)
    } catch (error) {
      if (this.#configured === undefined) throw error
      logger.error({ reason: reason(error) }, 'the configuration is invalid; the previous one remains in use')
      return this.#configured
    }
  }
}
