/**
 * The tool server, twice: over HTTP at `/mcp/v1`, and over stdio behind the bridge at `/mcp`. Both read one file. Conversations, and what the bridge's authorization server keeps, are on an emptyDir:
 * a pod that is replaced begins without them.
 */
import { hkdfSync } from 'node:crypto'
import type { ServiceConfig } from '../../../crds/services.ts'
import { credentialsOf, type McpCredentials, tokenFileOf, userFileOf } from './mcp-credentials.ts'
import { authorityFile, baseUrlOf, container, fileAt, newest, passwordsOf } from './parts.ts'
import { servicePorts } from './ports.ts'
import { Variable, yaml, yamlWithVariables } from './text.ts'
import { tokenDigest } from './token-digest.ts'
import type { Rendering, ServiceContainer, ServiceInput } from './types.ts'

type McpConfig = NonNullable<ServiceConfig['mcp']>

const files = {
  tools: 'mcp.yaml',
  bridge: 'bridge.yaml',
  tokens: 'tokens.yaml',
  users: 'users.yaml',
  probe: 'probe-token',
}
/** The servers answer it once a tool has read from the database over their own protocol. */
const selfCheckPath = '/ready/database'
const stateDirectory = '/var/lib/espalier/mcp'
const { tools, bridge } = servicePorts.mcp
/** Variables of the bridge's container that its file names. */
const variables = { toolsFile: 'TOOLS_FILE', state: 'STATE_DIRECTORY', authority: 'ESPALIER_DB_SSLROOTCERT' }

export function renderMcp(input: ServiceInput, config: McpConfig): Rendering {
  const refuse = (fields: readonly string[], message: string): Rendering => ({
    kind: 'refused',
    type: 'mcp',
    fields,
    message,
  })
  const { token } = input.minted
  if (token === undefined) return refuse(['token'], 'mcp has no token yet')
  if (config.embeddingProvider !== undefined && input.keys.embedding_api_key === undefined)
    return refuse(['embedding_api_key'], 'mcp: the Secret has no embedding_api_key')
  const read = credentialsOf(input.keys, token)
  if (read.kind === 'refused') return refuse([read.field], `mcp: ${read.field} ${read.rule}`)
  return rendered(input, config, { ...read.credentials, probe: derived(token, 'probe') }, token)
}

/** The same in every replica and after every rollout. */
const derived = (token: string, purpose: string): string =>
  Buffer.from(hkdfSync('sha256', token, '', `espalier mcp ${purpose}`, 32)).toString('base64url')

function rendered(input: ServiceInput, config: McpConfig, credentials: McpCredentials, token: string): Rendering {
  const role = config.allowWrites ? 'app' : 'app_read_only'
  const { database, settings } = input
  const toolsFile = (password: string | undefined) => yaml(toolsOf(input, config, { password, role, token }))
  const bridgeFile = (hashes: readonly BuiltinUser[]) => yamlWithVariables(bridgeOf(input, credentials, hashes))
  return {
    kind: 'rendered',
    service: {
      get files() {
        const users = userFileOf(credentials, derived(token, 'salt'))
        return {
          [files.tools]: toolsFile(passwordsOf(input, role)),
          [files.bridge]: bridgeFile(users.hashes),
          [files.tokens]: yaml(tokenFileOf(credentials)),
          [files.users]: yaml(users.file),
          [files.probe]: `${credentials.probe}\n`,
          [authorityFile]: database.authority,
        }
      },
      containers: [toolsContainer(input), bridgeContainer(input)],
      writable: [stateDirectory],
      terminationGracePeriodSeconds: 30,
      essential: [
        toolsFile(newest(input, role)),
        bridgeFile([]),
        credentials,
        database.authority,
        settings.resources.mcp,
      ],
    },
  }
}

type Login = { password: string | undefined; role: string; token: string }
type BuiltinUser = { username: string; password_hash: string }

function toolsOf(input: ServiceInput, config: McpConfig, { password, role, token }: Login): object {
  const { database, keys, publicUrl, settings } = input
  const { embeddingProvider: provider, embeddingModel } = config
  const baseUrl = provider === undefined ? undefined : baseUrlOf(input, provider).base_url
  return {
    http: {
      // Where the pod's address is one of loopback, the names of its public address are told by this alone.
      ...(publicUrl === undefined ? {} : { allowed_origins: [new URL(publicUrl).origin] }),
      client_ip: { trusted_proxies: settings.trustedProxies },
    },
    databases: [
      {
        name: database.name,
        host: database.host,
        port: database.port,
        database: database.name,
        user: role,
        password,
        sslmode: 'verify-full',
        allow_writes: config.allowWrites,
        // Two servers have a pool each, and the database's connections are its user's.
        pool_max_conns: 4,
        pool_max_conn_idle_time: '1m',
      },
    ],
    ...(provider === undefined
      ? {}
      : {
          embedding: {
            provider,
            model: embeddingModel,
            [`${provider}_api_key`]: keys.embedding_api_key,
            ...(baseUrl === undefined ? {} : { [`${provider}_base_url`]: baseUrl }),
          },
        }),
    secret: derived(token, 'secret'),
  }
}

/** The bridge's own address is that of the database: it serves `/mcp`, and the paths of its authorization server beside it. */
const bridgeUrlOf = (publicUrl: string): string => publicUrl.replace(/\/mcp\/?$/, '')

function bridgeOf(input: ServiceInput, credentials: McpCredentials, users: readonly BuiltinUser[]): object {
  const { publicUrl, settings } = input
  const hasUsers = credentials.users.length > 0 && publicUrl !== undefined
  const all = [['probe', credentials.probe] as const, ...credentials.tokens]
  return {
    server: {
      listen: new Variable(`\${POD_IP}:${bridge}`),
      ...(publicUrl === undefined ? {} : { public_url: bridgeUrlOf(publicUrl) }),
      trusted_proxies: settings.trustedProxies,
      auth: {
        type: hasUsers ? 'oauth' : 'bearer',
        bearer: { valid_tokens: all.map(([name, token]) => ({ name, sha256: tokenDigest(token) })) },
      },
    },
    mcp_server: {
      command: 'espalier',
      args: ['mcp', '-config', new Variable(`\${${variables.toolsFile}}`)],
      env: { [variables.authority]: new Variable(`\${${variables.authority}}`) },
      graceful_shutdown_timeout: '10s',
    },
    ...(hasUsers
      ? {
          oauth_server: {
            enabled: true,
            signing: { key_file: new Variable(`\${${variables.state}}/oauth-keys.json`) },
            state: new Variable(`\${${variables.state}}/oauth-state.sqlite`),
            allow_dynamic_registration: true,
            builtin: { users },
          },
        }
      : {}),
  }
}

const toolsContainer = ({ settings }: ServiceInput): ServiceContainer =>
  container({
    name: 'tools',
    args: ['mcp', '-http', '-config', fileAt(files.tools)],
    environment: {
      ESPALIER_HTTP_ADDRESS: `$(POD_IP):${tools}`,
      ESPALIER_AUTH_TOKEN_FILE: fileAt(files.tokens),
      ESPALIER_AUTH_USER_FILE: fileAt(files.users),
      ESPALIER_DB_SSLROOTCERT: fileAt(authorityFile),
      ESPALIER_DATA_DIR: stateDirectory,
    },
    ports: [{ name: 'tools', port: tools }],
    ready: { port: tools, path: selfCheckPath },
    readiness: { port: tools, path: '/health' },
    resources: settings.resources.mcp,
  })

const bridgeContainer = ({ settings }: ServiceInput): ServiceContainer =>
  container({
    name: 'bridge',
    args: ['mcp-bridge', '-c', fileAt(files.bridge)],
    environment: {
      [variables.toolsFile]: fileAt(files.tools),
      [variables.state]: stateDirectory,
      [variables.authority]: fileAt(authorityFile),
    },
    ports: [{ name: 'bridge', port: bridge }],
    ready: { port: bridge, path: selfCheckPath },
    readiness: { port: bridge, path: '/ready' },
    resources: settings.resources.mcp,
  })
