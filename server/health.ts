/**
 * The page for probes and Prometheus: /healthz (restart me if this fails), /readyz (I can do my work), /metrics.
 * It says nothing secret and needs no credential, so it listens where only the cluster reaches it; every connection,
 * header and check has its bound.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Logger } from 'pino'

/** The reason why it fails, or undefined where all is well. An exception or no answer in 2 s is a failure, too. */
export type Check = () => string | undefined | Promise<string | undefined>

/** The page for Prometheus, and the type of its content. */
export type MetricsPage = { text(): Promise<string>; contentType: string }

export type HealthServer = {
  readonly address: { host: string; port: number }
  stop(): Promise<void>
}

const checkMs = 2_000
const limits = { requestMs: 5_000, keepAliveMs: 1_000, connections: 64, requestsPerSocket: 100, headerBytes: 8 * 1024 }

async function runCheck(check: Check): Promise<string | undefined> {
  const timeUp = Promise.withResolvers<string>()
  const timer = setTimeout(() => timeUp.resolve(`no answer in ${checkMs / 1000} s`), checkMs)
  try {
    return await Promise.race([Promise.resolve(check()), timeUp.promise])
  } catch (error) {
    return error instanceof Error ? error.message : 'the check failed'
  } finally {
    clearTimeout(timer)
  }
}

/** One line for each check, as in Kubernetes' own /readyz?verbose. */
async function report(checks: Record<string, Check>): Promise<{ status: number; body: string }> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => ({ name, failure: await runCheck(check) })),
  )
  const lines = results.map(({ name, failure }) => (failure ? `[-]${name} failed: ${failure}` : `[+]${name} ok`))
  const failed = results.some(({ failure }) => failure !== undefined)
  return { status: failed ? 503 : 200, body: `${[...lines, failed ? 'check failed' : 'check passed'].join('\n')}\n` }
}

function answer(request: IncomingMessage, response: ServerResponse, status: number, body: string, type: string): void {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

/** Listens on `host` (absent: on every address) and `port` (0: any free one) until `stop()`. Rejects where it cannot. */
export async function startHealthServer(options: {
  host?: string
  port: number
  live: Record<string, Check>
  ready: Record<string, Check>
  /** Absent: there is none. */
  metrics?: MetricsPage
  logger: Logger
}): Promise<HealthServer> {
  const { live, ready, metrics, logger } = options
  const plain = 'text/plain; charset=utf-8'

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    request.resume()
    const path = (request.url ?? '').split('?', 1)[0]
    const checks = path === '/healthz' ? live : path === '/readyz' ? ready : undefined
    const figures = path === '/metrics' ? metrics : undefined
    if (!checks && !figures) return answer(request, response, 404, 'not found\n', plain)
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD')
      return answer(request, response, 405, 'only GET and HEAD\n', plain)
    }
    if (figures) return answer(request, response, 200, await figures.text(), figures.contentType)
    const { status, body } = await report(checks ?? {})
    answer(request, response, status, body, plain)
  }

  const server = createServer(
    {
      requestTimeout: limits.requestMs,
      headersTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      maxHeaderSize: limits.headerBytes,
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      serve(request, response).catch(error => {
        logger.error({ err: error }, 'the health page failed')
        if (response.headersSent) response.destroy()
        else answer(request, response, 500, 'internal error\n', plain)
      })
    },
  )
  server.maxConnections = limits.connections
  server.maxRequestsPerSocket = limits.requestsPerSocket

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  server.on('error', error => logger.error({ err: error }, 'the health server failed'))
  const bound = server.address()
  const { address, port } = typeof bound === 'object' && bound ? bound : { address: '', port: options.port }

  return {
    address: { host: options.host ?? address, port },
    stop: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
