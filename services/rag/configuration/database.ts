/** The database of a pipeline as an address of Postgres. */
import { isIPv6 } from 'node:net'
import { readConnectionText } from '../../configuration/connection-text.ts'
import type { Settings } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import { type Address, AddressError, connectionAddress, keywordAddress } from '../../postgres/address.ts'
import type { GivenHost, pipeline } from './keys.ts'

type Given = Settings<typeof pipeline>['database']
type InFolder = (path: string) => string
type HostPort = { readonly host: string; readonly port: number }

/** `host`, `host:port`, `[::1]:port` or a table. An IPv6 address by itself has no port, nor has the folder of a socket. */
function hostOf(given: GivenHost, port: number): HostPort {
  if (typeof given !== 'string') return { host: given.host, port: given.port ?? port }
  const [, bracketed, plain, own] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(given) ?? []
  if (given.startsWith('/') || isIPv6(given)) return { host: given, port }
  return { host: bracketed ?? plain ?? given, port: Number(own ?? port) }
}

const hostsOf = ({ host, hosts, port }: Given): HostPort[] =>
  hosts === undefined ? [{ host: host ?? 'localhost', port }] : hosts.map(one => hostOf(one, port))

/** What a connection string says in its own way. */
const besideUrl = ['host', 'port', 'hosts', 'database', 'username', 'ssl_mode', 'ssl_cert', 'ssl_key', 'ssl_root_ca']
const paths = new Set(['sslcert', 'sslkey', 'sslrootcert', 'passfile'])

/** `inFolder`: paths are relative to the folder of the configuration. */
export function addressOf(
  given: Given,
  place: string,
  inFolder: InFolder,
  { isGiven, refuse }: Checks,
): Address | undefined {
  if (given.url !== undefined || isGiven(`${place}.url`))
    return addressOfUrl(given, place, inFolder, { isGiven, refuse })
  if (isGiven(`${place}.host`) && isGiven(`${place}.hosts`))
    refuse(`${place}.hosts`, 'must not be given together with host')
  if ((given.sslCert === undefined) !== (given.sslKey === undefined))
    return void refuse(
      `${place}.${given.sslCert === undefined ? 'ssl_cert' : 'ssl_key'}`,
      'must be given: ssl_cert and ssl_key belong together',
    )
  if (given.sslMode === 'verify-ca' && given.sslRootCa === undefined)
    return void refuse(`${place}.ssl_root_ca`, 'must be given where ssl_mode is verify-ca')
  const all = hostsOf(given)
  const file = (path: string | undefined) => (path === undefined ? path : fileIn(path, inFolder))
  const keywords: Record<string, string | undefined> = {
    host: all.map(({ host }) => host).join(','),
    port: all.map(({ port }) => port).join(','),
    dbname: given.database,
    user: given.username,
    password: given.password,
    ...common(given, given.hosts !== undefined),
    sslmode: given.sslMode,
    sslcert: file(given.sslCert),
    sslkey: file(given.sslKey),
    sslrootcert: file(given.sslRootCa),
  }
  return asAddress(place, refuse, () => keywordAddress(keywordsOf(keywords)))
}

/** Keys of the connection that a connection string leaves to others. */
const common = ({ connectTimeout, targetSessionAttrs }: Given, hasSeveralHosts: boolean) => ({
  application_name: 'espalier rag',
  connect_timeout: String(Math.ceil(connectTimeout / 1_000)),
  // What the server does is reading.
  target_session_attrs: targetSessionAttrs ?? (hasSeveralHosts ? 'prefer-standby' : 'any'),
})

const fileIn = (path: string, inFolder: InFolder): string => (path === 'system' ? path : inFolder(path))

const keywordsOf = (all: Record<string, string | undefined>): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(all).flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]])),
  )

function asAddress(place: string, refuse: Checks['refuse'], read: () => Address): Address | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    return void refuse(place, error.message)
  }
}

/** Keywords of the connection string go before the keys that may stand beside it. */
function addressOfUrl(
  given: Given,
  place: string,
  inFolder: InFolder,
  { isGiven, refuse }: Pick<Checks, 'isGiven' | 'refuse'>,
): Address | undefined {
  for (const name of besideUrl)
    if (isGiven(`${place}.${name}`)) refuse(`${place}.${name}`, 'must not be given together with url')
  const { url } = given
  if (url === undefined) return undefined
  const written = Object.fromEntries(readConnectionText(url) ?? [])
  if (written.password !== undefined && isGiven(`${place}.password`))
    refuse(`${place}.password`, 'must not be given together with a password in url')
  const read = Object.entries(written).map(([name, value]) => [name, paths.has(name) ? fileIn(value, inFolder) : value])
  return asAddress(`${place}.url`, refuse, () => {
    // Refuses keywords that are not known.
    connectionAddress(url, {})
    const { user = 'postgres', dbname = user } = written
    const defaults = { ...common(given, written.host?.includes(',') === true), password: given.password, user, dbname }
    return keywordAddress(keywordsOf({ ...defaults, ...Object.fromEntries(read) }))
  })
}
