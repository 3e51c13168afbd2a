/**
 * The retrieval server: pipelines that answer questions from documents in Postgres, over HTTP. It needs only a
 * configuration and databases, and no other part of Espalier. It detects changes of its configuration by the content of
 * the files.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { type Certificate, readCertificate } from '../../server/certificate.ts'
import type { OwnFigures } from '../../server/samples.ts'
import { closeServer, listen } from '../http/listen.ts'
import { RequestFigures } from '../http/request-figures.ts'
import { followTls } from '../http/tls.ts'
import { isLocalAddress } from '../mcp-protocol/origin.ts'
import { runSamples, type SamplesAddress } from '../samples/index.ts'
import type { PipelineSettings, RagSettings, ServerSettings } from './configuration/types.ts'
import { FollowedFiles } from './follow.ts'
import { createPipeline, type PipelineParts } from './pipeline.ts'
import { type Pipeline, PipelineSet } from './pipelines.ts'
import { checkFilterTexts } from './search/filter-text.ts'
import { createRagServer, uncountedPaths } from './server/index.ts'
import { Metrics } from './server/metrics.ts'

type MakePipeline = (settings: PipelineSettings, parts: PipelineParts) => Pipeline

type RagOptions = {
  /** Reads the current settings, and reports each file that they depend on. */
  readonly read: (onFile: (path: string) => void) => RagSettings
  readonly logger: Logger
  /** For tests. */
  readonly makePipeline?: MakePipeline
  readonly now?: () => number
  /** How often the server checks the configuration files. */
  readonly intervalMs?: number
  /** The address that serves metric samples; undefined: none. */
  readonly samples?: SamplesAddress | undefined
}

export type RagService = {
  readonly address: AddressInfo
  /** Reads the configuration again, even if it has not changed. An invalid configuration changes nothing. */
  reload(): void
  stop(): Promise<void>
}

const usualIntervalMs = 1_000

/** A reload does not apply these settings, but all other settings. */
const fixed = ['host', 'port', 'tls'] as const

/**
 * The settings, and the files that they were read from. Files of a failed read are watched as well, because a missing
 * file may be created.
 */
class Configuration {
  readonly #read: RagOptions['read']
  readonly #paths = { settings: [] as readonly string[], all: [] as readonly string[] }

  constructor(read: RagOptions['read']) {
    this.#read = read
  }

  get paths(): readonly string[] {
    return this.#paths.all
  }

  /** @throws errors of reading the settings */
  read(): RagSettings {
    const found = new Set<string>()
    try {
      const settings = this.#read(path => found.add(path))
      this.#paths.settings = [...found]
      return settings
    } finally {
      this.#paths.all = [...new Set([...this.#paths.settings, ...found])]
    }
  }
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** @throws Error with the key, and the reason why its file cannot be read */
async function certificateOf(tls: ServerSettings['tls']): Promise<Certificate | undefined> {
  if (tls === undefined) return undefined
  try {
    return await readCertificate({ cert: tls.certificateFile, key: tls.keyFile })
  } catch (error) {
    const { path, code } = error as NodeJS.ErrnoException // the error type of reading a file
    const key = path === tls.keyFile ? 'key_file' : 'cert_file'
    throw new Error(`server.tls.${key}: cannot read ${path} (${code})`, { cause: error })
  }
}

type ListenAddress = Pick<ServerSettings, 'host' | 'port'> & { logger: Logger }

/** @throws Error with the port, and the reason why it cannot be used */
async function listenAt(server: Server, { host, port, logger }: ListenAddress): Promise<AddressInfo> {
  const address = await listen(server, { host, port }).catch((error: unknown) => {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    const hint = isTaken ? "; another program uses it, such as Espalier's API: set another port" : ''
    throw new Error(`server.port: cannot listen on port ${port} of ${host}: ${reasonOf(error)}${hint}`, {
      cause: error,
    })
  })
  if (typeof address === 'string') throw new Error('the server listens on no port')
  if (isLocalAddress(host))
    logger.info({ host }, 'listening for this machine only; to change this, set server.listen_address')
  else
    logger.warn(
      { host },
      'there is no authentication: every client that can reach this address can ask and read sources',
    )
  return address
}

function figuresOf({ totals }: Metrics, pipelines: PipelineSet): OwnFigures<'rag'> {
  const pools = pipelines.all().map(({ pool }) => pool)
  const sum = (read: (pool: (typeof pools)[number]) => number) => pools.reduce((total, pool) => total + read(pool), 0)
  return {
    tokens_embedding: totals.embedding,
    tokens_rerank: totals.rerank,
    tokens_prompt: totals.prompt,
    tokens_completion: totals.completion,
    provider_errors: totals.providerErrors,
    pool_size: sum(({ size }) => size),
    pool_in_use: sum(({ open, idle }) => open - idle),
    pool_waiting: sum(({ waiting }) => waiting),
  }
}

/** @throws ConfigurationError; Error if the server cannot listen or cannot read a certificate file */
export async function startRag(options: RagOptions): Promise<RagService> {
  const { logger, now = Date.now, intervalMs = usualIntervalMs, makePipeline = createPipeline } = options
  const configuration = new Configuration(options.read)
  let settings = configuration.read()
  await checkFilterTexts(settings.pipelines)
  const { host, port, tls } = settings.server
  const certificate = await certificateOf(tls)
  const metrics: Metrics = new Metrics(() => pipelines)
  /** A child logger keeps the level from its creation, so a level change needs a new logger. */
  const loggers = new Map<string, Logger>()
  function loggerOf(name: string): Logger {
    const own = loggers.get(name) ?? logger.child({ pipeline: name })
    loggers.set(name, own)
    return own
  }
  const pipelines = new PipelineSet(
    one => makePipeline(one, { logger: loggerOf(one.name), metrics, now }),
    error => logger.warn({ err: error }, 'a pipeline was not closed cleanly'),
  )
  pipelines.replace(settings.pipelines)

  function apply(next: RagSettings): void {
    const { added, changed, removed } = pipelines.replace(next.pipelines)
    const started = settings.server
    const waiting = fixed.filter(name => JSON.stringify(next.server[name]) !== JSON.stringify(started[name]))
    // Settings that are not applied keep their old values, so that each reload reports them again.
    settings = { ...next, server: { ...next.server, host: started.host, port: started.port, tls: started.tls } }
    for (const one of [logger, ...loggers.values()]) one.level = next.logLevel
    for (const name of removed) {
      loggers.delete(name)
      void metrics.forget(name)
    }
    if (waiting.length > 0)
      logger.warn({ settings: waiting }, 'these settings of the server take effect after a restart')
    if (added.length + changed.length + removed.length > 0)
      logger.info({ added, changed, removed }, 'the configuration has changed and is applied')
  }

  let latestReading = 0

  /**
   * Checking filters takes a moment. Settings are not applied if a later read or the shutdown has started in the
   * meantime.
   */
  async function readAndApply(): Promise<void> {
    latestReading += 1
    const reading = latestReading
    try {
      const next = configuration.read()
      await checkFilterTexts(next.pipelines)
      if (reading !== latestReading) return
      apply(next)
      metrics.reload(true)
    } catch (error) {
      if (reading !== latestReading) return
      metrics.reload(false)
      logger.error(
        { reason: reasonOf(error) },
        'the configuration is invalid; the previous configuration still applies',
      )
    }
  }
  const reload = () => void readAndApply()
  const requests = new RequestFigures(uncountedPaths)
  const currentSettings = () => settings.server
  const parts = { pipelines, metrics, requests, logger, now, tls: certificate, settings: currentSettings }
  const server = createRagServer(parts)
  const address = await listenAt(server, { host, port, logger }).catch(async (error: unknown) => {
    await pipelines.close()
    throw error
  })
  const following =
    tls &&
    certificate &&
    followTls(server, { files: { cert: tls.certificateFile, key: tls.keyFile }, current: certificate, logger })
  const own = () => figuresOf(metrics, pipelines)
  const samples = await runSamples(options.samples, { service: 'rag', requests, own, now }, logger)
  const files = new FollowedFiles({ paths: () => configuration.paths, onChange: reload, intervalMs })
  return {
    address,
    reload,
    async stop() {
      files.stop()
      latestReading += 1
      following?.stop()
      const sampling = samples?.stop()
      // Running requests have this long to complete.
      await closeServer(server, settings.server.requestTimeoutMs)
      await sampling
      await pipelines.close()
    },
  }
}
