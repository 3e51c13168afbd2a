/** Checks whether the PostgreSQL project's own package repository answers. */
import { Agent, get } from 'node:http'

const address = 'http://apt.postgresql.org/pub/repos/apt/dists/trixie-pgdg/InRelease'
const timeoutMs = 5000

/** apt's HTTP proxy, from the text of an apt.conf. */
export const aptProxy = (configuration: string): string | undefined =>
  /^Acquire::http::Proxy "(http[^"]+)";$/m.exec(configuration)?.[1]

export function pgdgAnswers(configuration: string): Promise<boolean> {
  const proxy = aptProxy(configuration)
  const agent = new Agent({ proxyEnv: proxy === undefined ? process.env : { HTTP_PROXY: proxy } })
  return new Promise(resolve => {
    const request = get(address, { agent, timeout: timeoutMs, signal: AbortSignal.timeout(timeoutMs) }, response => {
      response.destroy()
      // Some mirrors redirect to HTTPS.
      resolve((response.statusCode ?? 500) < 400)
    })
    request.on('error', () => resolve(false))
  })
}
