/** `espalier rest`: runs the REST data service without the operator. */
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { stopSignal } from '../../server/signals.ts'
import { readConfigurationFile } from '../../services/configuration/file.ts'
import { reportProbe } from '../../services/http/probe.ts'
import { disconnectWorkers, isWorker, workerStopSignal } from '../../services/process/workers.ts'
import {
  describeConfiguration,
  exampleConfiguration,
  loadConfiguration,
} from '../../services/rest/configuration/index.ts'
import { unreadVariables } from '../../services/rest/configuration/unread.ts'
import { type ReloadScope, startRest } from '../../services/rest/index.ts'
import { probeReadiness } from '../../services/rest/readiness.ts'
import { serveRestAsWorker, startRestWorkers } from '../../services/rest/workers.ts'
import { samplesAddress } from '../../services/samples/index.ts'
import { type Command, UsageError } from '../command.ts'

const help = `Serves the schemas of a Postgres database over HTTP, as PostgREST does.

Usage: espalier rest [--dump-config | --ready] [CONFIG]
       espalier rest --example

  CONFIG  a file of "key = value" lines (docs/rest.md lists the keys)
  --dump-config  prints the configuration from file and environment, without secrets
  --ready        asks a running service with this configuration whether it is ready (/ready of its admin server); exits with 0 if it is, else with 1
  --example      prints a file with every key and its default

Environment: ESPALIER_REST_<KEY> overrides the file, for example ESPALIER_REST_DB_URI for db-uri.
SIGHUP and SIGUSR2 reload the configuration and the schema cache, SIGUSR1 only the schema cache.`

const levels = { crit: 'fatal', error: 'error', warn: 'warn', info: 'info', debug: 'debug' } as const

/** Reloads everything, or only the schema cache, on a signal. */
function reloadOnSignals(reload: (scope: ReloadScope) => void): void {
  process.on('SIGHUP', () => reload('everything'))
  process.on('SIGUSR1', () => reload('schema'))
  process.on('SIGUSR2', () => reload('everything'))
}

/** Prints the warning without the logger, because one of these variables may be meant to set the log level. */
function warnOfUnread(variables: readonly string[]): void {
  if (variables.length > 0)
    console.error(`espalier rest ignores ${variables.join(', ')}: its variables begin with ESPALIER_REST_`)
}

/** Returns the URL that a client uses, or the path of a Unix socket. */
const addressText = (address: AddressInfo | string): string => {
  if (typeof address === 'string') return address
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return `http://${host}:${address.port}`
}

const exitGraceMs = 2_000

/** Limits the time until the exit: a stopped service cancels its queries, but the database may no longer respond. */
function exitInTime(code: number): number {
  setTimeout(() => process.exit(code), exitGraceMs).unref()
  return code
}

/** @returns the exit code, after the service has stopped */
async function serve(args: string[]): Promise<number> {
  const dumps = args.includes('--dump-config')
  const probes = args.includes('--ready')
  if (args.length === 1 && args[0] === '--example') {
    process.stdout.write(exampleConfiguration())
    return 0
  }
  if (dumps && probes) throw new UsageError('--dump-config and --ready cannot be combined; see --help')
  const [path, ...rest] = args.filter(argument => argument !== '--dump-config' && argument !== '--ready')
  const flag = [path, ...rest].find(argument => argument?.startsWith('-'))
  if (flag !== undefined) throw new UsageError(`unknown flag ${flag}; see --help`)
  if (rest.length > 0) throw new UsageError('only one configuration file is allowed; see --help')
  const sources = () => ({
    ...(path === undefined ? {} : { file: readConfigurationFile(path).text }),
    environment: process.env,
    readFile: (name: string) => readFileSync(name),
  })
  const first = sources()
  const configuration = loadConfiguration(first)
  if (dumps) {
    process.stdout.write(describeConfiguration(configuration))
    return 0
  }
  if (probes) {
    return reportProbe(await probeReadiness(configuration))
  }
  const { logLevel, serverWorkers } = configuration
  if (!isWorker) warnOfUnread(unreadVariables(first.file ?? '', first.environment))
  const logger = pino({ level: levels[logLevel] }, pino.destination({ dest: 2, sync: false }))
  const stopped = isWorker ? workerStopSignal() : stopSignal()
  let onLost = () => {}
  const lost = new Promise<'lost'>(resolve => {
    onLost = () => resolve('lost')
  })
  /** Resolves with 0 after a stop signal, or with 1 if the service reports that it cannot recover. */
  const ended = async () => ((await Promise.race([stopped, lost])) === 'lost' ? 1 : 0)
  const onLogLevel = (level: keyof typeof levels) => {
    logger.level = levels[level]
  }
  const options = { sources, logger, onLost, onLogLevel }
  if (isWorker) return exitInTime(await serveRestAsWorker(options, ended()))
  // During the start, a reload has no effect: the service then reads the current configuration and schema anyway.
  let reload: (scope: ReloadScope) => void = () => {}
  reloadOnSignals(scope => reload(scope))
  const service = await (serverWorkers > 1
    ? startRestWorkers(options)
    : startRest({ ...options, samples: samplesAddress(process.env) }))
  console.log(
    `espalier rest listens on ${addressText(service.address)}${serverWorkers > 1 ? `, ${serverWorkers} workers` : ''}`,
  )
  reload = scope => void service.reload(scope)
  const code = await ended()
  await service.stop()
  return exitInTime(code)
}

const command: Command = {
  help,
  async run(args) {
    try {
      return await serve(args)
    } finally {
      disconnectWorkers()
    }
  },
}
export default command
