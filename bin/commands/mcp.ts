/** `espalier mcp`: the tool server for Postgres, over stdio or HTTP; and its tokens and users. */
import { existsSync, readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { type Logger, pino } from 'pino'
import { stopSignal } from '../../server/signals.ts'
import type { Sources } from '../../services/configuration/declaration.ts'
import { readConfigurationFile } from '../../services/configuration/file.ts'
import { reportProbe } from '../../services/http/probe.ts'
import { readCredentialPaths, readDatabaseNames, readMcpSettings } from '../../services/mcp/configuration/index.ts'
import type { HttpSettings, McpSettings } from '../../services/mcp/configuration/types.ts'
import { initialiseCredentials } from '../../services/mcp/credentials/initial.ts'
import type { McpService } from '../../services/mcp/index.ts'
import { probeTools } from '../../services/mcp-protocol/probe.ts'
import { logLines } from '../../services/process/log-lines.ts'
import { askPassword } from '../ask-password.ts'
import { type Command, UsageError } from '../command.ts'
import { type FlagKinds, readDashFlags } from '../dash-flags.ts'
import { administer, credentialAction, credentialFlags } from '../mcp-credentials.ts'

const help = `Serves Postgres databases to language models (Model Context Protocol), over stdio or HTTP.

Usage: espalier mcp [options]            serves over stdio, or with -http over HTTP
       espalier mcp -ready [options]     asks a server with these options over HTTP, and ends with 0 if it reads from its database
       espalier mcp -add-token [options]  and other actions on tokens and users

  -config FILE        a YAML file (docs/mcp.md lists the keys; default: /etc/espalier/mcp.yaml, if it is there)
  -http               serve POST /mcp/v1 and the helper API over HTTP
  -addr HOST:PORT     where (default: :8080; with -no-auth 127.0.0.1:8080)
  -tls -cert FILE -key FILE -chain FILE
                      with TLS
  -no-auth            let everybody in: for development only
  -ready-token-file FILE
                      holds the token with which -ready asks
  -token-file FILE, -user-file FILE
                      where tokens and users are kept
  -db-host, -db-port, -db-name, -db-database, -db-user, -db-sslmode
                      the first database
  -debug              log more

Tokens (the token itself goes to standard output, once):
  -add-token [-token-note TEXT] [-token-expiry 30d|1y|2w|12h|never] [-token-database NAME]
  -list-tokens
  -remove-token ID    by its id, or by the first digits of its hash

Users (a password is asked for, or read from standard input):
  -add-user -username NAME [-password PASSWORD] [-user-note TEXT] [-user-databases NAME,...]
  -update-user -username NAME [-password PASSWORD] [-user-note TEXT] [-user-databases NAME,...|*]
  -delete-user, -enable-user, -disable-user -username NAME
  -list-users

Environment: ESPALIER_DB_HOST and others win over the file, PGHOST and others fill in what it leaves out. INIT_TOKENS and
INIT_USERS make the credential files at the first start over HTTP. SIGHUP reads the databases again.`

const serverFlags: FlagKinds = {
  ...{ config: 'value', http: 'switch', addr: 'value', tls: 'switch', cert: 'value', key: 'value', chain: 'value' },
  ...{ 'no-auth': 'switch', debug: 'switch', 'token-file': 'value', 'user-file': 'value' },
  ...{ 'db-host': 'value', 'db-port': 'value', 'db-name': 'value', 'db-database': 'value', 'db-user': 'value' },
  ...{ 'db-sslmode': 'value', ready: 'switch', 'ready-token-file': 'value' },
}
type Flags = ReadonlyMap<string, string | true>

const usualFile = '/etc/espalier/mcp.yaml'

/** As they are at this moment. */
function sourcesOf(flags: Flags): Sources {
  const named = flags.get('config')
  const path = typeof named === 'string' ? named : existsSync(usualFile) ? usualFile : undefined
  return {
    file: path === undefined ? undefined : readConfigurationFile(path),
    environment: process.env,
    flags,
    readFile: name => readFileSync(name),
  }
}

/** As a client would write it. */
const shown = ({ family, address, port }: AddressInfo, isTls: boolean): string =>
  `${isTls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${port}`

/** Another list of databases where SIGHUP says so; one that is wrong changes nothing. */
function reloadOnSignal(flags: Flags, service: McpService, logger: Logger): void {
  process.on('SIGHUP', () => {
    try {
      const databases = readMcpSettings(sourcesOf(flags)).databases
      service.setDatabases(databases)
      logger.info({ databases: databases.map(({ name }) => name) }, 'the databases have been read again')
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      logger.error({ reason }, 'the databases stay as they were')
    }
  })
}

async function serveHttp(flags: Flags, settings: McpSettings, http: HttpSettings, logger: Logger): Promise<void> {
  const stopped = stopSignal()
  const { enabled, tokenFile, userFile } = http.authentication
  if (enabled) await initialiseCredentials({ tokenFile, userFile, environment: process.env, logger, now: Date.now() })
  else logger.warn('[AUTH] authentication is off: whoever reaches this server may use its databases')
  const { startMcp } = await import('../../services/mcp/index.ts')
  const service = await startMcp({ settings, http, logger })
  reloadOnSignal(flags, service, logger)
  console.log(`espalier mcp listens on ${shown(service.address, http.tls !== undefined)}`)
  await stopped
  await service.stop()
}

async function serveStdio(settings: McpSettings, logger: Logger): Promise<void> {
  // The only client is whoever has started this: it ends the server by ending the input.
  process.on('SIGHUP', () => logger.warn('over stdio databases are read at the start alone'))
  const { serveMcpOverStdio } = await import('../../services/mcp/index.ts')
  const serving = serveMcpOverStdio({ settings, logger, input: process.stdin, output: process.stdout })
  await Promise.race([stopSignal(), serving])
}

/** Resolves once it has been stopped, or its client is gone. */
async function serve(flags: Flags): Promise<void> {
  const settings = readMcpSettings(sourcesOf(flags))
  // Over stdio the output is the protocol's.
  const logger = pino({ level: settings.logLevel }, logLines())
  const { http } = settings
  await (http === undefined ? serveStdio(settings, logger) : serveHttp(flags, settings, http, logger))
}

/** @returns the exit code */
async function probe(flags: Flags): Promise<number> {
  const { http } = readMcpSettings(sourcesOf(new Map([...flags, ['http', true]])))
  if (http === undefined) throw new UsageError('-ready asks a server over HTTP')
  const file = flags.get('ready-token-file')
  const token = typeof file === 'string' ? readFileSync(file, 'utf8').trim() : undefined
  const { host, port, tls } = http
  return reportProbe(await probeTools({ host, port, isTls: tls !== undefined, path: '/mcp/v1' }, token))
}

const longestFarewellMs = 2_000

const command: Command = {
  summary: 'serve databases to language models (MCP); manage its tokens and users',
  help,
  async run(args) {
    if (args.includes('-help')) {
      console.log(help)
      return 0
    }
    const flags = readDashFlags(args, { ...serverFlags, ...credentialFlags })
    if (flags.get('ready') === true) return await probe(flags)
    if (flags.get('config') === '') throw new UsageError('-config takes the path of a file')
    const action = credentialAction(flags)
    if (action === undefined) {
      await serve(flags)
      // What does not answer any more, a database above all, is not waited for.
      setTimeout(() => process.exit(0), longestFarewellMs).unref()
      return 0
    }
    await administer(action, {
      flags,
      ...readCredentialPaths(sourcesOf(flags)),
      databaseNames: () => readDatabaseNames(sourcesOf(flags)),
      askPassword: () => askPassword(process.stdin, process.stderr),
      print: text => console.log(text),
      tell: text => console.error(text),
      now: Date.now(),
    })
    return 0
  },
}
export default command
