/** `espalier rag --ready`: asks a running server with this configuration whether it reaches its databases. */
import { askServer, type ProbeResult, probeFault, reachable, shownTarget } from '../http/probe.ts'
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

/** A provider that does not answer leaves the server ready, and so does a table that is still to be created: both can come at any time. */
export async function probeRag({
  host,
  port,
  tls,
}: Pick<ServerSettings, 'host' | 'port' | 'tls'>): Promise<ProbeResult> {
  const target = { host: reachable(host), port, isTls: tls !== undefined }
  const shown = shownTarget(target, path)
  if (port === 0) return { isReady: false, text: 'not ready: server.port is 0, so its port is not known; set another' }
  try {
    const { status, text } = await askServer(target, { path })
    if (status !== 200) return { isReady: false, text: `not ready: ${shown} answers ${status}` }
    return databasesReached(text)
      ? { isReady: true, text: `ready: ${shown}` }
      : { isReady: false, text: `not ready: ${shown} does not reach a database` }
  } catch (error) {
    return { isReady: false, text: `not ready: ${shown} cannot be reached (${probeFault(error)})` }
  }
}
