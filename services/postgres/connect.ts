/**
 * Connects to Postgres. Tries the hosts in order, with or without TLS, as the address specifies. Returns `pg`'s
 * connected client. Over a network, only the modes `allow` and `prefer` talk to a server without TLS.
 */
import { readFileSync } from 'node:fs'
import { isIP, type Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import type { Address, Host, SessionAttributes, SslMode } from './address.ts'
import { RequiredBinding } from './channel-binding.ts'
import { ConnectionFailure } from './errors.ts'
import { readPasswordFile } from './passfile.ts'

/**
 * The caller closes the client and handles its errors.
 * @throws ConnectionFailure
 */
export async function connect(address: Address): Promise<pg.Client> {
  if (address.sessionAttributes !== 'prefer-standby') return await connectToFirst(address)
  try {
    if (address.hosts.length > 1) return await connectToFirst({ ...address, sessionAttributes: 'standby' })
  } catch (error) {
    if (isRefusal(failureOf(error))) throw error
  }
  return await connectToFirst({ ...address, sessionAttributes: 'any' })
}

/** If one host refuses the login, the other hosts are not tried. A server that starts counts as unreachable. */
const isRefusal = ({ sqlState }: ConnectionFailure): boolean => sqlState !== undefined && sqlState !== '57P03'

async function connectToFirst(address: Address): Promise<pg.Client> {
  const failures: string[] = []
  for (const [index, host] of address.hosts.entries()) {
    try {
      return await connectTo(address, host)
    } catch (error) {
      const failure = failureOf(error)
      failures.push(address.hosts.length === 1 ? failure.message : `${host.address}:${host.port}: ${failure.message}`)
      const isFinal = isRefusal(failure) || index === address.hosts.length - 1
      if (isFinal) throw new ConnectionFailure(failures.join('; '), failure.sqlState, error)
    }
  }
  throw new ConnectionFailure('there is no host')
}

/**
 * Works on a separate connection, which is closed afterwards.
 * @throws ConnectionFailure, what the work throws
 */
export async function withClient<T>(address: Address, work: (client: pg.Client) => Promise<T>): Promise<T> {
  // A connection that breaks rejects its running query.
  const client = await connect(address)
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Whether to use TLS, and what to try if the server refuses that. */
const encryptions: Record<SslMode, readonly [boolean, boolean?]> = {
  disable: [false],
  allow: [false, true],
  prefer: [true, false],
  require: [true],
  'verify-ca': [true],
  'verify-full': [true],
}

/** Tries several passwords in order: during a rotation, Postgres accepts one of two. */
async function connectTo(address: Address, host: Host): Promise<pg.Client> {
  const passwords = address.password?.split('\n').filter(one => one !== '') ?? []
  for (const password of passwords.slice(0, -1)) {
    try {
      return await connectWith({ ...address, password }, host)
    } catch (error) {
      if (failureOf(error).sqlState !== wrongPassword) throw error
    }
  }
  return await connectWith({ ...address, password: passwords.at(-1) ?? address.password }, host)
}

const wrongPassword = '28P01'

async function connectWith(address: Address, host: Host): Promise<pg.Client> {
  const [first, second] = encryptions[isSocket(host) ? 'disable' : address.tls.mode]
  try {
    return await attempt(address, host, first)
  } catch (refusal) {
    if (second === undefined || !(refusal instanceof ConnectionFailure) || !refusesEncryption(refusal)) throw refusal
    try {
      return await attempt(address, host, second)
    } catch (error) {
      const { message, sqlState } = failureOf(error)
      throw refusal.message === noTls ? error : new ConnectionFailure(`${refusal.message}; ${message}`, sqlState, error)
    }
  }
}

const isSocket = ({ address }: Host): boolean => address.startsWith('/')

/** `pg`'s error for a server without TLS. */
const noTls = 'The server does not support SSL connections'
/**
 * Whether a server may accept this client with the other TLS choice: the server has no TLS, or its pg_hba.conf has no
 * line for this choice (28000).
 */
const refusesEncryption = ({ message, sqlState }: ConnectionFailure): boolean =>
  sqlState === '28000' || message === noTls

async function attempt(address: Address, host: Host, isEncrypted: boolean): Promise<pg.Client> {
  const binding = address.channelBinding === 'require' ? new RequiredBinding() : undefined
  let client: pg.Client | undefined
  try {
    client = new pg.Client({
      host: host.address,
      port: host.port,
      user: address.user,
      database: address.database,
      password: () => {
        binding?.checkOffer()
        return passwordFor(address, host)
      },
      ssl: isEncrypted && tlsOptions(address, host),
      sslnegotiation: 'postgres',
      enableChannelBinding: isEncrypted && address.channelBinding !== 'disable',
      application_name: address.applicationName,
      options: address.options,
      keepAlive: true,
      connectionTimeoutMillis: address.connectTimeoutMs,
    })
    client.on('error', () => {})
    binding?.watch(client)
    await client.connect()
    binding?.checkProof()
    await inTime(checkSession(client, address.sessionAttributes), address.connectTimeoutMs)
    return client
  } catch (error) {
    // A server that does not respond does not end the connection, either.
    if (error instanceof Late) (client as (pg.Client & Insides) | undefined)?.connection.stream.destroy()
    client?.end().catch(() => {})
    throw failureOf(error)
  }
}

function passwordFor({ password, passwordFile, user, database }: Address, { name, port }: Host): string {
  const found = password ?? readPasswordFile(passwordFile, { name, port, user, database })
  if (found === undefined)
    throw new ConnectionFailure(
      'the server requires a password, and there is none for this host and user',
      wrongPassword,
    )
  return found
}

/** The files are read for each connection, so that renewed certificates are used. */
function tlsOptions({ tls }: Address, { name }: Host): ConnectionOptions {
  const { mode, rootFile, certificateFile, keyFile, keyPassword, leastVersion } = tls
  return {
    host: name,
    // RFC 6066, section 3, allows only names.
    ...(isIP(name) === 0 ? { servername: name } : {}),
    minVersion: leastVersion,
    rejectUnauthorized: mode === 'verify-full' || rootFile !== undefined,
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
    ...(rootFile === undefined ? {} : { ca: readPem('sslrootcert', rootFile) }),
    ...(certificateFile === undefined ? {} : { cert: readPem('sslcert', certificateFile) }),
    ...(keyFile === undefined ? {} : { key: readPem('sslkey', keyFile), passphrase: keyPassword }),
  }
}

function readPem(keyword: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`${keyword} names a file that cannot be read: ${failureOf(error).message}`, { cause: error })
  }
}

/** The part of `pg`'s client that its types do not declare. */
type Insides = { readonly connection: { readonly stream: Socket } }

class Late extends Error {}

/** A server may accept a connection and then not respond. */
async function inTime(work: Promise<void>, ms: number): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Late(`did not report which kind of server it is within ${ms} ms`)), ms)
  // After the timeout, no caller handles this failure.
  work.catch(() => {})
  try {
    await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}

const sessionQuery = `SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only`

async function checkSession(client: pg.Client, wanted: SessionAttributes): Promise<void> {
  if (wanted === 'any') return
  const { rows } = await client.query<{ standby: boolean; read_only: boolean }>(sessionQuery)
  const { standby, read_only } = rows[0] ?? { standby: false, read_only: false }
  const found = {
    ...{ 'read-write': !read_only, 'read-only': read_only, primary: !standby, standby },
    'prefer-standby': true,
  }
  if (!found[wanted]) throw new Error(`the session is not ${wanted}, which target_session_attrs requires`)
}

/** Converts errors of Node, `pg` and Postgres to one type. Their messages contain no secrets. */
function failureOf(error: unknown): ConnectionFailure {
  if (error instanceof ConnectionFailure) return error
  const { message, code } = error as Error & { code?: unknown } // Errors that are thrown here come from Node, pg, or this module.
  const isSqlState = typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)
  return new ConnectionFailure(message || String(code), isSqlState ? code : undefined, error)
}
