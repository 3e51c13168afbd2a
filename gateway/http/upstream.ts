/**
 * Connects a request to a pod of its service. When this returns, no part of the request has been sent. So if a pod
 * refuses the connection, another pod can be used, whatever the request.
 */
import { Agent, type ClientRequest, type OutgoingHttpHeaders, request } from 'node:http'
import type { RouteTarget } from '../../routes/route.ts'
import type { Resolve } from '../connections.ts'
import { keepAliveMs } from '../session.ts'

/** How long an idle connection to a service is kept. It is shorter than the services' own timeout. */
const idleMs = 30_000
const idlePerPod = 64
/** The maximum number of pods of a service that are tried. */
const mostPods = 4

export const createUpstreamAgent = (): Agent =>
  new Agent({
    keepAlive: true,
    keepAliveMsecs: keepAliveMs,
    timeout: idleMs,
    maxFreeSockets: idlePerPod,
    scheduling: 'lifo',
  })

export type UpstreamRequest = { method: string; path: string; headers: OutgoingHttpHeaders }

/** Returns undefined if no pod accepts a connection in time. `agent`: false for a separate connection. */
export async function openUpstream(options: {
  agent: Agent | false
  resolve: Resolve
  target: RouteTarget
  upstream: UpstreamRequest
  connectMs: number
}): Promise<ClientRequest | undefined> {
  const { agent, resolve, target, upstream, connectMs } = options
  const tried = new Set<string>()
  for (let attempt = 0; attempt < mostPods; attempt++) {
    const address = resolve(target)
    if (address === undefined) return undefined
    const key = `${address.host} ${address.port}`
    if (tried.has(key)) continue
    tried.add(key)
    const made = request({ ...upstream, ...address, agent, setHost: false })
    if (await isConnected(made, connectMs)) return made
  }
  return undefined
}

function isConnected(made: ClientRequest, connectMs: number): Promise<boolean> {
  return new Promise(resolve => {
    const settle = (connected: boolean): void => {
      clearTimeout(timer)
      made.off('error', onError)
      if (!connected) made.destroy()
      resolve(connected)
    }
    const onError = (): void => settle(false)
    const timer = setTimeout(onError, connectMs)
    // Later errors need no handling here.
    made.on('error', () => {})
    made.on('error', onError)
    made.once('socket', socket => {
      socket.setNoDelay(true)
      if (socket.connecting) socket.once('connect', () => settle(true))
      else settle(true)
    })
  })
}
