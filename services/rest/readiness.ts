/** `espalier rest --ready`: asks the admin server of a running service whether it is ready, so that a container needs no HTTP client for its health check. */
import { request } from 'node:http'
import type { RestConfiguration } from './configuration/index.ts'
import { adminListenAddress } from './index.ts'

const timeoutMs = 5_000

/** Where to connect to a server that listens on any address. */
function reachable(host: string): string {
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

type Readiness = { readonly isReady: boolean; readonly text: string }

const statusOf = (where: { host: string; port: number } | { socketPath: string }): Promise<number> =>
  new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const asked = request({ ...where, path: '/ready', agent: false, signal }, response => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    asked.on('error', reject)
    asked.end()
  })

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'AbortError' || error.name === 'TimeoutError') return `no answer within ${timeoutMs / 1_000} s`
  return 'code' in error ? String(error.code) : error.message
}

/** @returns whether the service with this configuration is ready, and a line that says so */
export async function probeReadiness(configuration: RestConfiguration): Promise<Readiness> {
  const at = adminListenAddress(configuration)
  if (at === undefined) {
    return {
      isReady: false,
      text: 'not ready: there is no admin server; set admin-server-port or admin-server-unix-socket',
    }
  }
  if ('port' in at && at.port === 0) {
    return { isReady: false, text: 'not ready: admin-server-port is 0, so its port is not known; set another' }
  }
  const host = 'path' in at ? '' : reachable(at.host)
  const shown = 'path' in at ? at.path : `http://${host.includes(':') ? `[${host}]` : host}:${at.port}/ready`
  try {
    const status = await statusOf('path' in at ? { socketPath: at.path } : { host, port: at.port })
    return status === 200
      ? { isReady: true, text: `ready: ${shown}` }
      : { isReady: false, text: `not ready: ${shown} answers ${status}` }
  } catch (error) {
    return { isReady: false, text: `not ready: ${shown} cannot be reached (${reason(error)})` }
  }
}
