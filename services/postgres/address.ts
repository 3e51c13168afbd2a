/**
 * The address of Postgres, from a connection string and libpq's environment variables (Postgres manual, sections 32.1
 * and 32.15). Refuses parameters that affect security or routing and are not supported, and never ignores them. So a
 * client that requires protection gets the protection or an error.
 */
import { homedir, userInfo } from 'node:os'
import { join } from 'node:path'
import { readConnectionText } from '../configuration/connection-text.ts'

export type Host = {
  /** The name that the server's certificate must contain. A path is the directory of a Unix socket. */
  readonly name: string
  /** The address to which to connect: the name, or `hostaddr` if it is given. */
  readonly address: string
  readonly port: number
}

const choices = {
  sslmode: ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'],
  channel_binding: ['disable', 'prefer', 'require'],
  target_session_attrs: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'],
  ssl_min_protocol_version: ['TLSv1.2', 'TLSv1.3'],
} as const
type Choice<Name extends keyof typeof choices> = (typeof choices)[Name][number]
export type SslMode = Choice<'sslmode'>
export type SessionAttributes = Choice<'target_session_attrs'>

/** TLS parameters. Certificates and keys are PEM files. */
type TlsSettings = {
  readonly mode: SslMode
  /** The trusted authorities. Undefined: Node's default. */
  readonly rootFile: string | undefined
  readonly certificateFile: string | undefined
  readonly keyFile: string | undefined
  readonly keyPassword: string | undefined
  readonly leastVersion: Choice<'ssl_min_protocol_version'>
}

export type Address = {
  /** The hosts are tried in this order. */
  readonly hosts: readonly Host[]
  readonly user: string
  readonly database: string
  /** Can contain several passwords, one on each line, newest first. */
  readonly password: string | undefined
  /** The file that is read if there is no password. */
  readonly passwordFile: string
  readonly applicationName: string
  readonly options: string | undefined
  /** The timeout for each host. */
  readonly connectTimeoutMs: number
  readonly tls: TlsSettings
  readonly channelBinding: Choice<'channel_binding'>
  readonly sessionAttributes: SessionAttributes
}

/**
 * The connection string or the environment contains an invalid or unsupported parameter. The message never contains the
 * parameter's value.
 */
export class AddressError extends Error {
  constructor(rule: string) {
    super(rule)
    this.name = 'AddressError'
  }
}

/** The supported keywords, with their environment variables. */
const variables: Record<string, string | undefined> = {
  host: 'PGHOST',
  hostaddr: 'PGHOSTADDR',
  port: 'PGPORT',
  dbname: 'PGDATABASE',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  passfile: 'PGPASSFILE',
  application_name: 'PGAPPNAME',
  fallback_application_name: undefined,
  options: 'PGOPTIONS',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  sslpassword: undefined,
  ssl_min_protocol_version: 'PGSSLMINPROTOCOLVERSION',
  channel_binding: 'PGCHANNELBINDING',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
}
const ignoredKeywords = /^(keepalives(_idle|_interval|_count)?|tcp_user_timeout|client_encoding|sslcompression|sslsni)$/
/** Variables that would change libpq's server or whether libpq trusts it. */
const refusedVariables = ['PGSERVICE', 'PGREQUIREAUTH', 'PGREQUIREPEER', 'PGSSLCRL', 'PGSSLCRLDIR', 'PGGSSENCMODE']

const defaultConnectTimeoutMs = 10_000

/** Keywords that affect neither the server nor the session, whatever their value is. */
export const isIgnoredKeyword = (name: string): boolean => ignoredKeywords.test(name)

type Environment = Record<string, string | undefined>

/** @throws AddressError */
export function connectionAddress(text: string, environment: Environment = process.env): Address {
  const parameters = readConnectionText(text)
  if (parameters === undefined) throw new AddressError('must be a connection string')
  for (const [name, value] of parameters) {
    if (!Object.hasOwn(variables, name) && !isIgnoredKeyword(name)) {
      throw new AddressError(`has a keyword that is not supported: ${name.replace(/[^a-z_]/g, '?').slice(0, 40)}`)
    }
    if (value.includes('\0')) throw new AddressError(`has a zero byte in ${name}`)
  }
  const refused = refusedVariables.find(name => environment[name])
  if (refused !== undefined) throw new AddressError(`is completed by ${refused}, which is not supported`)
  return addressOf(name => parameters.get(name) ?? (environment[variables[name] ?? ''] || undefined))
}

/** The address from keywords alone, without environment variables. @throws AddressError */
export const keywordAddress = (keywords: ReadonlyMap<string, string>): Address => addressOf(name => keywords.get(name))

type Get = (name: string) => string | undefined

function addressOf(get: Get): Address {
  const user = get('user') ?? userInfo().username
  return {
    hosts: hostsOf(get),
    user,
    database: get('dbname') ?? user,
    password: get('password'),
    passwordFile: get('passfile') ?? join(homedir(), '.pgpass'),
    applicationName: get('application_name') ?? get('fallback_application_name') ?? 'espalier rest',
    options: get('options'),
    connectTimeoutMs: integerOf(get, 'connect_timeout', 2_147_483) * 1_000 || defaultConnectTimeoutMs,
    tls: tlsOf(get),
    channelBinding: chosen(get, 'channel_binding') ?? 'prefer',
    sessionAttributes: chosen(get, 'target_session_attrs') ?? 'any',
  }
}

function chosen<Name extends keyof typeof choices>(get: Get, name: Name): Choice<Name> | undefined {
  const value = get(name)
  const options: readonly Choice<Name>[] = choices[name]
  const found = options.find(option => option === value)
  if (value !== undefined && found === undefined) {
    throw new AddressError(`must have a ${name} that is one of ${options.join(', ')}`)
  }
  return found
}

function integerOf(get: Get, name: string, most: number): number {
  const value = get(name) ?? '0'
  if (!/^\d{1,9}$/.test(value) || Number(value) > most) throw new AddressError(`must have a whole number as ${name}`)
  return Number(value)
}

/** Lists of the same length. A single port is used for all hosts. */
function hostsOf(get: Get): Host[] {
  const list = (name: string): string[] => get(name)?.split(',') ?? []
  const [names, addresses, ports] = [list('host'), list('hostaddr'), list('port')]
  const all = names.length > 0 ? names : addresses.map(() => '')
  if (addresses.length > 0 && addresses.length !== all.length)
    throw new AddressError('must have one hostaddr for each host')
  if (ports.length > 1 && ports.length !== Math.max(1, all.length)) {
    throw new AddressError('must have one port, or one for each host')
  }
  return (all.length === 0 ? [''] : all).map((written, index) => {
    const address = addresses[index] || written || 'localhost'
    const port = Number((ports.length === 1 ? ports[0] : ports[index]) || 5432)
    if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new AddressError('must have ports from 1 to 65535')
    return { name: written || address, address, port }
  })
}

/**
 * Like libpq: if there is a file of authorities, `require` verifies certificates. `system` is allowed only with
 * `verify-full`.
 */
function tlsOf(get: Get): TlsSettings {
  const root = get('sslrootcert')
  const isPublic = root === 'system'
  const mode = chosen(get, 'sslmode') ?? (isPublic ? 'verify-full' : 'prefer')
  const [certificateFile, keyFile] = [get('sslcert'), get('sslkey')]
  if (isPublic && mode !== 'verify-full')
    throw new AddressError('must have sslmode=verify-full with sslrootcert=system')
  if (mode === 'verify-ca' && root === undefined)
    throw new AddressError('must have an sslrootcert with sslmode=verify-ca')
  if ((certificateFile === undefined) !== (keyFile === undefined)) {
    throw new AddressError('must have sslcert and sslkey together')
  }
  return {
    mode: mode === 'require' && root !== undefined ? 'verify-ca' : mode,
    rootFile: isPublic ? undefined : root,
    certificateFile,
    keyFile,
    keyPassword: get('sslpassword'),
    leastVersion: chosen(get, 'ssl_min_protocol_version') ?? 'TLSv1.2',
  }
}
