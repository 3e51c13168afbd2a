/** Converts a pipeline's database settings to a Postgres address. */
import { isIPv6 } from 'node:net'
import { readConnectionText } from '../../configuration/connection-text.ts'
import type { Settings } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import { type Address, AddressError, connectionAddress, keywordAddress } from '../../postgres/address.ts'
import type { pipeline, ReadHost } from './keys.ts'

type ReadDatabase = Settings<typeof pipeline>['database']
type InFolder = (path: string) => string
type HostPort = { readonly host: string; readonly port: number }

/** Parses `host`, `host:port`, `[::1]:port` or a table. A bare IPv6 address and a socket directory have no port. */
function hostOf(configured: ReadHost, port: number): HostPort {
  if (typeof configured !== 'string') return { host: configured.host, port: configured.port ?? port }
  const [, bracketed, plain, own] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(configured) ?? []
  if (configured.startsWith('/') || isIPv6(configured)) return { host: configured, port }
  return { host: bracketed ?? plain ?? configured, port: Number(own ?? port) }
}

const hostsOf = ({ host, hosts, port }: ReadDatabase): HostPort[] =>
  hosts === undefined ? [{ host: host ?? 'localhost', port }] : hosts.map(one => hostOf(one, port))

/** Keys that a connection string sets itself. */
const besideUrl = ['host', 'port', 'hosts', 'database', 'username', 'ssl_mode', 'ssl_cert', 'ssl_key', 'ssl_root_ca']
const paths = new Set(['sslcert', 'sslkey', 'sslrootcert', 'passfile'])

/** `inFolder`: resolves paths relative to the configuration's directory. */
export function addressOf(
  configured: ReadDatabase,
  path: string,
  inFolder: InFolder,
  { isSet: isGiven, refuse }: Checks,
): Address | undefined {
  if (configured.url !== undefined || isGiven(`${path}.url`))
    return addressOfUrl(configured, path, inFolder, { isSet: isGiven, refuse })
  if (isGiven(`${path}.host`) && isGiven(`${path}.hosts`))
    refuse(`${path}.hosts`, 'must not be given together with host')
  if ((configured.sslCert === undefined) !== (configured.sslKey === undefined))
    return void refuse(
      `${path}.${configured.sslCert === undefined ? 'ssl_cert' : 'ssl_key'}`,
      'must be given: ssl_cert and ssl_key belong together',
    )
  if (configured.sslMode === 'verify-ca' && configured.sslRootCa === undefined)
    return void refuse(`${path}.ssl_root_ca`, 'must be given if ssl_mode is verify-ca')
  const all = hostsOf(configured)
  const file = (path: string | undefined) => (path === undefined ? path : fileIn(path, inFolder))
  const keywords: Record<string, string | undefined> = {
    host: all.map(({ host }) => host).join(','),
    port: all.map(({ port }) => port).join(','),
    dbname: configured.database,
    user: configured.username,
    password: configured.password,
    ...common(configured, configured.hosts !== undefined),
    sslmode: configured.sslMode,
    sslcert: file(configured.sslCert),
    sslkey: file(configured.sslKey),
    sslrootcert: file(configured.sslRootCa),
  }
  return asAddress(path, refuse, () => keywordAddress(keywordsOf(keywords)))
}

/** Keys that may be set in addition to a connection string. */
const common = ({ connectTimeout, targetSessionAttrs }: ReadDatabase, hasSeveralHosts: boolean) => ({
  application_name: 'espalier rag',
  connect_timeout: String(Math.ceil(connectTimeout / 1_000)),
  // The server only reads, so it can use a standby.
  target_session_attrs: targetSessionAttrs ?? (hasSeveralHosts ? 'prefer-standby' : 'any'),
})

const fileIn = (path: string, inFolder: InFolder): string => (path === 'system' ? path : inFolder(path))

const keywordsOf = (all: Record<string, string | undefined>): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(all).flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]])),
  )

function asAddress(path: string, refuse: Checks['refuse'], read: () => Address): Address | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    return void refuse(path, error.message)
  }
}

/** The connection string overrides the keys that may be set in addition to it. */
function addressOfUrl(
  configured: ReadDatabase,
  path: string,
  inFolder: InFolder,
  { isSet: isGiven, refuse }: Pick<Checks, 'isSet' | 'refuse'>,
): Address | undefined {
  for (const name of besideUrl)
    if (isGiven(`${path}.${name}`)) refuse(`${path}.${name}`, 'must not be given together with url')
  const { url } = configured
  if (url === undefined) return undefined
  const written = Object.fromEntries(readConnectionText(url) ?? [])
  if (written.password !== undefined && isGiven(`${path}.password`))
    refuse(`${path}.password`, 'must not be given together with a password in url')
  const read = Object.entries(written).map(([name, value]) => [name, paths.has(name) ? fileIn(value, inFolder) : value])
  return asAddress(`${path}.url`, refuse, () => {
    // Refuses unknown keywords.
    connectionAddress(url, {})
    const { user = 'postgres', dbname = user } = written
    const defaults = {
      ...common(configured, written.host?.includes(',') === true),
      password: configured.password,
      user,
      dbname,
    }
    return keywordAddress(keywordsOf({ ...defaults, ...Object.fromEntries(read) }))
  })
}
