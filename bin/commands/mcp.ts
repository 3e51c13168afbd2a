/** `espalier mcp`: serves tools for Postgres over stdio or HTTP, and manages the server's tokens and users. */
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
import { samplesAddress } from '../../services/samples/index.ts'
import { askPassword } from '../ask-password.ts'
import { type Command, UsageError } from '../command.ts'
import { type FlagKinds, readDashFlags } from '../dash-flags.ts'
import { administer, credentialAction, credentialFlags } from '../mcp-credentials.ts'

const help = `Serves Postgres databases to language models (Model Context Protocol), over stdio or HTTP.

Usage: espalier mcp [options]            serves over stdio, or with -http over HTTP
       espalier mcp -ready [options]     checks a running HTTP server with these options; exits with 0 if it can read its database
       espalier mcp -add-token [options]  runs this or another action on tokens and users

  -config FILE        a YAML file (docs/mcp.md lists the keys; default: /etc/espalier/mcp.yaml, if it exists)
  -http               serve POST /mcp/v1 and the helper API over HTTP
  -addr HOST:PORT     the listen address (default: :8080; with -no-auth 127.0.0.1:8080)
  -tls -cert FILE -key FILE -chain FILE
                      serve HTTPS
  -no-auth            no authentication: for development only
  -ready-token-file FILE
                      the file with the token for -ready
  -token-file FILE, -user-file FILE
                      the files of tokens and users
  -db-host, -db-port, -db-name, -db-database, -db-user, -db-sslmode
                      the settings of the first database
  -debug              log more details

Tokens (the token itself is printed to standard output, once):
  -add-token [-token-note TEXT] [-token-expiry 30d|1y|2w|12h|never] [-token-database NAME]
  -list-tokens
  -remove-token ID    remove the token with this id, or with these first digits of its hash

Users (a password is prompted for, or read from standard input):
  -add-user -username NAME [-password PASSWORD] [-user-note TEXT] [-user-databases NAME,...]
  -update-user -username NAME [-password PASSWORD] [-user-note TEXT] [-user-databases NAME,...|*]
  -delete-user, -enable-user, -disable-user -username NAME
  -list-users

Environment: ESPALIER_DB_HOST and others override the file; PGHOST and others are defaults for omitted settings. INIT_TOKENS and
INIT_USERS create the credential files at the first start over HTTP. SIGHUP reloads the databases.`

const serverFlags: FlagKinds = {
  ...{ config: 'value', http: 'switch', addr: 'value', tls: 'switch', cert: 'value', key: 'value', chain: 'value' },
  ...{ 'no-auth': 'switch', debug: 'switch', 'token-file': 'value', 'user-file': 'value' },
  ...{ 'db-host': 'value', 'db-port': 'value', 'db-name': 'value', 'db-database': 'value', 'db-user': 'value' },
  ...{ 'db-sslmode': 'value', ready: 'switch', 'ready-token-file': 'value' },
}
type Flags = ReadonlyMap<string, string | true>

const defaultFile = '/etc/espalier/mcp.yaml'

/** Returns the sources of the configuration. Each call reads the file again. */
function sourcesOf(flags: Flags): Sources {
  const named = flags.get('config')
  const path = typeof named === 'string' ? named : existsSync(defaultFile) ? defaultFile : undefined
  return {
    file: path === undefined ? undefined : readConfigurationFile(path),
    environment: process.env,
    flags,
    readFile: name => readFileSync(name),
  }
}

/** Returns the URL that a client uses. */
const urlOf = ({ family, address, port }: AddressInfo, isTls: boolean): string =>
  `${isTls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${port}`

/** Reloads the list of databases on SIGHUP. An invalid list changes nothing. */
function reloadOnSignal(flags: Flags, service: McpService, logger: Logger): void {
  process.on('SIGHUP', () => {
    try {
      const databases = readMcpSettings(sourcesOf(flags)).databases
      service.setDatabases(databases)
      logger.info({ databases: databases.map(({ name }) => name) }, 'the databases have been reloaded')
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      logger.error({ reason }, 'the databases are unchanged')
    }
  })
}

async function serveHttp(flags: Flags, settings: McpSettings, http: HttpSettings, logger: Logger): Promise<void> {
  const stopped = stopSignal()
  const { enabled, tokenFile, userFile } = http.authentication
  if (enabled) await initialiseCredentials({ tokenFile, userFile, environment: process.env, logger, now: Date.now() })
  else logger.warn('[AUTH] authentication is off: every client that can reach this server can use its databases')
  const { startMcp } = await import('../../services/mcp/index.ts')
  const service = await startMcp({ settings, http, logger, samples: samplesAddress(process.env) })
  reloadOnSignal(flags, service, logger)
  console.log(`espalier mcp listens on ${urlOf(service.address, http.tls !== undefined)}`)
  await stopped
  await service.stop()
}

async function serveStdio(settings: McpSettings, logger: Logger): Promise<void> {
  // Without a handler, SIGHUP would stop the server. The parent process, its only client, closes the input to stop it.
  process.on('SIGHUP', () =>
    logger.warn('SIGHUP has no effect: over stdio, the server reads its databases only at the start'),
  )
  const { serveMcpOverStdio } = await import('../../services/mcp/index.ts')
  const serving = serveMcpOverStdio({ settings, logger, input: process.stdin, output: process.stdout })
  await Promise.race([stopSignal(), serving])
}

/** Serves until a signal stops the server, or until its client over stdio disconnects. */
async function serve(flags: Flags): Promise<void> {
  const settings = readMcpSettings(sourcesOf(flags))
  // Over stdio, standard output is reserved for the protocol.
  const logger = pino({ level: settings.logLevel }, logLines())
  const { http } = settings
  await (http === undefined ? serveStdio(settings, logger) : serveHttp(flags, settings, http, logger))
}

/** @returns the exit code */
async function probe(flags: Flags): Promise<number> {
  const { http } = readMcpSettings(sourcesOf(new Map([...flags, ['http', true]])))
  if (http === undefined) throw new UsageError('-ready requires HTTP')
  const file = flags.get('ready-token-file')
  const token = typeof file === 'string' ? readFileSync(file, 'utf8').trim() : undefined
  const { host, port, tls } = http
  return reportProbe(await probeTools({ host, port, isTls: tls !== undefined, path: '/mcp/v1' }, token))
}

const exitGraceMs = 2_000

const command: Command = {
  help,
  async run(args) {
    if (args.includes('-help')) {
      console.log(help)
      return 0
    }
    const flags = readDashFlags(args, { ...serverFlags, ...credentialFlags })
    if (flags.get('ready') === true) return await probe(flags)
    if (flags.get('config') === '') throw new UsageError('-config requires a file path')
    const action = credentialAction(flags)
    if (action === undefined) {
      await serve(flags)
      // Exits even if a database or another peer no longer responds.
      setTimeout(() => process.exit(0), exitGraceMs).unref()
      return 0
    }
    await administer(action, {
      flags,
      ...readCredentialPaths(sourcesOf(flags)),
      databaseNames: () => readDatabaseNames(sourcesOf(flags)),
      askPassword: () => askPassword(process.stdin, process.stderr),
      print: text => console.log(text),
      report: text => console.error(text),
      now: Date.now(),
    })
    return 0
  },
}
export default command
