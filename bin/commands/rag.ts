/** `espalier rag`: runs the retrieval server. Its subcommands use the pipelines of the server's configuration. */
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { stopSignal } from '../../server/signals.ts'
import { reportProbe } from '../../services/http/probe.ts'
import { logLines } from '../../services/process/log-lines.ts'
import { probeRag } from '../../services/rag/readiness.ts'
import { samplesAddress } from '../../services/samples/index.ts'
import { type Command, UsageError } from '../command.ts'
import { readDashFlags } from '../dash-flags.ts'
import { configurationPath, readSettings } from './rag/command.ts'

/** The subcommands. Each module is loaded only when its subcommand runs. */
const subcommands: Record<string, () => Promise<{ default: Command }>> = {
  load: () => import('./rag/load.ts'),
  ask: () => import('./rag/ask.ts'),
  evaluate: () => import('./rag/evaluate.ts'),
}

const help = `Answers questions from documents in Postgres, over HTTP: searches by vectors and words, and calls a language model.

Usage: espalier rag CONFIG             serves the pipelines of a YAML file (docs/rag.md lists its keys)
       espalier rag --ready CONFIG     exits with 0 if a server with this configuration reaches its databases, else with 1
       espalier rag --openapi          prints the OpenAPI description of the HTTP API
       espalier rag load CONFIG PIPELINE FILES...
                                      loads documents
       espalier rag ask CONFIG PIPELINE "QUESTION"
                                      asks a question in the terminal
       espalier rag evaluate CONFIG PIPELINE --queries FILE --judgements FILE
                                      measures retrieval quality
       espalier rag load|ask|evaluate --help shows the options of each

  -config FILE   same as CONFIG (default: /etc/espalier/espalier-rag.yaml, else espalier-rag.yaml in the working directory)

The server has no authentication: it listens on 127.0.0.1 unless server.listen_address is set.
A change of CONFIG, or of a key file that it names, is applied while the server runs; SIGHUP applies it at once.`

const subcommandOf = ([name = '']: readonly string[]) =>
  Object.hasOwn(subcommands, name) ? subcommands[name] : undefined

/** Returns the URL that a client uses. */
const urlOf = ({ family, address, port }: AddressInfo, isTls: boolean): string =>
  `${isTls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${port}`

const exitGraceMs = 2_000

async function serve(path: string): Promise<void> {
  // Reports configuration errors as every command does, before the log exists.
  const first = readSettings(path)
  const logger = pino({ level: first.logLevel }, logLines())
  const stopped = stopSignal()
  const { startRag } = await import('../../services/rag/index.ts')
  const service = await startRag({
    read: onFile => readSettings(path, onFile),
    logger,
    samples: samplesAddress(process.env),
  })
  process.on('SIGHUP', () => service.reload())
  console.log(`espalier rag listens on ${urlOf(service.address, first.server.tls !== undefined)}`)
  await stopped
  await service.stop()
  // Exits even if a database or another peer no longer responds.
  setTimeout(() => process.exit(0), exitGraceMs).unref()
}

async function printDescription(): Promise<void> {
  const { openApi } = await import('../../services/rag/server/openapi.ts')
  console.log(JSON.stringify(openApi, undefined, 2))
}

async function runServer(args: readonly string[]): Promise<number> {
  const isProbe = args.includes('--ready')
  const [first, ...others] = args.filter(argument => argument !== '--ready')
  const isNamed = first !== undefined && !first.startsWith('-')
  const flags = readDashFlags(isNamed || first === undefined ? others : [first, ...others], {
    config: 'value',
    openapi: 'switch',
  })
  const named = isNamed ? first : flags.get('config')
  if (isNamed && flags.has('config')) throw new UsageError('-config and CONFIG cannot be combined')
  if (flags.get('openapi') === true) {
    await printDescription()
    return 0
  }
  const path = configurationPath(typeof named === 'string' ? named : undefined)
  if (isProbe) return reportProbe(await probeRag(readSettings(path).server))
  await serve(path)
  return 0
}

const command: Command = {
  help,
  async helpFor(args) {
    return (await subcommandOf(args)?.())?.default.help
  },
  async run(args) {
    const subcommand = subcommandOf(args)
    return subcommand === undefined ? await runServer(args) : await (await subcommand()).default.run(args.slice(1))
  },
}
export default command
