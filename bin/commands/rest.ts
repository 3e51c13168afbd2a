/** `espalier rest`: the REST data service, by itself. */
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { stopSignal } from '../../server/signals.ts'
import { readConfigurationFile } from '../../services/configuration/file.ts'
import { reportProbe } from '../../services/http/probe.ts'
import { isWorker, leaveWorkers, workerStopSignal } from '../../services/process/workers.ts'
import {
  describeConfiguration,
  exampleConfiguration,
  loadConfiguration,
} from '../../services/rest/configuration/index.ts'
import { unreadVariables } from '../../services/rest/configuration/unread.ts'
import { type ReloadScope, startRest } from '../../services/rest/index.ts'
import { probeReadiness } from '../../services/rest/readiness.ts'
import { serveRestAsWorker, startRestWorkers } from '../../services/rest/workers.ts'
import { type Command, UsageError } from '../command.ts'

const help = `Serves the schemas of a Postgres database over HTTP, as PostgREST does.

Usage: espalier rest [--dump-config | --ready] [CONFIG]
       espalier rest --example

  CONFIG  a file of "key = value" lines (docs/rest.md lists the keys)
  --dump-config  prints the configuration of file and environment, without secrets, and ends
  --ready        asks a service with this configuration, and its admin server for /ready, and ends with 0 if it is ready, else with 1
  --example      prints a file with every key and its default, and ends

Environment: ESPALIER_REST_<KEY> wins over the file, as ESPALIER_REST_DB_URI over db-uri.
SIGHUP reads configuration and schema cache again, SIGUSR1 the schema cache, SIGUSR2 the configuration.`

const levels = { crit: 'fatal', error: 'error', warn: 'warn', info: 'info', debug: 'debug' } as const

/** Reads configuration and schema again when a signal says so. */
function reloadOnSignals(reload: (scope: ReloadScope) => void): void {
  process.on('SIGHUP', () => reload('everything'))
  process.on('SIGUSR1', () => reload('schema'))
  process.on('SIGUSR2', () => reload('everything'))
}

/** Not by the logger, whose level may be the very thing that was set there. */
function tellOfUnread(variables: readonly string[]): void {
  if (variables.length > 0)
    console.error(`espalier rest does not read ${variables.join(', ')}: its variables begin with ESPALIER_REST_`)
}

/** As a client would write it. */
const shown = (address: AddressInfo | string): string => {
  if (typeof address === 'string') return address
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return `http://${host}:${address.port}`
}

const longestFarewellMs = 2_000

/** A service that has stopped cancels its queries, but does not wait for a database that no longer answers. */
function exitInTime(code: number): number {
  setTimeout(() => process.exit(code), longestFarewellMs).unref()
  return code
}

/** @returns the exit code, once it has been stopped */
async function serve(args: string[]): Promise<number> {
  const dumps = args.includes('--dump-config')
  const probes = args.includes('--ready')
  if (args.length === 1 && args[0] === '--example') {
    process.stdout.write(exampleConfiguration())
    return 0
  }
  if (dumps && probes) throw new UsageError('--dump-config and --ready exclude each other; --help tells more')
  const [path, ...rest] = args.filter(argument => argument !== '--dump-config' && argument !== '--ready')
  const flag = [path, ...rest].find(argument => argument?.startsWith('-'))
  if (flag !== undefined) throw new UsageError(`${flag} is not a flag of this command; --help tells more`)
  if (rest.length > 0) throw new UsageError('one configuration file at most; --help tells more')
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
  if (!isWorker) tellOfUnread(unreadVariables(first.file ?? '', first.environment))
  const logger = pino({ level: levels[logLevel] }, pino.destination({ dest: 2, sync: false }))
  const stopped = isWorker ? workerStopSignal() : stopSignal()
  let onLost = () => {}
  const lost = new Promise<'lost'>(resolve => {
    onLost = () => resolve('lost')
  })
  /** 1 where the service is of no use any more, by its own judgement. */
  const ended = async () => ((await Promise.race([stopped, lost])) === 'lost' ? 1 : 0)
  const onLogLevel = (level: keyof typeof levels) => {
    logger.level = levels[level]
  }
  const options = { sources, logger, onLost, onLogLevel }
  if (isWorker) return exitInTime(await serveRestAsWorker(options, ended()))
  // What starts reads everything as it is.
  let reload: (scope: ReloadScope) => void = () => {}
  reloadOnSignals(scope => reload(scope))
  const service = await (serverWorkers > 1 ? startRestWorkers(options) : startRest(options))
  console.log(
    `espalier rest listens on ${shown(service.address)}${serverWorkers > 1 ? `, ${serverWorkers} workers` : ''}`,
  )
  reload = scope => void service.reload(scope)
  const code = await ended()
  await service.stop()
  return exitInTime(code)
}

const command: Command = {
  summary: 'serve a database over HTTP, as PostgREST does',
  help,
  async run(args) {
    try {
      return await serve(args)
    } finally {
      leaveWorkers()
    }
  },
}
export default command
