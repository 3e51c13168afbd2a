/** The database of a pipeline as an address of Postgres. */
import { isIPv6 } from 'node:net'
import type { Settings } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import { type Address, AddressError, keywordAddress } from '../../postgres/address.ts'
import type { GivenHost, pipeline } from './keys.ts'

type Given = Settings<typeof pipeline>['database']
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

/** `inFolder`: paths are relative to the folder of the configuration. */
export function addressOf(
  given: Given,
  place: string,
  inFolder: (path: string) => string,
  { isGiven, refuse }: Checks,
): Address | undefined {
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
  const file = (path: string | undefined) => (path === undefined || path === 'system' ? path : inFolder(path))
  const keywords: Record<string, string | undefined> = {
    host: all.map(({ host }) => host).join(','),
    port: all.map(({ port }) => port).join(','),
    dbname: given.database,
    user: given.username,
    password: given.password,
    application_name: 'espalier rag',
    connect_timeout: String(Math.ceil(given.connectTimeout / 1_000)),
    // What the server does is reading.
    target_session_attrs: given.targetSessionAttrs ?? (given.hosts === undefined ? 'any' : 'prefer-standby'),
    sslmode: given.sslMode,
    sslcert: file(given.sslCert),
    sslkey: file(given.sslKey),
    sslrootcert: file(given.sslRootCa),
  }
  const set = Object.entries(keywords).flatMap(([name, value]): [string, string][] => {
    return value === undefined ? [] : [[name, value]]
  })
  try {
    return keywordAddress(new Map(set))
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    return void refuse(place, error.message)
  }
}
