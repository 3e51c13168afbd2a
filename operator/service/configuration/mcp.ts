/**
 * The tool server runs twice: over HTTP at `/mcp/v1`, and over stdio behind the bridge at `/mcp`. Both read one file. A
 * separate database has the conversations, and the state of the bridge's authorization server. All pods share it. If it
 * cannot be created, each pod has them on an emptyDir, and a replaced pod starts without them.
 */
import { hkdfSync } from 'node:crypto'
import type { ServiceConfig } from '../../../crds/services.ts'
import { mcpStateDatabase, mcpStateRole } from '../../postgres/configuration.ts'
import { credentialsOf, type McpCredentials, tokenFileOf, userFileOf } from './mcp-credentials.ts'
import {
  authorityFile,
  baseUrlOf,
  container,
  fileAt,
  newest,
  passwordsOf,
  samplesVariables,
  selfCheckPath,
} from './parts.ts'
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
}
const stateDirectory = '/var/lib/espalier/mcp'
const { tools, bridge, toolsSamples, bridgeSamples } = servicePorts.mcp
/** Environment variables that the bridge's file refers to. */
const variables = { toolsFile: 'TOOLS_FILE', state: 'STATE_DIRECTORY', authority: 'ESPALIER_DB_SSLROOTCERT' }
/**
 * The tool server's environment variables for replicas. The addresses differ between pods, and the runtime replaces
 * paths only in variables.
 */
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
  return rendered(input, config, read.credentials, token)
}

/** A secret derived from the token. It is the same in every replica and after every rollout. */
const derived = (token: string, purpose: string): string =>
  Buffer.from(hkdfSync('sha256', token, '', `espalier mcp ${purpose}`, 32)).toString('base64url')

/** A secret that no client knows. The token is not suitable, because each client has it. */
const peerSecretOf = ({ password }: { password: string }): { secret: string } => ({ secret: derived(password, 'peer') })

/** The trusted authorities are in variables: if pods run as processes, the runtime does not replace paths in files. */
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
      files: async () => {
        const users = await userFileOf(credentials, derived(token, 'salt'))
        return {
          [files.tools]: toolsFile(passwordsOf(input, role)),
          [files.bridge]: bridgeFile(users.hashes),
          [files.tokens]: yaml(tokenFileOf(credentials)),
          [files.users]: yaml(users.file),
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
      // If the pod's address is a loopback address, only this variable contains the names in its public address.
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
        // Both servers have a pool. Together they use at most the connections of one service.
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

/**
 * The bridge's own address is that of the database: it serves `/mcp`, and its authorization server's paths beside it.
 */
const bridgeUrlOf = (publicUrl: string): string => publicUrl.replace(/\/mcp\/?$/, '')

function bridgeOf(input: ServiceInput, { credentials, token }: BridgeLogin, users: readonly BuiltinUser[]): object {
  const { publicUrl, settings, state } = input
  const hasUsers = credentials.users.length > 0 && publicUrl !== undefined
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
        bearer: { valid_tokens: credentials.tokens.map(([name, token]) => ({ name, sha256: tokenDigest(token) })) },
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

/** The variables of the bridge that it passes to the tool server behind it. */
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
      ...samplesVariables(toolsSamples),
    },
    ports: [
      { name: 'tools', port: tools },
      { name: 'tools-samples', port: toolsSamples },
    ],
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
      ...samplesVariables(bridgeSamples),
    },
    ports: [
      { name: 'bridge', port: bridge },
      { name: 'bridge-samples', port: bridgeSamples },
    ],
    ready: { port: bridge, path: selfCheckPath },
    readiness: { port: bridge, path: '/ready' },
    resources: input.settings.resources.mcp,
  })
