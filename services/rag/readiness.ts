/** `espalier rag --ready`: checks whether a running server with this configuration reaches its databases. */
import { type ProbeResult, probeFault, probeServer, reachable, shownTarget } from '../http/probe.ts'
import type { ServerSettings } from './configuration/types.ts'
import { isUnreachable } from './search/failures.ts'

const path = '/v1/health'

function databasesReached(text: string): boolean {
  try {
    const { pipelines } = Object(JSON.parse(text))
    if (!Array.isArray(pipelines)) return false
    return pipelines.every(one => {
      const { reachable, error } = Object(Object(one).database)
      return reachable === true || (reachable === false && !isUnreachable(error))
    })
  } catch {
    return false
  }
}

/**
 * Providers that do not respond and missing tables do not make the server unready, because both can become available at
 * any time.
 */
export async function probeRag({
  host,
  port,
  tls,
}: Pick<ServerSettings, 'host' | 'port' | 'tls'>): Promise<ProbeResult> {
  const target = { host: reachable(host), port, isTls: tls !== undefined }
  const shown = shownTarget(target, path)
  if (port === 0) return { isReady: false, text: 'not ready: server.port is 0, so its port is unknown; set another' }
  try {
    const { status, text } = await probeServer(target, { path })
    if (status !== 200) return { isReady: false, text: `not ready: ${shown} returned ${status}` }
    return databasesReached(text)
      ? { isReady: true, text: `ready: ${shown}` }
      : { isReady: false, text: `not ready: ${shown} cannot reach a database` }
  } catch (error) {
    return { isReady: false, text: `not ready: ${shown} cannot be reached (${probeFault(error)})` }
  }
}
