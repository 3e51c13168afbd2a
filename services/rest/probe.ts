/** Sends readiness requests to a service on this machine. */
import { type ProbeResult, probeFault, probeServer, reachable, shownTarget } from '../http/probe.ts'

type Target = Parameters<typeof probeServer>[0]

/** With these statuses, the service reports that it has no database. */
const withoutDatabase = new Set([502, 503, 504])

export const targetOf = (at: { path: string } | { host: string; port: number }): Target =>
  'path' in at ? { socketPath: at.path } : { host: reachable(at.host), port: at.port }

export async function probe(target: Target, path: string, isReady: (status: number) => boolean): Promise<ProbeResult> {
  const shown = shownTarget(target, path)
  try {
    const { status } = await probeServer(target, { path, method: 'GET' })
    return isReady(status)
      ? { isReady: true, text: `ready: ${shown}` }
      : { isReady: false, text: `not ready: ${shown} answers ${status}` }
  } catch (error) {
    return { isReady: false, text: `not ready: ${shown} cannot be reached (${probeFault(error)})` }
  }
}

/** Sends an API request. An error that reports missing privileges counts as a response, too. */
export const probeApi = (target: Target): Promise<ProbeResult> =>
  probe(target, '/', status => !withoutDatabase.has(status))
