/** Where the tool server listens, for whom, and how callers are known. */
import { truth, whole } from '../../configuration/values.ts'
import { blocks, listenAddress, origins, path } from './kinds.ts'
import type { SettingsReader } from './reader.ts'
import type { HttpSettings } from './types.ts'

const defaultPort = 8080

function readTls(reader: SettingsReader): HttpSettings['tls'] {
  const file = (name: string, variable: string, flag: string) =>
    reader.take(`http.tls.${name}`, path(), { variables: [variable], flag })
  const enabled = reader.take('http.tls.enabled', truth(), { variables: ['TLS_ENABLED'], flag: 'tls' }) ?? false
  const certificateFile = file('cert_file', 'TLS_CERT_FILE', 'cert')
  const keyFile = file('key_file', 'TLS_KEY_FILE', 'key')
  const chainFile = file('chain_file', 'TLS_CHAIN_FILE', 'chain')
  if (!enabled) return undefined
  if (certificateFile === undefined) reader.refuse('http.tls.cert_file', 'must be given where TLS is on')
  if (keyFile === undefined) reader.refuse('http.tls.key_file', 'must be given where TLS is on')
  return { certificateFile: certificateFile ?? '', keyFile: keyFile ?? '', chainFile }
}

function readAuthentication(reader: SettingsReader): HttpSettings['authentication'] {
  const key = (name: string) => `http.auth.${name}`
  const number = (name: string, least: number, most: number) =>
    reader.take(key(name), whole(least, most), { variables: [`AUTH_${name.toUpperCase()}`] })
  const file = (name: string, variable: string, flag: string) =>
    reader.take(key(name), path(), { variables: [variable], flag })
  const enabled = reader.take(key('enabled'), truth(), { variables: ['AUTH_ENABLED'] }) ?? true
  // The flag says the opposite of the key.
  const isOff = reader.take('-no-auth', truth(), { flag: 'no-auth' }) ?? false
  return {
    enabled: enabled && !isOff,
    tokenFile: file('token_file', 'AUTH_TOKEN_FILE', 'token-file') ?? '/etc/espalier/mcp-tokens.yaml',
    userFile: file('user_file', 'AUTH_USER_FILE', 'user-file') ?? '/etc/espalier/mcp-users.yaml',
    rateLimitWindowMinutes: number('rate_limit_window_minutes', 1, 10_080) ?? 15,
    rateLimitMaximumAttempts: number('rate_limit_max_attempts', 1, 10_000) ?? 10,
    maximumFailedAttemptsBeforeLockout: number('max_failed_attempts_before_lockout', 0, 10_000) ?? 0,
  }
}

/** undefined: over stdio. All of it is checked in any case. */
export function readHttp(reader: SettingsReader): HttpSettings | undefined {
  const enabled = reader.take('http.enabled', truth(), { variables: ['HTTP_ENABLED'], flag: 'http' }) ?? false
  const address = reader.take('http.address', listenAddress(), { variables: ['HTTP_ADDRESS'], flag: 'addr' })
  const allowedOrigins = reader.take('http.allowed_origins', origins(), { variables: ['HTTP_ALLOWED_ORIGINS'] })
  const trustedProxies = reader.take('http.client_ip.trusted_proxies', blocks(), {
    variables: ['HTTP_TRUSTED_PROXIES'],
  })
  const tls = readTls(reader)
  const authentication = readAuthentication(reader)
  if (!enabled) return undefined
  // Whoever needs no token is to be on this machine, unless an address says otherwise.
  const anywhere = authentication.enabled ? '*' : '127.0.0.1'
  return {
    host: address === undefined ? anywhere : address.host || '*',
    port: address?.port ?? defaultPort,
    tls,
    allowedOrigins: allowedOrigins ?? [],
    trustedProxies: trustedProxies ?? [],
    authentication,
  }
}
