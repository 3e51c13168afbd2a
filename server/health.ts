/**
 * Serves /healthz (liveness), /readyz (readiness) and /metrics for probes and Prometheus. They contain no secrets;
 * every check has a timeout.
 */
import type { Logger } from 'pino'
import { createPageServer, type Page, plainText } from './pages.ts'

/**
 * Returns the reason of a failure, or undefined if the check passes. An exception, or no result within 2 s, is also a
 * failure.
 */
export type Check = () => string | undefined | Promise<string | undefined>

/** The Prometheus page, and its content type. */
export type MetricsPage = { text(): Promise<string>; contentType: string }

export type HealthServer = {
  readonly address: { host: string; port: number }
  stop(): Promise<void>
}

const checkMs = 2_000

async function runCheck(check: Check): Promise<string | undefined> {
  const timeUp = Promise.withResolvers<string>()
  const timer = setTimeout(() => timeUp.resolve(`no result within ${checkMs / 1000} s`), checkMs)
  try {
    return await Promise.race([Promise.resolve(check()), timeUp.promise])
  } catch (error) {
    return error instanceof Error ? error.message : 'the check failed'
  } finally {
    clearTimeout(timer)
  }
}

/** One line for each check, as in Kubernetes' own /readyz?verbose. */
async function report(checks: Record<string, Check>): Promise<Page> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => ({ name, failure: await runCheck(check) })),
  )
  const lines = results.map(({ name, failure }) => (failure ? `[-]${name} failed: ${failure}` : `[+]${name} ok`))
  const failed = results.some(({ failure }) => failure !== undefined)
  const body = `${[...lines, failed ? 'check failed' : 'check passed'].join('\n')}\n`
  return { status: failed ? 503 : 200, type: plainText, body }
}

/**
 * Listens on `host` (absent: on every address) and `port` (0: any free port) until `stop()`. Rejects if it cannot
 * listen.
 */
export async function startHealthServer(options: {
  host?: string
  port: number
  live: Record<string, Check>
  ready: Record<string, Check>
  /** If absent, /metrics does not exist. */
  metrics?: MetricsPage
  logger: Logger
}): Promise<HealthServer> {
  const { live, ready, metrics, logger } = options
  const pageAt = async (path: string): Promise<Page | undefined> => {
    if (path === '/healthz') return await report(live)
    if (path === '/readyz') return await report(ready)
    if (path === '/metrics' && metrics) return { status: 200, type: metrics.contentType, body: await metrics.text() }
    return undefined
  }
  const server = createPageServer(pageAt, error => logger.error({ err: error }, 'the health page failed'))

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
