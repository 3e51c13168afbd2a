/** The retrieval server over HTTP: its routes, and responses to unknown paths. */
import type { Server } from 'node:http'
import type { Logger } from 'pino'
import type { Certificate } from '../../../server/certificate.ts'
import { version } from '../../../server/version.ts'
import type { CorsRules } from '../../http/cors.ts'
import type { Handler, HttpResponse, IncomingBody, RequestHead, UnreadRequest } from '../../http/message.ts'
import type { RequestFigures } from '../../http/request-figures.ts'
import { getRoutes, matchRoute, type PathParameters } from '../../http/router.ts'
import { makeServer } from '../../http/server.ts'
import { isLocalAddress, refusedHeader } from '../../mcp-protocol/origin.ts'
import type { ServerSettings } from '../configuration/types.ts'
import { RagError } from '../errors.ts'
import type { PipelineSet } from '../pipelines.ts'
import { errorAnswer, jsonAnswer, renderError } from './answers.ts'
import { HealthChecks } from './health.ts'
import type { Metrics } from './metrics.ts'
import { openApi } from './openapi.ts'
import { answerQuery } from './query.ts'
import { databaseCheck } from './ready.ts'

type ServerParts = {
  readonly pipelines: PipelineSet
  readonly metrics: Metrics
  readonly requests: RequestFigures
  readonly logger: Logger
  readonly now: () => number
  readonly tls: Certificate | undefined
  /** Returns the current settings. */
  readonly settings: () => Pick<
    ServerSettings,
    'host' | 'allowedHosts' | 'requestTimeoutMs' | 'streamTimeoutMs' | 'cors'
  >
}

const maximumBodyBytes = 1_048_576
const maximumHeaderBytes = 16_384
const maximumConnections = 10_000
/** The maximum size of the bodies and responses of all requests together. It limits the server's memory. */
const maximumHeldBytes = 67_108_864

type Incoming = {
  readonly head: RequestHead
  readonly body: IncomingBody
  readonly signal: AbortSignal
  readonly parameters: PathParameters
}
type Answer = (incoming: Incoming) => HttpResponse | Promise<HttpResponse>

/** How many logged warnings the server remembers. */
const mostWarnings = 1_000

/** Health always returns all warnings, but the log has each warning only once. */
function warnOnce(logger: Logger): (pipeline: string, warning: string) => void {
  const logged = new Set<string>()
  return (pipeline, warning) => {
    const key = `${pipeline} ${warning}`
    if (logged.has(key) || logged.size >= mostWarnings) return
    logged.add(key)
    logger.warn({ pipeline }, warning)
  }
}

function routesOf({ pipelines, metrics, logger, now, settings }: ServerParts) {
  const health = new HealthChecks(pipelines, now)
  const databases = databaseCheck(pipelines)
  const onWarning = warnOnce(logger)
  const timeoutMs = () => settings().requestTimeoutMs
  const streamTimeoutMs = () => settings().streamTimeoutMs
  const statsOf = (name: string, description: string) => {
    const { embedding, prompt, completion } = metrics.tokensOf(name)
    return {
      ...{ name, description },
      embedding: { prompt_tokens: embedding, completion_tokens: 0, total_tokens: embedding },
      completion: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
    }
  }
  const summaries = () => pipelines.all().map(({ settings: { name, description } }) => ({ name, description }))
  const get = (path: string, answer: Answer) => getRoutes(path, answer)
  const query: Answer = ({ parameters: { name = '' }, ...incoming }) =>
    answerQuery({ pipelines, metrics, logger, timeoutMs, streamTimeoutMs, onWarning }, name, incoming)
  return [
    ...get('/v1/openapi.json', () => jsonAnswer(200, openApi)),
    ...get('/v1/live', () => jsonAnswer(200, { status: 'ok' })),
    ...get('/ready/database', async () =>
      (await databases.run()) === undefined
        ? jsonAnswer(200, { status: 'ready' })
        : jsonAnswer(503, { status: 'not_ready' }),
    ),
    ...get('/v1/health', async () => jsonAnswer(200, await health.current())),
    ...get('/v1/pipelines', () => jsonAnswer(200, { pipelines: summaries() })),
    ...get('/v1/stats', () =>
      jsonAnswer(200, { pipelines: summaries().map(({ name, description }) => statsOf(name, description)) }),
    ),
    { method: 'POST', path: '/v1/pipelines/{name}', answer: query },
    ...get('/metrics', async () => ({
      status: 200,
      headers: [['Content-Type', metrics.registry.contentType] as const],
      body: await metrics.registry.metrics(),
    })),
  ]
}

const unread: Record<UnreadRequest, readonly [status: number, message: string]> = {
  malformed: [400, 'the request is not HTTP/1.1'],
  'head too large': [431, `the headers of a request must have at most ${maximumHeaderBytes} bytes`],
  'too slow': [408, 'the request did not arrive in time'],
}

function corsOf({ cors }: Pick<ServerSettings, 'cors'>): CorsRules | undefined {
  if (cors === undefined) return undefined
  const origins = cors.allowedOrigins.includes('*') ? undefined : cors.allowedOrigins
  return { origins, methods: 'GET, HEAD, POST, OPTIONS', exposedHeaders: 'Link, Retry-After, Search-Incomplete' }
}

/**
 * Checks the Host header of a server that listens only on this machine. Otherwise, a page of another site whose name
 * resolves to this machine (DNS rebinding) could read responses.
 * @throws RagError
 */
function checkHost({ headers }: RequestHead, { host, allowedHosts, cors }: ReturnType<ServerParts['settings']>): void {
  if (!isLocalAddress(host)) return
  const rules = { hosts: allowedHosts, origins: cors?.allowedOrigins ?? [] }
  if (refusedHeader({ host: headers.host }, rules) !== undefined)
    throw new RagError('FORBIDDEN', 'the Host header names neither this machine nor a host of server.allowed_hosts')
}

/** Paths for probes and for Prometheus. */
export const uncountedPaths = ['/v1/live', '/ready/database', '/metrics']

/** Creates the server, which does not listen yet. */
export function createRagServer(parts: ServerParts): Server {
  const routes = routesOf(parts)
  const handle: Handler = async (head, body, signal) => {
    checkHost(head, parts.settings())
    const matched = matchRoute(routes, head)
    switch (matched.kind) {
      case 'nothing':
        return renderError(new RagError('NOT_FOUND', 'unknown path; GET /v1/openapi.json lists the routes'))
      case 'other method': {
        const allowed = matched.allowed.join(', ')
        return errorAnswer(new RagError('METHOD_NOT_ALLOWED', `the path accepts only ${allowed}`), [['Allow', allowed]])
      }
      case 'route':
        return await matched.route.answer({ head, body, signal, parameters: matched.parameters })
    }
  }
  return makeServer({
    product: `espalier-rag/${version}`,
    maximumBodyBytes,
    maximumHeaderBytes,
    maximumConnections,
    maximumBufferedBytes: maximumHeldBytes,
    tls: parts.tls,
    requests: parts.requests,
    rules: () => ({ cors: corsOf(parts.settings()), traceHeader: undefined }),
    handle,
    renderUnread: why => errorAnswer({ code: 'INVALID_REQUEST', message: unread[why][1], status: unread[why][0] }),
    renderError: error => {
      const answer = renderError(error)
      if (answer.status === 500) parts.logger.error({ err: error }, 'a request failed')
      return answer
    },
  })
}
