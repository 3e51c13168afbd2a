/** `espalier rest --ready`: asks a running service with this configuration whether it is ready, and sends it a request of its API. */
import { askServer, type ProbeResult, probeFault, reachable, shownTarget } from '../http/probe.ts'
import type { RestConfiguration } from './configuration/index.ts'
import { adminListenAddress, listenAddress } from './index.ts'

/** Answers that say that the service has no database. */
const withoutDatabase = new Set([502, 503, 504])

type Target = Parameters<typeof askServer>[0]

const targetOf = (at: NonNullable<ReturnType<typeof adminListenAddress>>): Target =>
  'path' in at ? { socketPath: at.path } : { host: reachable(at.host), port: at.port }

async function probe(target: Target, path: string, isReady: (status: number) => boolean): Promise<ProbeResult> {
  const shown = shownTarget(target, path)
  try {
    const { status } = await askServer(target, { path, method: 'GET' })
    return isReady(status)
      ? { isReady: true, text: `ready: ${shown}` }
      : { isReady: false, text: `not ready: ${shown} answers ${status}` }
  } catch (error) {
    return { isReady: false, text: `not ready: ${shown} cannot be reached (${probeFault(error)})` }
  }
}

/** @returns whether the service with this configuration is ready, and a line that says so. A role without rights is an answer, too. */
export async function probeReadiness(configuration: RestConfiguration): Promise<ProbeResult> {
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
  const ready = await probe(targetOf(at), '/ready', status => status === 200)
  const api = listenAddress(configuration)
  if (!ready.isReady || ('port' in api && api.port === 0)) return ready
  const answered = await probe(targetOf(api), '/', status => !withoutDatabase.has(status))
  return answered.isReady ? ready : answered
}
