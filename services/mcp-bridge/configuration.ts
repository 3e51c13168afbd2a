/**
 * Reads the bridge's file: YAML with `${VARIABLE}` from the environment. Returns settings, or reports all errors at
 * once. No message contains a variable's value. docs/mcp.md documents the keys.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { key, optional, required, type Settings } from '../configuration/declaration.ts'
import { readConfigurationFile } from '../configuration/file.ts'
import { type Checks, load } from '../configuration/loader.ts'
import { readNamedFile } from '../configuration/secrets.ts'
import * as values from '../configuration/values.ts'
import { parseYaml } from '../configuration/yaml.ts'
import { isBlock } from '../http/address.ts'
import { scopes } from '../mcp-protocol/scopes.ts'
import type { ConfiguredToken } from './callers.ts'
import { oauthSettings } from './oauth/configuration.ts'
import { oauthKeys } from './oauth/settings.ts'
import type { BridgeSettings } from './settings.ts'

const secretToken = z.string().min(16, 'must have at least 16 characters')
const token = z
  .union(
    [
      secretToken.transform(text => ({ token: text })),
      z.strictObject({
        name: z.string().regex(/^[\w.@-]{1,64}$/, 'must be 1 to 64 letters, digits and ._@-'),
        token: secretToken.optional(),
        sha256: z
          .string()
          .regex(/^[0-9a-f]{64}$/i, 'must be 64 hexadecimal digits')
          .optional(),
        scopes: z.array(z.enum(scopes)).nonempty().optional(),
      }),
    ],
    'must be a token of at least 16 characters, or a table of name, token or sha256, and scopes',
  )
  .refine(
    one => ('sha256' in one && one.sha256 !== undefined) !== (one.token !== undefined),
    'must have either token or sha256',
  )

const origins = () =>
  values.entries('must be origins without a path, or *', entry => entry === '*' || /^https?:\/\/[^/\s]+$/.test(entry))

export const keys = {
  server: {
    listen: key(values.listenAddress(), '127.0.0.1:8080'),
    public_url: optional(values.httpUri()),
    allowed_hosts: key(
      values.entries('must be host names', () => true),
      '',
    ),
    trusted_proxies: key(values.blocks(isBlock), ''),
    sse_keepalive_interval: key(values.duration(100, 60_000), '20s'),
    max_body_bytes: key(values.integer(1_024, 104_857_600), 10_485_760),
    max_streams: key(values.integer(1, 1_000_000), 2_000),
    max_in_flight: key(values.integer(1, 100_000), 1_000),
    max_in_flight_per_session: key(values.integer(1, 100_000), 100),
    tls: { cert_file: optional(values.path()), key_file: optional(values.path()) },
    peer: { address: optional(values.reachableAddress()), secret: optional(values.longSecret(), { isSecret: true }) },
    cors: { enabled: key(values.truth(), false), allowed_origins: key(origins(), '') },
    auth: {
      type: required(values.choice('none', 'bearer', 'oauth')),
      bearer: { valid_tokens: optional({ type: 'list', schema: z.array(token).nonempty() }) },
    },
  },
  mcp_server: {
    command: required(values.text('must be a command', command => command !== '')),
    args: optional({ type: 'list', rule: 'must be a list of strings', schema: z.array(z.string()) }),
    env: optional({ type: 'string', rule: 'must be a table of strings', schema: z.record(z.string(), z.string()) }),
    dir: optional(values.path()),
    request_timeout: key(values.duration(100, 86_400_000), '5m'),
    graceful_shutdown_timeout: key(values.duration(0, 600_000), '30s'),
    restart_on_failure: key(values.truth(), true),
    max_restarts: key(values.integer(0, 1_000_000), 5),
    restart_delay: key(values.duration(0, 600_000), '5s'),
  },
  session: {
    timeout: key(values.duration(100, 604_800_000), '30m'),
    max_sessions: key(values.integer(1, 1_000_000), 1_000),
    cleanup_interval: key(values.duration(10, 3_600_000), '1m'),
    notification_buffer: key(values.integer(1, 100_000), 100),
  },
  oauth_server: oauthKeys,
  log: { level: key(values.choice('debug', 'info', 'warn', 'error', 'silent'), 'info') },
}

type ReadSettings = Settings<typeof keys>
type Tokens = NonNullable<ReadSettings['server']['auth']['bearer']['validTokens']>

/** The maximum buffer of one session stream, in bytes. */
const streamBytes = 1_048_576

const tokensOf = (tokens: Tokens): ConfiguredToken[] =>
  tokens.map((one, index) => {
    const { name, sha256, scopes: own } = 'name' in one ? one : { name: `${index + 1}` }
    const hash =
      sha256 === undefined
        ? createHash('sha256')
            .update(one.token ?? '')
            .digest()
        : Buffer.from(sha256, 'hex')
    return { name, sha256: hash, scopes: own ?? scopes }
  })

function authenticationOf({ auth }: ReadSettings['server'], { refuse }: Checks): BridgeSettings['authentication'] {
  const { type, bearer } = auth
  const where = 'server.auth.bearer.valid_tokens'
  if (type === 'bearer' && bearer.validTokens === undefined) refuse(where, 'is required with server.auth.type: bearer')
  if (type === 'none' && bearer.validTokens !== undefined)
    refuse(where, 'is only for server.auth.type: bearer or oauth')
  return type === 'none' ? { type } : { type, tokens: tokensOf(bearer.validTokens ?? []) }
}

type InFolder = (path: string) => string

function tlsOf(
  { tls }: ReadSettings['server'],
  inFolder: InFolder,
  { isSet: isGiven, refuse }: Checks,
): BridgeSettings['tls'] {
  // A TLS table without its files is an error: without TLS, the network could read tokens.
  if (!isGiven('server.tls')) return undefined
  const read = (name: string, path: string | undefined): string => {
    if (!isGiven(name)) refuse(name, 'must be set together with its key or certificate')
    const content = path === undefined ? undefined : readNamedFile(inFolder(path), file => readFileSync(file))
    if (content?.kind === 'refused') refuse(name, content.rule)
    return content?.kind === 'text' ? content.text : ''
  }
  return {
    certificate: { cert: read('server.tls.cert_file', tls.certFile), key: read('server.tls.key_file', tls.keyFile) },
    files: { cert: inFolder(tls.certFile ?? ''), key: inFolder(tls.keyFile ?? '') },
  }
}

function peerOf({ peer }: ReadSettings['server'], { isSet: isGiven, refuse }: Checks): BridgeSettings['peer'] {
  const { address, secret } = peer
  if (isGiven('server.peer.address') !== isGiven('server.peer.secret'))
    refuse(`server.peer.${address === undefined ? 'address' : 'secret'}`, 'is required: replicas need both')
  if (address === undefined || secret === undefined) return undefined
  if (isGiven('server.tls'))
    refuse('server.tls', 'cannot be used with server.peer: replicas connect to each other without TLS')
  return { address, secret }
}

/**
 * @param path the file; paths in the file are relative to its folder
 * @throws ConfigurationError
 */
export function readBridgeConfiguration(path: string, environment: NodeJS.ProcessEnv): BridgeSettings {
  const file = readConfigurationFile(path)
  const loaded = load(keys, { parse: parseYaml }, { file, environment, readFile: name => readFileSync(name) })
  const settings = settingsOf(loaded.settings, name => resolve(dirname(resolve(path)), name), loaded)
  loaded.check()
  return settings
}

function settingsOf(read: ReadSettings, inFolder: InFolder, checks: Checks): BridgeSettings {
  const { server, mcpServer: tool, session, log } = read
  const publicUrl = server.publicUrl?.replace(/\/+$/, '')
  const publicHost = publicUrl === undefined ? [] : [new URL(publicUrl).hostname]
  const oauth = oauthSettings(read.oauthServer, publicUrl, inFolder, checks)
  if (server.auth.type === 'oauth' && !read.oauthServer.enabled)
    checks.refuse('server.auth.type', 'must not be oauth without oauth_server.enabled: true')
  return {
    ...server.listen,
    publicUrl,
    tls: tlsOf(server, inFolder, checks),
    origin: {
      cors: { isEnabled: server.cors.enabled, origins: server.cors.allowedOrigins },
      hosts: [...server.allowedHosts.map(host => host.toLowerCase()), ...publicHost],
    },
    trustedProxies: server.trustedProxies,
    peer: peerOf(server, checks),
    keepAliveMs: server.sseKeepaliveInterval,
    maximumBodyBytes: server.maxBodyBytes,
    maximumStreams: server.maxStreams,
    authentication: authenticationOf(server, checks),
    subprocess: {
      command: tool.command,
      args: tool.args ?? [],
      env: tool.env ?? {},
      directory: tool.dir === undefined ? undefined : inFolder(tool.dir),
      restartOnFailure: tool.restartOnFailure,
      maximumRestarts: tool.maxRestarts,
      restartDelayMs: tool.restartDelay,
      gracefulShutdownMs: tool.gracefulShutdownTimeout,
    },
    requestTimeoutMs: tool.requestTimeout,
    maximumInFlight: server.maxInFlight,
    maximumInFlightPerSession: server.maxInFlightPerSession,
    session: {
      timeoutMs: session.timeout,
      maximumSessions: session.maxSessions,
      cleanupIntervalMs: session.cleanupInterval,
      streamBounds: { events: session.notificationBuffer, bytes: streamBytes },
    },
    oauth,
    logLevel: log.level,
  }
}
