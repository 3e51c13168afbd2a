/**
 * Settings of an embedded installation, from flags and environment: its data directory, its ports, and the user for
 * Postgres, since Postgres refuses to run as root.
 */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { consoleDirectory } from '../api/console/files.ts'
import { EmbeddedError } from './errors.ts'

/** The directory of package.json. */
export const checkout = resolve(fileURLToPath(new URL('..', import.meta.url)))

export type PortRange = { first: number; last: number }

export type Settings = {
  /** All data: object store, volumes, logs, binaries, keys. */
  home: string
  /**
   * The listen address of API, gateway and metrics. Clients always connect to 127.0.0.1: if the installation runs in a
   * container, the container publishes its ports there.
   */
  listenHost: '127.0.0.1' | '0.0.0.0'
  apiPort: number
  /** The gateway's HTTPS port. */
  httpsPort: number
  /** The archive's port on 127.0.0.1. The archive uses it once a durable database exists. */
  archivePort: number
  ports: PortRange
  /** Set if this process is root: the user of Postgres and the services. */
  runAs?: { uid: number; gid: number; name: string } | undefined
  /**
   * Whether the runtime may create a file system for copies that share blocks, if the home directory's file system
   * cannot share blocks (runtime/pool/).
   */
  pool: boolean
  /** Address blocks that imports may connect to in addition to public ones. */
  importFrom: string[]
  /** The files of the console. */
  consoleDirectory: string
  /** Base URLs of model providers, for `mcp` and `rag`, if they are not the public URLs. */
  providers: Partial<Record<ModelProvider, string>>
}

const modelProviders = ['openai', 'anthropic', 'voyage'] as const
type ModelProvider = (typeof modelProviders)[number]

/** The number of ports after the first, if the range states only its first port. */
const defaultRangeLength = 1000

/** @throws EmbeddedError that names the variable and the rule */
export function readSettings(
  environment: NodeJS.ProcessEnv,
  isRoot: boolean = process.getuid?.() === 0,
  passwd: () => string = () => readFileSync('/etc/passwd', 'utf8'),
): Settings {
  const home = resolve(environment.ESPALIER_HOME || (isRoot ? '/var/lib/espalier' : join(checkout, '.espalier')))
  return {
    home,
    listenHost: listenHostOf(environment.ESPALIER_LISTEN || '127.0.0.1'),
    apiPort: portOf('ESPALIER_API_PORT', environment.ESPALIER_API_PORT || '8080'),
    httpsPort: portOf('ESPALIER_HTTPS_PORT', environment.ESPALIER_HTTPS_PORT || '8443'),
    archivePort: portOf('ESPALIER_ARCHIVE_PORT', environment.ESPALIER_ARCHIVE_PORT || '8444'),
    ports: rangeOf(environment.ESPALIER_PORTS || '15432'),
    runAs: isRoot ? userToRunAs(environment.ESPALIER_USER, passwd()) : undefined,
    pool: poolOf(environment.ESPALIER_POOL || 'auto'),
    importFrom: importFromOf(environment.ESPALIER_IMPORT_FROM || ''),
    consoleDirectory: consoleDirectory(environment),
    providers: providersOf(environment),
  }
}

function listenHostOf(text: string): Settings['listenHost'] {
  if (text === '127.0.0.1' || text === '0.0.0.0') return text
  throw new EmbeddedError(`ESPALIER_LISTEN must be 127.0.0.1 or 0.0.0.0, not ${JSON.stringify(text)}`)
}

function importFromOf(text: string): string[] {
  const blocks = text.split(',').flatMap(block => (block.trim() === '' ? [] : [block.trim()]))
  for (const block of blocks) {
    const [address = '', prefix = '', ...rest] = block.split('/')
    const most = isIP(address) === 4 ? 32 : isIP(address) === 6 ? 128 : -1
    if (rest.length > 0 || !/^[0-9]{1,3}$/.test(prefix) || Number(prefix) > most)
      throw new EmbeddedError(
        `ESPALIER_IMPORT_FROM must be blocks such as 10.0.0.0/8 with commas between them, not ${JSON.stringify(block)}`,
      )
  }
  return blocks
}

function providersOf(environment: NodeJS.ProcessEnv): Settings['providers'] {
  const given = modelProviders.flatMap(provider => {
    const variable = `ESPALIER_${provider.toUpperCase()}_URL`
    const text = environment[variable]
    if (text === undefined || text === '') return []
    if (!/^https?:$/.test(URL.parse(text)?.protocol ?? '') || text.length > 300)
      // The URL may contain a password.
      throw new EmbeddedError(`${variable} must be an http or https URL of at most 300 characters`)
    return [[provider, text] as const]
  })
  return Object.fromEntries(given)
}

function portOf(variable: string, text: string): number {
  const port = Number(text)
  if (!/^[0-9]{1,5}$/.test(text) || port < 1 || port > 65535) {
    throw new EmbeddedError(`${variable} must be a port from 1 to 65535, not ${JSON.stringify(text)}`)
  }
  return port
}

function poolOf(text: string): boolean {
  if (text !== 'auto' && text !== 'off')
    throw new EmbeddedError(`ESPALIER_POOL must be auto or off, not ${JSON.stringify(text)}`)
  return text === 'auto'
}

function rangeOf(text: string): PortRange {
  const [firstText = '', lastText, ...rest] = text.split('-')
  if (rest.length > 0)
    throw new EmbeddedError(`ESPALIER_PORTS must be FIRST or FIRST-LAST, not ${JSON.stringify(text)}`)
  const first = portOf('ESPALIER_PORTS', firstText)
  const last =
    lastText === undefined ? Math.min(first + defaultRangeLength - 1, 65535) : portOf('ESPALIER_PORTS', lastText)
  if (last <= first) throw new EmbeddedError('ESPALIER_PORTS must contain at least two ports: one is for metrics')
  return { first, last }
}

/** Returns the user that ESPALIER_USER names, or the first default user that exists. */
function userToRunAs(wanted: string | undefined, passwd: string): NonNullable<Settings['runAs']> {
  const users = new Map(
    passwd.split('\n').map(line => {
      const [name = '', , uid = '', gid = ''] = line.split(':')
      return [name, { name, uid: Number(uid), gid: Number(gid) }]
    }),
  )
  for (const name of wanted ? [wanted] : ['espalier', 'postgres', 'nobody']) {
    const user = users.get(name)
    if (user !== undefined && user.uid > 0) return user
  }
  throw new EmbeddedError(
    wanted
      ? `ESPALIER_USER must name a user of this machine other than root, not ${JSON.stringify(wanted)}`
      : 'Postgres does not run as root and this machine has no user postgres or nobody: set ESPALIER_USER',
  )
}

export const pathsOf = (home: string) => ({
  store: join(home, 'store'),
  runtime: join(home, 'runtime'),
  serviceNames: join(home, 'binaries', 'service-names'),
  auditLog: join(home, 'audit.log'),
  tokenKey: join(home, 'token-key.json'),
  archive: join(home, 'archive'),
  archiveKeys: join(home, 'archive.keys'),
  archiveTls: join(home, 'archive-tls'),
})
