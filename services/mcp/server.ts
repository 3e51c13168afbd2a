/**
 * The tool server over HTTP: the protocol at /mcp/v1, the helper endpoints under /api, and whether it is well. Whatever it refuses itself is told
 * as JSON, `{"error": ...}`.
 */
import type { Server } from 'node:http'
import type { Certificate } from '../../server/certificate.ts'
import { HttpError } from '../http/errors.ts'
import type { Handler, HttpResponse, RequestHead } from '../http/message.ts'
import { makeServer } from '../http/server.ts'
import { isAllowedSite, isLocalAddress } from '../mcp-protocol/origin.ts'
import type { HttpSettings } from './configuration/types.ts'
import type { Authentication } from './credentials/types.ts'
import { createEndpoint, httpError } from './wire/http.ts'
import type { Wires } from './wire/index.ts'

type ServerOptions = {
  readonly wires: Wires
  readonly settings: Pick<HttpSettings, 'host' | 'allowedOrigins' | 'trustedProxies'>
  readonly maximumBodyBytes: number
  readonly tls?: Certificate | undefined
  /** undefined: off. */
  readonly authentication: Authentication | undefined
  /** Where clients find out how to get a token, where there is such a place. */
  readonly resourceMetadata?: string | undefined
  /** Answers what is under /api/. */
  readonly api: Handler
}

const maximumHeaderBytes = 16_384
const cors = { methods: 'GET, POST, PUT, PATCH, DELETE, OPTIONS', exposedHeaders: 'WWW-Authenticate' }

/** What nobody foresaw has been logged by whoever knows more of it. */
function renderError(error: unknown, report: (error: unknown) => void): HttpResponse {
  if (error instanceof HttpError) {
    return error.fault.kind === 'body too large'
      ? httpError(413, `the body must have at most ${error.fault.maximumBytes} bytes`)
      : httpError(503, 'too much is under way, try again', [['Retry-After', '1']])
  }
  report(error)
  return httpError(500, 'internal error')
}

/** Not listening yet. */
export function createMcpServer(options: ServerOptions): Server {
  const { wires, settings, maximumBodyBytes, tls, authentication, resourceMetadata, api } = options
  const { name, version } = wires.core.server
  const access = { origins: settings.allowedOrigins, isLocal: isLocalAddress(settings.host) }
  const endpoint = createEndpoint({ ...wires, authentication, access, resourceMetadata })
  const health = JSON.stringify({ status: 'ok', server: name, version })

  const healthAnswer = ({ method }: RequestHead): HttpResponse =>
    method === 'GET' || method === 'HEAD'
      ? { status: 200, headers: [['Content-Type', 'application/json']], body: health }
      : httpError(405, 'GET is the only method here', [['Allow', 'GET, HEAD']])

  const handle: Handler = async (head, body, signal) => {
    const { path } = head
    if (path === '/mcp/v1') return endpoint(head, body, signal)
    if (path === '/health') return healthAnswer(head)
    if (!path.startsWith('/api/')) return httpError(404, 'there is nothing here')
    if (!isAllowedSite(head.headers, access)) return httpError(403, 'requests of this site are not allowed')
    return api(head, body, signal)
  }

  const rules = () => ({ cors: { ...cors, origins: settings.allowedOrigins }, traceHeader: undefined })
  return makeServer({
    product: `${name}/${version}`,
    maximumBodyBytes,
    tls,
    maximumHeaderBytes,
    trustedProxies: settings.trustedProxies,
    rules,
    handle,
    renderError: error =>
      renderError(error, unforeseen => wires.logger.error({ err: unforeseen }, 'a request failed outside its handler')),
  })
}
