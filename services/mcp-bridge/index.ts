/**
 * Assembles the bridge: HTTP, sessions and streams, the tool server's process, and, if configured, the authorization
 * server.
 */
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { version } from '../../server/version.ts'
import { json, jsonError, wrongMethod } from '../http/json-answers.ts'
import { closeServer, listen } from '../http/listen.ts'
import type { Handler, HttpResponse, IncomingBody, RequestHead } from '../http/message.ts'
import { envelopeBytes, Peers, peerPath } from '../http/peers/index.ts'
import { RequestFigures } from '../http/request-figures.ts'
import { getRoutes, matchRoute } from '../http/router.ts'
import { makeServer } from '../http/server.ts'
import { followTls } from '../http/tls.ts'
import { EventMemory } from '../mcp-protocol/event-memory.ts'
import { SelfCheck, selfCheckPath } from '../mcp-protocol/self-check.ts'
import { runSamples, type SamplesAddress } from '../samples/index.ts'
import { empty, renderRefusal, withHeaders } from './answers.ts'
import { Backend } from './backend.ts'
import { type Authenticate, allowAnyone, type BridgeCaller, byConfiguredTokens } from './callers.ts'
import { Endpoint } from './endpoint.ts'
import type { AuthorizationServer } from './oauth/index.ts'
import type { OAuthSettings } from './oauth/settings.ts'
import { checkOrigin, corsHeaders } from './origin.ts'
import { Replicas } from './replicas.ts'
import { Sessions } from './session.ts'
import type { BridgeSettings } from './settings.ts'
import { Watchers } from './watchers.ts'

type BridgeOptions = {
  /** How often the bridge checks the certificate files for changes. */
  readonly certificateIntervalMs?: number
  /** Aborts a start that is still waiting for the authorization server's state. */
  readonly stopping?: AbortSignal
  /** The address that serves metric samples; undefined: none. */
  readonly samples?: SamplesAddress | undefined
}

type Bridge = {
  readonly address: AddressInfo
  stop(): Promise<void>
}

const headerBytes = 32_768
const gracePeriodMs = 10_000
/** The memory limit of all buffered events together. */
const bufferedBytes = 67_108_864
const leastConnections = 10_000

/** Loads the module only if needed, because it takes 8 MB. */
async function authorizationServer(
  settings: OAuthSettings,
  logger: Logger,
  stopping: AbortSignal,
): Promise<AuthorizationServer> {
  const { startAuthorizationServer } = await import('./oauth/index.ts')
  return startAuthorizationServer(settings, logger, stopping)
}

function authenticator(settings: BridgeSettings, oauth: AuthorizationServer | undefined): Authenticate {
  const { authentication } = settings
  if (authentication.type === 'none') return allowAnyone
  const { tokens } = authentication
  if (authentication.type === 'bearer') return byConfiguredTokens(tokens)
  // The configuration check has already ensured this.
  if (oauth === undefined) throw new Error('authentication by OAuth without an authorization server')
  return tokens.length === 0 ? oauth.authenticate : byConfiguredTokens(tokens, oauth.authenticate)
}

function health(backend: Backend): HttpResponse {
  if (!backend.hasFailed) return json(200, { status: 'healthy' })
  return json(503, { status: 'unhealthy', error: 'the tool server has ended and is not restarted' })
}

const readiness = (backend: Backend): HttpResponse =>
  backend.isReady
    ? json(200, { status: 'ready' })
    : json(503, { status: 'not_ready', reason: 'mcp_subprocess_not_running' })

/** These probes need no authentication, and no allowed Host or Origin. */
const probes = [...getRoutes('/health', health), ...getRoutes('/ready', readiness)]

function cannotListen({ host, port }: BridgeSettings, error: unknown): Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  const reason = code === 'EADDRINUSE' ? 'another program uses this port' : code
  return new Error(`server.listen: cannot listen on port ${port} of ${host}: ${reason}`, { cause: error })
}

/** The caller of the self-check, which only reads. */
const ownCaller: BridgeCaller = {
  kind: 'token',
  principal: 'token:self-check',
  username: undefined,
  scopes: new Set(['mcp:read']),
  session: 'token:self-check',
}

type HandlerParts = {
  readonly settings: BridgeSettings
  readonly oauth: AuthorizationServer | undefined
  readonly backend: Backend
  readonly endpoint: Endpoint
  readonly peers: Peers | undefined
  readonly selfCheck: SelfCheck
}

function handlerOf({ settings, oauth, backend, endpoint, peers, selfCheck }: HandlerParts): Handler {
  const known = authenticator(settings, oauth)
  const authenticate: Authenticate = async authorization =>
    selfCheck.isOwn(authorization) ? ownCaller : known(authorization)
  const metadataUrlOf = (path: string) =>
    settings.authentication.type === 'oauth' ? oauth?.metadataUrlOf(path) : undefined

  async function answer(head: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> {
    const { path, method, headers } = head
    if (method === 'OPTIONS') return empty(204, [['Allow', 'GET, POST, DELETE, OPTIONS']])
    const authorized = await oauth?.handle(head, body)
    if (authorized !== undefined) return authorized
    if (path !== '/mcp' && path !== '/') return jsonError(404, 'unknown path')
    const caller = { ...(await authenticate(headers.authorization)), address: head.address }
    return endpoint.answer({ head, body, signal, caller, metadataUrl: metadataUrlOf(path) })
  }

  async function handle(head: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> {
    if (head.path === selfCheckPath && head.method === 'GET') return selfCheck.answer()
    const probe = matchRoute(probes, head)
    if (probe.kind === 'route') return probe.route.answer(backend)
    if (probe.kind === 'other method') return wrongMethod(probe.allowed)
    const forwarded = await peers?.serve(head, body, (own, read) => handleOwn(own, read, signal))
    return forwarded ?? handleOwn(head, body, signal)
  }

  async function handleOwn(head: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> {
    const isPublic = oauth?.isPublic(head.path) ?? false
    const cors = isPublic ? oauth?.publicHeaders(head.headers) : corsHeaders(head.headers, settings.origin)
    const render = (error: unknown) => {
      const refusal = renderRefusal(error, metadataUrlOf(head.path))
      if (refusal === undefined) throw error
      return refusal
    }
    try {
      if (!isPublic) checkOrigin(head.headers, settings.origin)
      return withHeaders(await answer(head, body, signal).catch(render), cors ?? [])
    } catch (error) {
      return withHeaders(render(error), cors ?? [])
    }
  }

  return handle
}

/** @throws Error if the bridge cannot listen; errors of opening the authorization server's state */
export async function startBridge(
  settings: BridgeSettings,
  logger: Logger,
  { certificateIntervalMs, stopping = new AbortController().signal, samples: samplesAddress }: BridgeOptions = {},
): Promise<Bridge> {
  const streamLimits = { ...settings.session.streamBounds, memory: new EventMemory(bufferedBytes) }
  const oauth = settings.oauth && (await authorizationServer(settings.oauth, logger, stopping))
  const watchers = new Watchers(settings.maximumStreams, streamLimits)
  const { requestTimeoutMs, maximumInFlight, maximumInFlightPerSession, maximumBodyBytes } = settings
  const backend = new Backend(
    { ...settings.subprocess, requestTimeoutMs, maximumInFlight, maximumInFlightPerSession, version },
    { onBroadcast: message => watchers.notify(undefined, message), sessions: () => sessions.all() },
    logger,
  )
  const peers = settings.peer && new Peers(settings.peer, 'mcp-bridge')
  const replicas = new Replicas(peers)
  const sessions = new Sessions(
    { ...settings.session, streamLimits },
    {
      nameOf: random => replicas.sessionId(random),
      onClose: session => backend.closed(session),
      onNotification: (session, message) => {
        // If the server does not distinguish connections, `onBroadcast` notifies the streams without a session.
        if (backend.distinguishesSessions) watchers.notify(session.caller.principal, message)
      },
    },
  )
  const endpoint = new Endpoint({ backend, sessions, watchers, replicas, streamLimits, maximumBodyBytes })

  const selfCheck = new SelfCheck()
  const handle = handlerOf({ settings, oauth, backend, endpoint, peers, selfCheck })

  const requests = new RequestFigures(['/health', '/ready', selfCheckPath, peerPath])
  const server = makeServer({
    requests,
    product: `espalier-mcp-bridge/${version}`,
    maximumBodyBytes: maximumBodyBytes + (peers === undefined ? 0 : envelopeBytes),
    maximumHeaderBytes: headerBytes,
    tls: settings.tls?.certificate,
    trustedProxies: settings.trustedProxies,
    maximumConnections: Math.max(leastConnections, 2 * settings.maximumStreams),
    rules: () => ({ cors: undefined, traceHeader: undefined }),
    handle,
    renderError: error => {
      const refusal = renderRefusal(error, undefined)
      if (refusal !== undefined) return refusal
      logger.error({ err: error }, 'a request failed')
      return jsonError(500, 'internal error')
    },
  })
  const { host, port } = settings
  const address = await listen(server, { host, port }).catch((error: unknown) => {
    throw cannotListen(settings, error)
  })
  if (typeof address === 'string') throw new Error('the server listens on no port')
  backend.start()
  selfCheck.begin({ host: host || '*', port: address.port, isTls: settings.tls !== undefined, path: '/mcp' })
  const { tls } = settings
  const following =
    tls && followTls(server, { files: tls.files, current: tls.certificate, intervalMs: certificateIntervalMs, logger })
  const own = () => {
    const { calls, failures } = backend.toolFigures
    return { sessions: sessions.count, tool_calls: calls, tool_failures: failures }
  }
  const samples = await runSamples(samplesAddress, { service: 'mcp', requests, own }, logger)
  const timers = [
    setInterval(() => watchers.keepAlive(), settings.keepAliveMs),
    setInterval(() => sessions.expire(), settings.session.cleanupIntervalMs),
  ]
  return {
    address,
    async stop() {
      for (const timer of timers) clearInterval(timer)
      following?.stop()
      const sampling = samples?.stop()
      const reason = 'the server is shutting down'
      const closed = closeServer(server, gracePeriodMs)
      sessions.closeStreams(reason)
      watchers.close(reason)
      // Running requests finish, and clients reconnect to another replica.
      await backend.drained(gracePeriodMs)
      sessions.closeAll(reason)
      await Promise.all([closed, backend.stop(), sampling])
      peers?.close()
      await oauth?.stop()
    },
  }
}
