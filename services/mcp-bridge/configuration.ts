/**
 * The bridge's file: YAML with `${VARIABLE}` from the environment. It promises settings that can be used, or every problem with the key that it is at; what a variable holds is in no message.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseDocument } from 'yaml'
import { z } from 'zod'
import type { CertificateFiles } from '../../server/certificate.ts'
import { ruleOf } from '../configuration/rule.ts'
import { isBlock } from '../http/address.ts'
import { scopes } from '../mcp-protocol/scopes.ts'
import type { ConfiguredToken } from './callers.ts'
import { BridgeConfigurationError } from './errors.ts'
import { oauthSchema, oauthSettings } from './oauth/configuration.ts'
import { duration } from './oauth/values.ts'
import type { BridgeSettings } from './settings.ts'

const whole = (minimum: number, maximum: number) => z.number().int().min(minimum).max(maximum)

const token = z.union([
  z.string().min(16, 'a token has at least 16 characters'),
  z
    .strictObject({
      name: z.string().regex(/^[\w.@-]{1,64}$/, 'a name has 1 to 64 letters, digits and ._@-'),
      token: z.string().min(16, 'a token has at least 16 characters').optional(),
      sha256: z
        .string()
        .regex(/^[0-9a-f]{64}$/i, 'a SHA-256 is 64 hexadecimal digits')
        .optional(),
      scopes: z
        .array(z.enum(scopes))
        .nonempty()
        .default([...scopes]),
    })
    .refine(one => (one.token === undefined) !== (one.sha256 === undefined), 'either token or sha256 is given'),
])

const listen = z.string().regex(/^(\[[0-9a-fA-F:.]+\]|[^:\s]*):\d{1,5}$/, 'must be host:port, such as 127.0.0.1:8080')
const origin = z.union([z.literal('*'), z.string().regex(/^https?:\/\/[^/\s]+$/, 'must be an origin without a path')])
const url = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })

const fileSchema = z.strictObject({
  server: z.strictObject({
    listen: listen.default('127.0.0.1:8080'),
    public_url: url.optional(),
    allowed_hosts: z.array(z.string().toLowerCase()).default([]),
    trusted_proxies: z
      .array(z.string().refine(isBlock, 'must be an IP address or a CIDR block like fd00::/8'))
      .default([]),
    sse_keepalive_interval: duration(100, 60_000).default(20_000),
    max_body_bytes: whole(1_024, 104_857_600).default(10_485_760),
    max_streams: whole(1, 1_000_000).default(2_000),
    max_in_flight: whole(1, 100_000).default(1_000),
    max_in_flight_per_session: whole(1, 100_000).default(100),
    tls: z.strictObject({ cert_file: z.string(), key_file: z.string() }).optional(),
    cors: z
      .strictObject({ enabled: z.boolean().default(false), allowed_origins: z.array(origin).default([]) })
      .prefault({}),
    auth: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('none') }),
      z.strictObject({
        type: z.literal('bearer'),
        bearer: z.strictObject({ valid_tokens: z.array(token).nonempty() }),
      }),
      z.strictObject({ type: z.literal('oauth') }),
    ]),
  }),
  mcp_server: z.strictObject({
    command: z.string().min(1),
    args: z.array(z.string()).default([]),
    env: z.record(z.string(), z.string()).default({}),
    dir: z.string().optional(),
    request_timeout: duration(100, 86_400_000).default(300_000),
    graceful_shutdown_timeout: duration(0, 600_000).default(30_000),
    restart_on_failure: z.boolean().default(true),
    max_restarts: whole(0, 1_000_000).default(5),
    restart_delay: duration(0, 600_000).default(5_000),
  }),
  session: z
    .strictObject({
      timeout: duration(100, 604_800_000).default(1_800_000),
      max_sessions: whole(1, 1_000_000).default(1_000),
      cleanup_interval: duration(10, 3_600_000).default(60_000),
      notification_buffer: whole(1, 100_000).default(100),
    })
    .prefault({}),
  oauth_server: oauthSchema.optional(),
  log: z.strictObject({ level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info') }).prefault({}),
})

/** Of what one stream of a session may keep. */
const streamBytes = 1_048_576

/** Replaces `${NAME}` in the texts of a document; a `$` by itself stays. */
function expand(value: unknown, environment: NodeJS.ProcessEnv, problems: string[], at: string): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\{([A-Za-z_]\w*)\}/g, (_, name: string) => {
      const found = environment[name]
      if (found === undefined) problems.push(`${at}: the environment variable ${name} is not set`)
      return found ?? ''
    })
  }
  if (Array.isArray(value)) return value.map((one, index) => expand(one, environment, problems, `${at}[${index}]`))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, one]) => {
    return [key, expand(one, environment, problems, at === '' ? key : `${at}.${key}`)] as const
  })
  return Object.fromEntries(entries)
}

function readFileOf(path: string, key: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    throw new BridgeConfigurationError([`${key}: ${path} cannot be read (${code})`])
  }
}

function tokensOf(tokens: readonly z.infer<typeof token>[]): ConfiguredToken[] {
  return tokens.map((one, index) => {
    const {
      name,
      token: text,
      sha256,
      scopes: own,
    } = typeof one === 'string' ? { name: `${index + 1}`, token: one, sha256: undefined, scopes: [...scopes] } : one
    const hash =
      sha256 === undefined
        ? createHash('sha256')
            .update(text ?? '')
            .digest()
        : Buffer.from(sha256, 'hex')
    return { name, sha256: hash, scopes: own }
  })
}

/**
 * @param path of the file: what it names is relative to its folder
 * @throws BridgeConfigurationError
 */
export function readBridgeConfiguration(path: string, environment: NodeJS.ProcessEnv): BridgeSettings {
  const document = parseDocument(readFileOf(path, 'the configuration'))
  const [first] = document.errors
  if (first !== undefined) throw new BridgeConfigurationError([`the configuration is not valid YAML: ${first.message}`])
  const problems: string[] = []
  const expanded = expand(document.toJS(), environment, problems, '')
  if (problems.length > 0) throw new BridgeConfigurationError(problems)
  const read = fileSchema.safeParse(expanded, { error: ruleOf })
  if (!read.success) {
    throw new BridgeConfigurationError(
      read.error.issues.map(({ path: at, message }) => `${at.length === 0 ? 'the file' : at.join('.')}: ${message}`),
    )
  }
  return settingsOf(read.data, dirname(resolve(path)))
}

const tlsOf = (files: CertificateFiles): BridgeSettings['tls'] => ({
  certificate: {
    cert: readFileOf(files.cert, 'server.tls.cert_file'),
    key: readFileOf(files.key, 'server.tls.key_file'),
  },
  files,
})

function settingsOf(file: z.infer<typeof fileSchema>, folder: string): BridgeSettings {
  const { server, mcp_server: tool, session, log } = file
  const inFolder = (path: string) => resolve(folder, path)
  const colon = server.listen.lastIndexOf(':')
  const publicUrl = server.public_url?.replace(/\/+$/, '')
  const publicHost = publicUrl === undefined ? [] : [new URL(publicUrl).hostname]
  const oauth = oauthSettings(file.oauth_server, publicUrl, inFolder)
  const { auth } = server
  if (auth.type === 'oauth' && oauth === undefined)
    throw new BridgeConfigurationError(['server.auth.type: oauth takes oauth_server.enabled: true'])
  return {
    host: server.listen.slice(0, colon).replace(/^\[|\]$/g, ''),
    port: Number(server.listen.slice(colon + 1)),
    publicUrl,
    tls: server.tls && tlsOf({ cert: inFolder(server.tls.cert_file), key: inFolder(server.tls.key_file) }),
    origin: {
      cors: { isEnabled: server.cors.enabled, origins: server.cors.allowed_origins },
      hosts: [...server.allowed_hosts, ...publicHost],
    },
    trustedProxies: server.trusted_proxies,
    keepAliveMs: server.sse_keepalive_interval,
    maximumBodyBytes: server.max_body_bytes,
    maximumStreams: server.max_streams,
    authentication: auth.type === 'bearer' ? { type: 'bearer', tokens: tokensOf(auth.bearer.valid_tokens) } : auth,
    subprocess: {
      command: tool.command,
      args: tool.args,
      env: tool.env,
      directory: tool.dir === undefined ? undefined : inFolder(tool.dir),
      restartOnFailure: tool.restart_on_failure,
      maximumRestarts: tool.max_restarts,
      restartDelayMs: tool.restart_delay,
      gracefulShutdownMs: tool.graceful_shutdown_timeout,
    },
    requestTimeoutMs: tool.request_timeout,
    maximumInFlight: server.max_in_flight,
    maximumInFlightPerSession: server.max_in_flight_per_session,
    session: {
      timeoutMs: session.timeout,
      maximumSessions: session.max_sessions,
      cleanupIntervalMs: session.cleanup_interval,
      streamBounds: { events: session.notification_buffer, bytes: streamBytes },
    },
    oauth,
    logLevel: log.level,
  }
}
