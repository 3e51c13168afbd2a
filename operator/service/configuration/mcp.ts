/**
 * The tool server, twice: over HTTP at `/mcp/v1`, and over stdio behind the bridge at `/mcp`. Both read one file. Conversations, and what the bridge's authorization server keeps, are in a database
 * of their own, which all pods share. Where there cannot be one, they are on an emptyDir, and a pod that is replaced begins without them.
 */
import { hkdfSync } from 'node:crypto'
import type { ServiceConfig } from '../../../crds/services.ts'
import { mcpStateDatabase, mcpStateRole } from '../../postgres/configuration.ts'
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
/** Variables of the tool server: its part of what replicas need. Addresses differ between pods, and paths are replaced in variables alone. */
const replicaVariables = { authority: 'ESPALIER_STATE_SSLROOTCERT', address: 'ESPALIER_HTTP_PEER_ADDRESS' }

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

/** Known to no client: of the token, each client has a copy. */
const peerSecretOf = ({ password }: { password: string }): { secret: string } => ({ secret: derived(password, 'peer') })

/** Which authorities it trusts, variables say: paths in files are not replaced where pods are processes. */
const stateUrlOf = ({ database: { host, port } }: ServiceInput): string =>
  `postgresql://${mcpStateRole}@${host}:${port}/${mcpStateDatabase}?sslmode=verify-full`

function rendered(input: ServiceInput, config: McpConfig, credentials: McpCredentials, token: string): Rendering {
  const role = config.allowWrites ? 'app' : 'app_read_only'
  const { database, settings } = input
  const toolsFile = (password: string | undefined) => yaml(toolsOf(input, config, { password, role, token }))
  const bridgeFile = (hashes: readonly BuiltinUser[]) =>
    yamlWithVariables(bridgeOf(input, { credentials, token }, hashes))
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
type BridgeLogin = { credentials: McpCredentials; token: string }
type BuiltinUser = { username: string; password_hash: string }

function toolsOf(input: ServiceInput, config: McpConfig, { password, role, token }: Login): object {
  const { database, keys, publicUrl, settings, state } = input
  const { embeddingProvider: provider, embeddingModel } = config
  const baseUrl = provider === undefined ? undefined : baseUrlOf(input, provider).base_url
  return {
    http: {
      // Where the pod's address is one of loopback, the names of its public address are told by this alone.
      ...(publicUrl === undefined ? {} : { allowed_origins: [new URL(publicUrl).origin] }),
      client_ip: { trusted_proxies: settings.trustedProxies },
      ...(state === undefined ? {} : { peer: peerSecretOf(state) }),
    },
    ...(state === undefined ? {} : { state: { url: stateUrlOf(input), password: [state.password] } }),
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

function bridgeOf(input: ServiceInput, { credentials, token }: BridgeLogin, users: readonly BuiltinUser[]): object {
  const { publicUrl, settings, state } = input
  const hasUsers = credentials.users.length > 0 && publicUrl !== undefined
  const all = [['probe', credentials.probe] as const, ...credentials.tokens]
  return {
    server: {
      listen: new Variable(`\${POD_IP}:${bridge}`),
      ...(publicUrl === undefined ? {} : { public_url: bridgeUrlOf(publicUrl) }),
      trusted_proxies: settings.trustedProxies,
      ...(state === undefined
        ? {}
        : { peer: { address: new Variable(`\${POD_IP}:${bridge}`), ...peerSecretOf(state) } }),
      auth: {
        type: hasUsers ? 'oauth' : 'bearer',
        bearer: { valid_tokens: all.map(([name, token]) => ({ name, sha256: tokenDigest(token) })) },
      },
    },
    mcp_server: {
      command: 'espalier',
      args: ['mcp', '-config', new Variable(`\${${variables.toolsFile}}`)],
      env: Object.fromEntries(toolsVariables(input).map(name => [name, new Variable(`\${${name}}`)])),
      graceful_shutdown_timeout: '10s',
    },
    ...(hasUsers
      ? {
          oauth_server: {
            enabled: true,
            ...(state === undefined
              ? {
                  signing: { key_file: new Variable(`\${${variables.state}}/oauth-keys.json`) },
                  state: new Variable(`\${${variables.state}}/oauth-state.sqlite`),
                }
              : {
                  signing: { in_state: true, secret: derived(token, 'signing') },
                  state: stateUrlOf(input),
                  state_password: [state.password],
                }),
            allow_dynamic_registration: true,
            builtin: { users },
          },
        }
      : {}),
  }
}

/** What the tool server behind the bridge is given of the bridge's environment. */
const toolsVariables = ({ state }: ServiceInput): string[] => [
  variables.authority,
  ...(state === undefined ? [] : Object.values(replicaVariables)),
]

const replicaEnvironment = ({ state }: ServiceInput): Record<string, string> =>
  state === undefined
    ? {}
    : {
        [replicaVariables.authority]: fileAt(authorityFile),
        [replicaVariables.address]: `$(POD_IP):${tools}`,
      }

const toolsContainer = (input: ServiceInput): ServiceContainer =>
  container({
    name: 'tools',
    args: ['mcp', '-http', '-config', fileAt(files.tools)],
    environment: {
      ESPALIER_HTTP_ADDRESS: `$(POD_IP):${tools}`,
      ESPALIER_AUTH_TOKEN_FILE: fileAt(files.tokens),
      ESPALIER_AUTH_USER_FILE: fileAt(files.users),
      ESPALIER_DB_SSLROOTCERT: fileAt(authorityFile),
      ESPALIER_DATA_DIR: stateDirectory,
      ...replicaEnvironment(input),
    },
    ports: [{ name: 'tools', port: tools }],
    ready: { port: tools, path: selfCheckPath },
    readiness: { port: tools, path: '/health' },
    resources: input.settings.resources.mcp,
  })

const bridgeContainer = (input: ServiceInput): ServiceContainer =>
  container({
    name: 'bridge',
    args: ['mcp-bridge', '-c', fileAt(files.bridge)],
    environment: {
      [variables.toolsFile]: fileAt(files.tools),
      [variables.state]: stateDirectory,
      [variables.authority]: fileAt(authorityFile),
      ...(input.state === undefined ? {} : { PGSSLROOTCERT: fileAt(authorityFile) }),
      ...replicaEnvironment(input),
    },
    ports: [{ name: 'bridge', port: bridge }],
    ready: { port: bridge, path: selfCheckPath },
    readiness: { port: bridge, path: '/ready' },
    resources: input.settings.resources.mcp,
  })
