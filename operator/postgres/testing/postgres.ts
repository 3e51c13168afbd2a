/**
 * A real Postgres for tests. `espalier instance prepare` prepares it, with the operator's own configuration, on a free
 * port of 127.0.0.1 and in a temporary directory. If the tests run as root, it and its preparation run as `nobody`,
 * because Postgres refuses root.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { Client } from 'pg'
import type { PgVersion, SizeShape } from '../../../crds/index.ts'
import type { InstanceConfiguration } from '../../../instance/index.ts'
import { type Authority, type CertifiedKey, createAuthority, issueServerCertificate } from '../../pki/index.ts'
import { smallShape } from '../../testing/samples.ts'
import { preloadedLibraries, renderConfiguration } from '../configuration.ts'
import type { PostgresTarget } from '../connection.ts'
import { postgresDirectory } from './directory.ts'
import { copyingEnvironment, giveToPostgres, instanceFolder, nodeBinary, postgresEnvironment } from './install.ts'

export { copyingEnvironment, giveToPostgres, postgresBinaries, postgresEnvironment } from './install.ts'

/** A temporary directory that belongs to the user of Postgres. */
export function temporaryDirectory(name: string): string {
  const directory = mkdtempSync(join(postgresDirectory, `espalier-${name}-`))
  giveToPostgres(directory)
  return directory
}

/** The three directories that an instance's pod mounts, created in a temporary directory. */
export type Mounts = { root: string; volume: string; configuration: string; tls: string }

export function makeMounts(
  configuration: InstanceConfiguration,
  authority: Authority,
  certificate: CertifiedKey,
): Mounts {
  const root = temporaryDirectory('instance')
  const [volume, configured, tls] = ['volume', 'configuration', 'tls'].map(name => {
    const directory = join(root, name)
    mkdirSync(directory, { mode: 0o700 })
    giveToPostgres(directory)
    return directory
  }) as [string, string, string] // three names in, three directories out
  const mounts = { root, volume, configuration: configured, tls }
  writeMounted(join(tls, 'tls.crt'), certificate.cert)
  writeMounted(join(tls, 'tls.key'), certificate.key)
  writeMounted(join(tls, 'ca.crt'), authority.cert)
  configure(mounts, configuration)
  return mounts
}

const writeMounted = (path: string, text: string): void => {
  writeFileSync(path, text, { mode: 0o400 })
  giveToPostgres(path)
}

/** Writes another instance.json, and Postgres's files beside it, like in the mount. */
export function configure(mounts: Mounts, configuration: InstanceConfiguration): void {
  for (const [name, text] of Object.entries({
    'instance.json': JSON.stringify(configuration),
    ...configuration.files,
  })) {
    const path = join(mounts.configuration, name)
    rmSync(path, { force: true })
    writeMounted(path, text)
  }
}

/** The command that prepares an instance: node, the entry, and its arguments. */
export function prepareCommand(mounts: Mounts): [string, ...string[]] {
  const entry = join(instanceFolder(), 'main.ts')
  const { volume, configuration, tls } = mounts
  return [nodeBinary(), entry, 'instance', 'prepare', '--data', volume, '--configuration', configuration, '--tls', tls]
}

/** Prepares the volume, like before every start. */
export function prepare(mounts: Mounts, major: PgVersion): void {
  const [command, ...args] = prepareCommand(mounts)
  const { status, stderr } = spawnSync(command, args, { ...copyingEnvironment(major), encoding: 'utf8' })
  if (status !== 0) throw new Error(`prepare failed: ${stderr}`)
}

/** A port of 127.0.0.1 that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // the address of a TCP server
  await new Promise(resolve => server.close(resolve))
  return port
}

export type RunningPostgres = {
  host: string
  port: number
  /** The authority's certificate, PEM. */
  ca: string
  authority: Authority
  /** The target for an administrator of this authority. */
  target: PostgresTarget
  mounts: Mounts
  pid: number
  /** Its complete log. */
  log(): string
  /** Ends Postgres by a signal, and keeps its directory. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Stops Postgres and removes its directory. */
  stop(): Promise<void>
}

type PostgresOptions = {
  major: PgVersion
  /** Differences from the small shape. */
  shape?: Partial<SizeShape>
  /** Settings for the command line: they override everything. */
  settings?: Record<string, string>
  /** The authority that signs the server's certificate. Absent for a new authority. */
  tls?: Authority
  /** The name in the server's certificate. */
  serverName?: string
}

/** The id of the instance's database or branch. */
export const instanceId = '00000000-0000-4000-8000-000000000001'

/** Prepares a new instance and starts it. */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const { major, shape = {}, tls = createAuthority(), serverName = 'db.test.svc' } = options
  const certificate = issueServerCertificate(tls, { dnsNames: [serverName, 'localhost'], ipAddresses: ['127.0.0.1'] })
  const configuration: InstanceConfiguration = {
    databaseId: instanceId,
    incarnation: 1,
    pgVersion: major,
    initialise: true,
    preload: preloadedLibraries,
    files: renderConfiguration({ ...smallShape, ...shape }, major, instanceId),
  }
  const mounts = makeMounts(configuration, tls, certificate)
  prepare(mounts, major)
  const server = await runPostgres(mounts, options)
  const { port } = server
  return {
    ...server,
    ca: tls.cert,
    authority: tls,
    target: { host: server.host, port, serverName, ca: tls.cert },
    mounts,
    stop: async () => {
      await server.kill()
      rmSync(mounts.root, { recursive: true, force: true })
    },
  }
}

type Server = Pick<RunningPostgres, 'host' | 'port' | 'pid' | 'log' | 'kill'>

/** Starts Postgres on a prepared volume. If another process has taken the free port meanwhile, tries another port. */
export async function runPostgres(mounts: Mounts, { major, settings = {} }: PostgresOptions): Promise<Server> {
  const host = '127.0.0.1'
  for (let attempt = 1; ; attempt++) {
    const port = await freePort()
    // Tests need no data to survive a power cut.
    const all = { fsync: 'off', listen_addresses: host, port: String(port), ...settings }
    const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawn('postgres', ['-D', join(mounts.volume, 'pgdata'), ...flags], {
      ...postgresEnvironment(major),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let log = ''
    child.stderr.setEncoding('utf8').on('data', text => {
      log += text
    })
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    if (await isReady(child, ended, () => log)) {
      const { pid = 0 } = child
      const lastResort = () => child.kill('SIGQUIT')
      process.once('exit', lastResort)
      const kill = async (signal: NodeJS.Signals = 'SIGQUIT') => {
        process.off('exit', lastResort)
        child.kill(signal)
        await ended
      }
      return { host, port, pid, log: () => log, kill }
    }
    if (attempt === 5 || !/Address already in use/.test(log)) throw new Error(`postgres did not start: ${log}`)
  }
}

/** Whether Postgres has started, according to its own log. */
async function isReady(child: ChildProcess, ended: Promise<void>, log: () => string): Promise<boolean> {
  const ready = new Promise<boolean>(resolve => {
    child.stderr?.on('data', () => {
      if (log().includes('ready to accept connections')) resolve(true)
    })
    child.once('error', () => resolve(false))
  })
  return Promise.race([ready, ended.then(() => false)])
}

/** Connects as a role of the database, with its password, like a client. The caller ends the connection. */
export async function connectAs(
  server: Pick<RunningPostgres, 'target'>,
  user: string,
  password: string,
  database = 'app',
): Promise<Client> {
  const { host, port, ca, serverName } = server.target
  const client = new Client({
    host,
    port,
    user,
    password,
    database,
    ssl: { ca, servername: serverName },
    connectionTimeoutMillis: 10_000,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}
