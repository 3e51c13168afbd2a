/**
 * The tool server over HTTP: MCP at /mcp/v1, the helper API under /api, and health checks. Errors of the server itself
 * are JSON: `{"error": ...}`.
 */
import type { Server } from 'node:http'
import type { Certificate } from '../../server/certificate.ts'
import { wellFormedBearerToken } from '../authentication/bearer.ts'
import { bodyRefusal, json, jsonError, wrongMethod } from '../http/json-answers.ts'
import type { Handler, HttpResponse } from '../http/message.ts'
import { envelopeBytes, PeerFailure, type Peers, readAgain } from '../http/peers/index.ts'
import { readBody } from '../http/read-body.ts'
import type { RequestFigures } from '../http/request-figures.ts'
import { getRoutes, matchRoute } from '../http/router.ts'
import { makeServer } from '../http/server.ts'
import { isLocalAddress, refusedHeader, type SiteRules } from '../mcp-protocol/origin.ts'
import { type SelfCheck, selfCheckPath } from '../mcp-protocol/self-check.ts'
import type { HttpSettings } from './configuration/types.ts'
import type { Authentication } from './credentials/types.ts'
import { createEndpoint } from './transport/http.ts'
import type { Transports } from './transport/index.ts'

type ServerOptions = {
  readonly transports: Transports
  readonly settings: Pick<HttpSettings, 'host' | 'allowedOrigins' | 'trustedProxies'>
  readonly maximumBodyBytes: number
  readonly tls?: Certificate | undefined
  /** undefined: authentication is off. */
  readonly authentication: Authentication | undefined
  /** The URL of the OAuth metadata, if configured. */
  readonly resourceMetadata?: string | undefined
  readonly selfCheck?: SelfCheck
  readonly requests?: RequestFigures
  /** undefined if there is only one process. */
  readonly peers?: Peers | undefined
  /** Answers requests under /api/. */
  readonly api: Handler
}

const maximumHeaderBytes = 16_384
const cors = { methods: 'GET, POST, PUT, PATCH, DELETE, OPTIONS', exposedHeaders: 'WWW-Authenticate' }

/** Other code, which knows more about unexpected errors, has already logged them. */
function renderError(error: unknown, report: (error: unknown) => void): HttpResponse {
  const refusal = bodyRefusal(error)
  if (refusal !== undefined) return jsonError(refusal.status, refusal.error, refusal.headers)
  if (error instanceof PeerFailure) return jsonError(502, error.message)
  report(error)
  return jsonError(500, 'internal error')
}

/** Creates the server, which does not listen yet. */
export function createMcpServer(options: ServerOptions): Server {
  const { transports, settings, maximumBodyBytes, tls, authentication, resourceMetadata, api, peers, selfCheck } =
    options
  const { name, version } = transports.core.server
  const sites: SiteRules = { origins: settings.allowedOrigins, hosts: isLocalAddress(settings.host) ? [] : 'any' }
  const endpoint = createEndpoint({
    ...transports,
    ...{ authentication, sites, resourceMetadata, peers, maximumBodyBytes },
  })

  const routes = getRoutes('/health', json(200, { status: 'ok', server: name, version }))

  /** Forwards a request to the process that has the caller's login in its memory. */
  const handleOrForward: Handler = async (head, body, signal) => {
    const token = wellFormedBearerToken(head.headers.authorization)
    const owner = token === undefined ? undefined : peers?.read('login', token).owner
    if (peers === undefined || owner === undefined) return handleOwn(head, body, signal)
    const bytes = await readBody(body, maximumBodyBytes)
    const answer = await peers.forward(owner, { head, body: bytes, signal })
    return answer ?? handleOwn(head, readAgain(bytes, body), signal)
  }
  const handle: Handler = async (head, body, signal) => {
    const forwarded = await peers?.serve(head, body, (own, read) => handleOwn(own, read, signal))
    return forwarded ?? handleOrForward(head, body, signal)
  }
  const handleOwn: Handler = async (head, body, signal) => {
    const { path, method } = head
    if (path === selfCheckPath && method === 'GET' && selfCheck !== undefined) return selfCheck.answer()
    if (path === '/mcp/v1') return endpoint(head, body, signal)
    if (path.startsWith('/api/')) {
      if (refusedHeader(head.headers, sites) !== undefined) return jsonError(403, 'this Host or Origin is not allowed')
      return api(head, body, signal)
    }
    const matched = matchRoute(routes, head)
    if (matched.kind === 'nothing') return jsonError(404, 'unknown path')
    return matched.kind === 'route' ? matched.route.answer : wrongMethod(matched.allowed)
  }

  const rules = () => ({ cors: { ...cors, origins: settings.allowedOrigins }, traceHeader: undefined })
  return makeServer({
    product: `${name}/${version}`,
    maximumBodyBytes: maximumBodyBytes + (peers === undefined ? 0 : envelopeBytes),
    tls,
    maximumHeaderBytes,
    trustedProxies: settings.trustedProxies,
    requests: options.requests,
    rules,
    handle,
    renderError: error =>
      renderError(error, unforeseen =>
        transports.logger.error({ err: unforeseen }, 'a request failed outside its handler'),
      ),
  })
}
