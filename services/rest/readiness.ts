/**
 * `espalier rest --ready`: asks a running service with this configuration whether it is ready, and sends it an API
 * request.
 */
import type { ProbeResult } from '../http/probe.ts'
import type { RestConfiguration } from './configuration/index.ts'
import { adminListenAddress, listenAddress } from './index.ts'
import { probe, probeApi, targetOf } from './probe.ts'

/** @returns whether the service with this configuration is ready, and a line for the user */
export async function probeReadiness(configuration: RestConfiguration): Promise<ProbeResult> {
  const at = adminListenAddress(configuration)
  if (at === undefined) {
    return {
      isReady: false,
      text: 'not ready: there is no admin server; set admin-server-port or admin-server-unix-socket',
    }
  }
  if ('port' in at && at.port === 0) {
    return { isReady: false, text: 'not ready: admin-server-port is 0, so the port is unknown; set another port' }
  }
  const ready = await probe(targetOf(at), '/ready', status => status === 200)
  const api = listenAddress(configuration)
  if (!ready.isReady || ('port' in api && api.port === 0)) return ready
  const answered = await probeApi(targetOf(api))
  return answered.isReady ? ready : answered
}
