/**
 * Owns the state that requests are answered from: reads it when the service starts, again when it is told to, and again and again while the database cannot be
 * reached. What is there serves on until all of the new is read.
 */
import type { Logger } from 'pino'
import type { CacheEvent } from '../../authentication/index.ts'
import { nextBackoff } from '../../process/backoff.ts'
import type { Sources } from '../configuration/index.ts'
import { loadConfiguration, type RestConfiguration } from '../configuration/index.ts'
import { readDatabaseConfiguration, readRoleSettings, readSchemaCache } from './read-database.ts'
import { type ConfiguredState, configuredState, type State, stateOf } from './state.ts'

type LoaderOptions = {
  /** The configuration's sources, read anew each time. */
  readonly sources: () => Omit<Sources, 'database'>
  readonly logger: Logger
  readonly now: () => number
  /** Called where the database cannot be read and is not to be tried again. */
  readonly onLost: () => void
  /** Called with `log-level` whenever the configuration is read. */
  readonly onLogLevel: (level: RestConfiguration['logLevel']) => void
  /** Called with how a load of the schema cache went. */
  readonly onLoad: (succeeded: boolean, seconds: number) => void
  /** Called with what becomes of a token in the cache of tokens. */
  readonly onTokenCache: (event: CacheEvent) => void
}

/** What is read again: the configuration and the schema, or the schema alone. */
export type ReloadScope = 'everything' | 'schema'

/** Errors of Postgres and the network carry no secrets in their messages; configuration's name keys and rules only. */
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

  /** @throws what loadConfiguration throws */
  constructor(options: LoaderOptions) {
    this.#options = options
    this.#base = loadConfiguration(options.sources())
  }

  /** The configuration of file and environment; what cannot change while the service runs is taken from here. */
  get base(): RestConfiguration {
    return this.#base
  }
  /** Undefined until the first load. */
  get state(): State | undefined {
    return this.#state
  }
  /** Why the last load failed, while none has succeeded since. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Reads again; while a load is under way, once more after it. Resolves once it is done, or the service stops. */
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

  async #run(): Promise<void> {
    let backoffMs = nextBackoff(0)
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
        this.#options.logger.error(
          { reason: this.#failure },
          `could not read the database, trying again in ${backoffMs / 1_000} s`,
        )
        // Whatever is asked for meanwhile is asked for together with what has failed.
        this.#wanted = this.#wanted === 'everything' ? 'everything' : scope
        await this.#pause(backoffMs)
        backoffMs = nextBackoff(backoffMs)
      }
    }
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
    onLoad(true, (performance.now() - start) / 1_000)
    logger.info({ milliseconds: Math.round(performance.now() - start), at: now() }, 'the schema cache has been read')
  }

  /** Once for each set of names. The log-level is `error` by default, which would hide a warning. */
  #warnOfReadableSecrets(names: readonly string[]): void {
    const text = names.join(', ')
    if (text === this.#warnedOf) return
    this.#warnedOf = text
    if (names.length === 0) return
    this.#options.logger.error(
      { settings: names },
      'every login of this cluster can read these settings (pg_db_role_setting): move the secret to the file or the environment, ALTER ROLE ... RESET it, and replace it',
    )
  }

  /** A configuration that is wrong keeps the one before; without one before, it is tried again like a database that is away. */
  async #readConfiguration(): Promise<ConfiguredState> {
    const { sources, logger, now, onTokenCache } = this.#options
    try {
      this.#base = loadConfiguration(sources())
      this.#options.onLogLevel(this.#base.logLevel)
    } catch (error) {
      logger.error({ reason: reason(error) }, 'the configuration cannot be read again and stays as it was')
    }
    const database = this.#base.dbConfig ? await readDatabaseConfiguration(this.#base) : {}
    const roles = await readRoleSettings(this.#base)
    this.#warnOfReadableSecrets(roles.readableSecrets)
    try {
      return configuredState(loadConfiguration({ ...sources(), database }), roles, now, onTokenCache)
    } catch (error) {
      if (this.#configured === undefined) throw error
      logger.error({ reason: reason(error) }, 'the configuration is wrong and stays as it was')
      return this.#configured
    }
  }
}
