/**
 * The tool server: MCP for Postgres over HTTP or standard input and output, with the helper API. It needs only a
 * configuration and a Postgres, and no other part of Espalier.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import type { Logger } from 'pino'
import { type Certificate, type CertificateFiles, readCertificate } from '../../server/certificate.ts'
import { closeServer, listen } from '../http/listen.ts'
import { Peers, peerPath } from '../http/peers/index.ts'
import { RequestFigures } from '../http/request-figures.ts'
import { followTls } from '../http/tls.ts'
import { SelfCheck, selfCheckPath } from '../mcp-protocol/self-check.ts'
import { createChatProvider } from '../providers/chat/index.ts'
import { runSamples, type SamplesAddress } from '../samples/index.ts'
import { conversationRoutes } from './api/conversations.ts'
import { databaseRoutes } from './api/databases.ts'
import { createApi } from './api/index.ts'
import { createAudit } from './audit.ts'
import { createCatalogue } from './catalogue/index.ts'
import { compactionRoute } from './compaction/index.ts'
import type { DatabaseSettings, HttpSettings, McpSettings } from './configuration/types.ts'
import { PostgresConversations } from './conversations/postgres.ts'
import { SqliteConversations } from './conversations/sqlite.ts'
import type { ConversationStore } from './conversations/store.ts'
import type { Caller } from './core/caller.ts'
import { type Core, type CoreChange, createCore } from './core/index.ts'
import type { Prompt } from './core/prompt.ts'
import type { ResourceProvider } from './core/resource.ts'
import type { Tool } from './core/tool.ts'
import type { Logins } from './credentials/accounts.ts'
import { createAuthentication, type RunningAuthentication } from './credentials/index.ts'
import type { Authentication } from './credentials/types.ts'
import { customPrompt } from './custom/prompts.ts'
import { noDefinitions } from './custom/read.ts'
import { customResources } from './custom/resources.ts'
import { checkStatements } from './custom/statements.ts'
import { createEntries, type DatabaseEntries } from './database/entries.ts'
import { createDatabaseAccess, type Databases } from './database/index.ts'
import { StartError } from './errors.ts'
import { instructionsFor } from './instructions.ts'
import { llmRoutes } from './llm/index.ts'
import { prompts } from './prompts/index.ts'
import { createFingerprint } from './resources/fingerprint.ts'
import { createResources } from './resources/index.ts'
import { createWatch } from './resources/watch.ts'
import { createMcpServer } from './server.ts'
import { serverInfo } from './server-info.ts'
import { warmParser } from './statement/parser.ts'
import { createTools } from './tools/index.ts'
import { createTransports, type Transports } from './transport/index.ts'
import { serveStdio } from './transport/stdio.ts'

/** Providers that another program adds to the providers of the settings. */
type Additions = {
  readonly tools: readonly Tool[]
  readonly resources: readonly ResourceProvider[]
  readonly prompts: readonly Prompt[]
}

type McpOptions = {
  readonly settings: McpSettings
  readonly logger: Logger
  readonly now?: () => number
  /** How often the server checks the certificate files for changes. */
  readonly certificateIntervalMs?: number
  /** `announce` tells clients about changes of the returned providers. */
  readonly additions?: (announce: (change: CoreChange) => void) => Additions
  /** The time after which a call continues as a task. */
  readonly taskDelayMs?: number
}

export type McpService = {
  readonly address: AddressInfo
  /** Replaces the databases. Running calls finish on the previous databases. */
  setDatabases(databases: readonly DatabaseSettings[]): void
  /** Waits some seconds at most for running calls, then stops. */
  stop(): Promise<void>
}

type Parts = {
  readonly core: Core
  readonly transports: Transports
  readonly entries: DatabaseEntries
  readonly databases: Databases
  setDatabases(databases: readonly DatabaseSettings[]): void
}

const stopMs = 10_000

function assemble(options: McpOptions, logins: Logins | undefined, peers?: Peers): Parts {
  const { settings, logger, now = Date.now, taskDelayMs } = options
  const added = options.additions?.(change => core.announce(change))
  const { limits, disabled, sealingKey, auditStatements } = settings
  let configured = settings.databases
  const entries = createEntries(() => configured)
  const databases = createDatabaseAccess({
    maximumBytes: limits.resultBytes,
    audit: createAudit(logger, auditStatements),
    warn: (facts, message) => logger.warn(facts, message),
  })
  databases.prepare(configured)
  const catalogue = createCatalogue(databases, now)
  const custom = settings.custom ?? noDefinitions
  const resources = [
    createResources({ entries, access: databases, catalogue, settings }),
    customResources(custom.resources, { entries, databases, limits }),
    ...(added?.resources ?? []),
  ]
  const core: Core = createCore({
    server: serverInfo,
    instructions: instructionsFor(entries),
    tools: [
      ...createTools({ settings, entries, databases, catalogue, resources, logins, now }),
      ...(added?.tools ?? []),
    ],
    resources,
    prompts: [
      ...prompts.filter(({ definition: { name } }) => !disabled.has(name)),
      ...custom.prompts.map(customPrompt),
      ...(added?.prompts ?? []),
    ],
    follow: createWatch({
      fingerprint: createFingerprint(databases, catalogue),
      entries,
      announce: uri => core.announce({ kind: 'resource', uri }),
      logger,
    }),
  })
  const transports = createTransports({
    core,
    logger,
    sealingKey,
    now,
    peers,
    ...(taskDelayMs === undefined ? {} : { taskDelayMs }),
  })
  const setDatabases = (next: readonly DatabaseSettings[]) => {
    const hadWritable = entries.hasWritable()
    configured = next
    databases.prepare(next)
    core.announce({ kind: 'resources' })
    if (entries.hasWritable() !== hadWritable) core.announce({ kind: 'tools' })
  }
  return { core, transports, entries, databases, setDatabases }
}

const conversationsOf = ({ state, dataDirectory }: McpSettings): ConversationStore =>
  state === undefined ? new SqliteConversations(dataDirectory) : new PostgresConversations(state)

/** The model that summarizes chats: the first provider with a model. */
function summariserOf({ llm }: McpSettings) {
  const settings = llm.find(({ model }) => model !== undefined)
  return settings?.model === undefined ? undefined : { provider: createChatProvider(settings), model: settings.model }
}

function apiOf(
  { settings, logger }: McpOptions,
  entries: DatabaseEntries,
  authentication: RunningAuthentication | undefined,
  conversations: ConversationStore | undefined,
) {
  const routes = [
    ...databaseRoutes(entries),
    ...(conversations === undefined ? [] : conversationRoutes(conversations)),
    compactionRoute(summariserOf(settings)),
    ...llmRoutes(settings.llm),
  ]
  return createApi({ routes, authentication, logger, maximumBodyBytes: settings.limits.requestBytes })
}

/** The caller of the self-check. Like a token for all databases, it may read. */
const ownCaller: Caller = {
  kind: 'token',
  principal: 'token:self-check',
  username: undefined,
  databases: undefined,
  scopes: new Set(['mcp:read']),
  session: 'self-check',
}

const withSelfCheck = ({ authenticate }: Authentication, selfCheck: SelfCheck): Authentication => ({
  authenticate: async (authorization, address) =>
    selfCheck.isOwn(authorization) ? { kind: 'caller', caller: ownCaller } : authenticate(authorization, address),
})

const filesOf = ({ certificateFile, keyFile, chainFile }: NonNullable<HttpSettings['tls']>): CertificateFiles => ({
  cert: certificateFile,
  key: keyFile,
  chain: chainFile,
})

/** @throws StartError */
async function firstCertificate(files: CertificateFiles): Promise<Certificate> {
  try {
    return await readCertificate(files)
  } catch (error) {
    const path = error instanceof Error && 'path' in error ? error.path : undefined
    const key = path === files.cert ? 'cert_file' : path === files.key ? 'key_file' : 'chain_file'
    throw new StartError(`http.tls.${key}: ${path} cannot be read`, error)
  }
}

/** @throws StartError */
async function listenAt(server: Server, { host, port }: HttpSettings): Promise<AddressInfo> {
  const address = await listen(server, { host, port }).catch((error: unknown) => {
    throw new StartError(`http.address: cannot listen on port ${port} of ${host === '' ? 'this machine' : host}`, error)
  })
  if (typeof address === 'string') throw new Error('the server listens on no port')
  return address
}

/**
 * Serves over HTTP. @throws CredentialError if a credential file is invalid; StartError; ConfigurationError if a
 * statement of the custom definitions is invalid
 */
export async function startMcp(
  options: McpOptions & {
    readonly http: HttpSettings
    /** The address that serves metric samples; undefined: none. */
    readonly samples?: SamplesAddress | undefined
  },
): Promise<McpService> {
  const { settings, logger, http, now } = options
  await checkStatements(settings.custom ?? noDefinitions)
  const files = http.tls && filesOf(http.tls)
  const certificate = files && (await firstCertificate(files))
  const peers = http.peer && new Peers(http.peer, 'mcp')
  const nameOf = peers && ((random: string) => peers.mint('login', random))
  const authentication = http.authentication.enabled
    ? await createAuthentication({ settings: http.authentication, logger, nameOf, ...(now && { now }) })
    : undefined
  const selfCheck = new SelfCheck()
  const { core, transports, entries, databases, setDatabases } = assemble(options, authentication, peers)
  const conversations = authentication && conversationsOf(settings)
  const requests = new RequestFigures(['/health', selfCheckPath, peerPath])
  const server = createMcpServer({
    transports,
    requests,
    settings: http,
    tls: certificate,
    maximumBodyBytes: settings.limits.requestBytes,
    authentication: authentication && withSelfCheck(authentication, selfCheck),
    peers,
    selfCheck,
    api: apiOf(options, entries, authentication, conversations),
  })

  const following =
    files &&
    certificate &&
    followTls(server, { files, current: certificate, intervalMs: options.certificateIntervalMs, logger })

  let samples: Awaited<ReturnType<typeof runSamples>>

  async function stop(): Promise<void> {
    following?.stop()
    transports.modern.close()
    const sampling = samples?.stop()
    await closeServer(server, stopMs)
    await sampling
    peers?.close()
    await authentication?.stop()
    conversations?.close()
    databases.close()
  }

  try {
    const address = await listenAt(server, http)
    selfCheck.begin({ host: http.host, port: address.port, isTls: files !== undefined, path: '/mcp/v1' })
    const { toolFigures } = core
    // Long-lived connections of older clients are sessions of the bridge, so this server has none.
    const own = () => ({ sessions: 0, tool_calls: toolFigures.calls, tool_failures: toolFigures.failures })
    samples = await runSamples(options.samples, { service: 'mcp', requests, own, ...(now && { now }) }, logger)
    warmParser()
    return { address, setDatabases, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Serves one client, or a bridge, over two streams. Resolves at the end of the input. */
export async function serveMcpOverStdio(
  options: McpOptions & { readonly input: Readable; readonly output: Writable },
): Promise<void> {
  const { input, output, settings } = options
  await checkStatements(settings.custom ?? noDefinitions)
  const { transports, databases } = assemble(options, undefined)
  warmParser()
  try {
    await serveStdio({ transports, input, output, maximumLineBytes: settings.limits.requestBytes })
  } finally {
    databases.close()
  }
}
