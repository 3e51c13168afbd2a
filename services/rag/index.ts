/**
 * The retrieval server: pipelines that answer questions from documents in Postgres, over HTTP. A server of its own: it needs a configuration and databases, and nothing else of
 * this project. It follows its configuration by the content of the files.
 */
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { type Certificate, readCertificate } from '../../server/certificate.ts'
import { closeServer, listen } from '../http/listen.ts'
import { followTls } from '../http/tls.ts'
import { isLocalAddress } from '../mcp-protocol/origin.ts'
import type { PipelineSettings, RagSettings, ServerSettings } from './configuration/types.ts'
import { FollowedFiles } from './follow.ts'
import { createPipeline, type PipelineParts } from './pipeline.ts'
import { type Pipeline, PipelineSet } from './pipelines.ts'
import { checkFilterTexts } from './search/filter-text.ts'
import { createRagServer } from './server/index.ts'
import { Metrics } from './server/metrics.ts'

type MakePipeline = (settings: PipelineSettings, parts: PipelineParts) => Pipeline

type RagOptions = {
  /** Reads the settings as they are now, and reports each file that they depend on. */
  readonly read: (onFile: (path: string) => void) => RagSettings
  readonly logger: Logger
  /** For tests. */
  readonly makePipeline?: MakePipeline
  readonly now?: () => number
  /** How often the files of the configuration are looked at. */
  readonly intervalMs?: number
}

export type RagService = {
  readonly address: AddressInfo
  /** Reads the configuration again, whether it has changed or not; one that is wrong changes nothing. */
  reload(): void
  stop(): Promise<void>
}

const usualIntervalMs = 1_000

/** A reload applies the others. */
const fixed = ['host', 'port', 'tls'] as const

/** The settings, and the files that they were read from. Files of a reading that failed are followed as well: the one that is missing may come. */
class Configuration {
  readonly #read: RagOptions['read']
  readonly #paths = { settings: [] as readonly string[], all: [] as readonly string[] }

  constructor(read: RagOptions['read']) {
    this.#read = read
  }

  get paths(): readonly string[] {
    return this.#paths.all
  }

  /** @throws what reading throws */
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

/** @throws Error that names the key and why its file cannot be read */
async function certificateOf(tls: ServerSettings['tls']): Promise<Certificate | undefined> {
  if (tls === undefined) return undefined
  try {
    return await readCertificate({ cert: tls.certificateFile, key: tls.keyFile })
  } catch (error) {
    const { path, code } = error as NodeJS.ErrnoException // what reading a file fails with
    const key = path === tls.keyFile ? 'key_file' : 'cert_file'
    throw new Error(`server.tls.${key}: ${path} cannot be read (${code})`, { cause: error })
  }
}

/** @throws ConfigurationError; Error where it cannot listen, or a file of its certificate cannot be read */
export async function startRag(options: RagOptions): Promise<RagService> {
  const { logger, now = Date.now, intervalMs = usualIntervalMs, makePipeline = createPipeline } = options
  const configuration = new Configuration(options.read)
  let settings = configuration.read()
  await checkFilterTexts(settings.pipelines)
  const { host, port, tls } = settings.server
  const certificate = await certificateOf(tls)
  const metrics: Metrics = new Metrics(() => pipelines)
  /** A child of a logger keeps the level that it was made with. */
  const loggers = new Map<string, Logger>()
  function loggerOf(name: string): Logger {
    const own = loggers.get(name) ?? logger.child({ pipeline: name })
    loggers.set(name, own)
    return own
  }
  const pipelines = new PipelineSet(
    one => makePipeline(one, { logger: loggerOf(one.name), metrics, now }),
    error => logger.warn({ err: error }, 'a pipeline was not closed in order'),
  )
  pipelines.replace(settings.pipelines)

  function apply(next: RagSettings): void {
    const { added, changed, removed } = pipelines.replace(next.pipelines)
    const started = settings.server
    const waiting = fixed.filter(name => JSON.stringify(next.server[name]) !== JSON.stringify(started[name]))
    // What is not applied stays what it was, so that each reload says so.
    settings = { ...next, server: { ...next.server, host: started.host, port: started.port, tls: started.tls } }
    for (const one of [logger, ...loggers.values()]) one.level = next.logLevel
    for (const name of removed) {
      loggers.delete(name)
      void metrics.forget(name)
    }
    if (waiting.length > 0)
      logger.warn({ settings: waiting }, 'these settings of the server take effect at its next start')
    if (added.length + changed.length + removed.length > 0)
      logger.info({ added, changed, removed }, 'the configuration has changed and is applied')
  }

  let latestReading = 0

  /** A check of filters takes a moment: what was read before another reading, or before the end, is no longer applied. */
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
      logger.error({ reason: reasonOf(error) }, 'the configuration is wrong; the one before stays applied')
    }
  }
  const reload = () => void readAndApply()

  const server = createRagServer({ pipelines, metrics, logger, now, tls: certificate, settings: () => settings.server })
  const address = await listen(server, { host, port }).catch(async (error: unknown) => {
    await pipelines.close()
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    const hint = isTaken ? '; another program has it, such as the API of this project: set another port' : ''
    throw new Error(`server.port: cannot listen on port ${port} of ${host}: ${reasonOf(error)}${hint}`, {
      cause: error,
    })
  })
  if (typeof address === 'string') throw new Error('the server listens on no port')
  if (isLocalAddress(host))
    logger.info({ host }, 'listening for this machine only; server.listen_address says otherwise')
  else
    logger.warn({ host }, 'there is no authentication: every client that reaches this address can ask and read sources')
  const following =
    tls &&
    certificate &&
    followTls(server, { files: { cert: tls.certificateFile, key: tls.keyFile }, current: certificate, logger })
  const files = new FollowedFiles({ paths: () => configuration.paths, onChange: reload, intervalMs })
  return {
    address,
    reload,
    async stop() {
      files.stop()
      latestReading += 1
      following?.stop()
      // A request that is answered has that time, and no longer.
      await closeServer(server, settings.server.requestTimeoutMs)
      await pipelines.close()
    },
  }
}
