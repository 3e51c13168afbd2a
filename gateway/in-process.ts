/**
 * The data plane of the embedded installation, in this thread: one listener with its proxy per routed port and, if
 * requested, the HTTPS listener of services. It listens on exactly the ports that have a route.
 */
import type { Logger } from 'pino'
import { certificatesDigest } from '../routes/route.ts'
import type { Certificate } from '../server/certificate.ts'
import { type ConnectionLimits, type Connections, createConnections, type Resolve } from './connections.ts'
import type { DataPlane } from './data-plane.ts'
import type { Refuse } from './denial/refuse.ts'
import { decideRequest } from './http/decision.ts'
import type { HttpLimits } from './http/limits.ts'
import { createHttpMetrics } from './http/metrics.ts'
import { createHttpsServer, type HttpsServer } from './http/server.ts'
import { type HostTable, noHosts } from './http/table.ts'
import { createListeners } from './listeners.ts'
import type { LoginLimits } from './logins.ts'
import type { GatewayMetrics } from './metrics.ts'
import { decideConnection, type RouteTable } from './table.ts'

export type HttpsOptions = {
  port: number
  /** Certificates for the host names of the regions' services. If none matches, the first is used. */
  certificates: readonly Certificate[]
  /**
   * Names of the gateway itself. At these names, the path names the database. The gateway's addresses are always
   * included.
   */
  ownNames: readonly string[]
  limits?: Partial<HttpLimits>
}

type InProcessPlane = DataPlane &
  Pick<Connections, 'count' | 'drain' | 'logins'> & {
    /** Listens for HTTPS, if requested. @throws Error if the port cannot be listened on */
    start(): Promise<void>
    /** @throws Error as `HttpsServer` does */
    setHttpsCertificates(certificates: readonly Certificate[]): void
  }

type PlaneOptions = {
  host: string
  resolve: Resolve
  refuse: Refuse
  limits?: Partial<ConnectionLimits> | undefined
  loginLimits?: Partial<LoginLimits> | undefined
  metrics: GatewayMetrics
  /** Called when it now listens on a port that was in use before. */
  onRecovered: () => void
  /** Called when the connection to a database failed that should be running. */
  onUnreachable: (port: number) => void
  https?: HttpsOptions | undefined
  now: () => number
  logger: Logger
}

export function createInProcessPlane(options: PlaneOptions): InProcessPlane {
  const { https, now, logger } = options
  let table: RouteTable = new Map()
  let hosts: HostTable = noHosts
  let deadline = 0
  let closed = false
  let certificates = https?.certificates
  const admitting = () => !closed && now() < deadline
  const server = https && serveHttps(options, https, admitting, () => hosts)
  const connections = createConnections({
    admitting,
    decide: (port, address) => decideConnection(table, port, address),
    resolve: options.resolve,
    refuse: options.refuse,
    limits: options.limits,
    loginLimits: options.loginLimits,
    metrics: options.metrics,
    onUnreachable: options.onUnreachable,
  })
  const listeners = createListeners({
    host: options.host,
    onConnection: (port, socket) => connections.accept(port, socket),
    onRecovered: options.onRecovered,
    logger,
  })
  return {
    put: (next, nextHosts) => {
      hosts = nextHosts
      const moved = !haveSamePorts(table, next)
      table = next
      if (moved) listeners.setPorts(new Set(table.keys()))
    },
    applied: async () => {
      await listeners.opened()
      return { refusedPorts: listeners.refused() }
    },
    httpsCertificates: () => certificates && certificatesDigest(certificates.map(({ cert }) => cert)),
    admitUntil: until => {
      deadline = until
    },
    close: async () => {
      closed = true
      listeners.close()
      return true
    },
    count: () => connections.count(),
    logins: () => connections.logins(),
    drain: async ms => {
      await Promise.all([connections.drain(ms), server?.drain(ms)])
    },
    start: async () => {
      if (https !== undefined) await server?.listen({ host: options.host, port: https.port })
    },
    setHttpsCertificates: next => {
      server?.setCertificates(next)
      if (server !== undefined) certificates = next
    },
  }
}

function serveHttps(
  { resolve, metrics, now, logger }: PlaneOptions,
  { certificates, ownNames, limits }: HttpsOptions,
  admitting: () => boolean,
  hosts: () => HostTable,
): HttpsServer {
  const names = new Set(ownNames)
  const server: HttpsServer = createHttpsServer({
    ...{ certificates, admitting, resolve, limits, now, logger },
    decide: facts => decideRequest(hosts(), names, facts),
    metrics: createHttpMetrics(metrics.registry, {
      connections: () => server.connections(),
      requests: () => server.requests(),
      hosts: () => hosts().byName.size,
    }),
  })
  return server
}

function haveSamePorts(left: RouteTable, right: RouteTable): boolean {
  if (left.size !== right.size) return false
  for (const port of right.keys()) if (!left.has(port)) return false
  return true
}
