/**
 * Sends requests to a server on this machine, for a readiness command. So the container image needs no HTTP client for
 * health checks.
 */
import { type IncomingHttpHeaders, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'

export type ProbeResult = { readonly isReady: boolean; readonly text: string }
type ProbeTarget =
  | { readonly host: string; readonly port: number; readonly isTls?: boolean }
  | { readonly socketPath: string }
type ProbeRequest = {
  readonly path: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}
type ProbeAnswer = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string }

const timeoutMs = 5_000
const mostBytes = 1_048_576

/** Returns the host to connect to. If the server listens on all addresses, this is the loopback address. */
export function reachable(host: string): string {
  switch (host) {
    case '*':
    case '*4':
    case '!4':
    case '0.0.0.0':
      return '127.0.0.1'
    case '*6':
    case '!6':
    case '::':
      return '::1'
    default:
      return host
  }
}

export const shownTarget = (target: ProbeTarget, path: string): string => {
  if ('socketPath' in target) return target.socketPath
  const host = target.host.includes(':') ? `[${target.host}]` : target.host
  return `${target.isTls ? 'https' : 'http'}://${host}:${target.port}${path}`
}

/** The server runs on this machine, so the probe does not verify the server's certificate. */
export const probeServer = (target: ProbeTarget, { path, method, headers, body }: ProbeRequest): Promise<ProbeAnswer> =>
  new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const isTls = 'isTls' in target && target.isTls === true
    const options = { ...target, path, method, headers: { ...headers }, agent: false as const, signal }
    const request = isTls ? requestTls({ ...options, rejectUnauthorized: false }) : requestPlain(options)
    request.on('error', reject)
    request.on('response', response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', piece => {
        text += piece
        if (text.length > mostBytes) response.destroy(new Error('the response has more than 1 MiB'))
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
      response.on('error', reject)
    })
    request.end(body)
  })

/** Describes an error of `probeServer`. */
export function probeFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'AbortError' || error.name === 'TimeoutError') return `no response within ${timeoutMs / 1_000} s`
  return 'code' in error ? String(error.code) : error.message
}

/**
 * Prints the result.
 * @returns the exit code
 */
export function reportProbe({ isReady, text }: ProbeResult): number {
  if (isReady) console.log(text)
  else console.error(text)
  return isReady ? 0 : 1
}
