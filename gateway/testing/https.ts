/** An HTTPS listener in front of the test's own services, and clients of either version. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { Agent, type RequestOptions, request } from 'node:https'
import { isIP } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import { type HttpService, httpRouteName, routeKey } from '../../routes/route.ts'
import { decideRequest } from '../http/decision.ts'
import type { HttpLimits } from '../http/limits.ts'
import { createHttpMetrics } from '../http/metrics.ts'
import { createHttpsServer, type HttpsServer } from '../http/server.ts'
import { buildHosts } from '../http/table.ts'
import { ownLoopback } from './sockets.ts'

export const databaseId = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'
export const shopHost = 'shop-1.db.test'
export const ragToken = 'a-token'
const authority = createAuthority()
export const issue = (...names: string[]) =>
  issueServerCertificate(authority, {
    dnsNames: names.filter(name => isIP(name) === 0),
    ipAddresses: ['127.0.0.1', ...names.filter(name => isIP(name) !== 0)],
  })
export const ca = authority.cert

const targetOf = (service: string, port: number) => ({ namespace: 'tenant', service: `db-1-${service}`, port })
const service = (type: HttpService['service'], more: Partial<HttpService> = {}): HttpService => ({
  ...{ service: type, target: targetOf(type, 80), rules: ['0.0.0.0/0'] },
  ...more,
})
export const threeServices: HttpService[] = [
  service('rest'),
  service('mcp', { bridgePort: 81 }),
  service('rag', { tokenDigest: createHash('sha256').update(ragToken).digest('hex') }),
]

type Answer = {
  status: number
  headers: IncomingMessage['headers']
  trailers: IncomingMessage['trailers']
  body: string
}

export type TestHttps = {
  server: HttpsServer
  host: string
  port: number
  registry: Registry
  lines: { level: number; msg: string }[]
  /** The addresses of each target (`rest 80`). Several addresses are used one after another. */
  addresses: Map<string, { host: string; port: number }[]>
  admit: { value: boolean }
  setServices(services: HttpService[]): void
  /** Starts a service with this handler at a target. */
  serve(target: string, handler: RequestListener): Promise<Server>
  send(path: string, options?: RequestOptions & { body?: string; close?: boolean }): Promise<Answer>
  http2(servername?: string): Promise<ClientHttp2Session>
  /** A TLS connection of HTTP/1.1, to which a test can write bytes. */
  raw(servername?: string): Promise<TLSSocket>
  close(): Promise<void>
}

export async function openHttps(limits: Partial<HttpLimits> = {}): Promise<TestHttps> {
  const host = ownLoopback()
  const registry = new Registry()
  const lines: TestHttps['lines'] = []
  const addresses: TestHttps['addresses'] = new Map()
  const admit = { value: true }
  let hosts = buildHosts([]).table
  let next = 0
  const server: HttpsServer = createHttpsServer({
    certificates: [issue('*.db.test', 'localhost', host)],
    admitting: () => admit.value,
    decide: facts => decideRequest(hosts, new Set(['localhost']), facts),
    resolve: ({ service: name, port }) => {
      const found = addresses.get(`${name.replace('db-1-', '')} ${port}`) ?? []
      next++
      return found[next % found.length]
    },
    limits: { sweepMs: 50, ...limits },
    metrics: createHttpMetrics(registry, {
      connections: () => server.connections(),
      requests: () => server.requests(),
      hosts: () => hosts.byName.size,
    }),
    now: Date.now,
    logger: pino({ level: 'debug' }, { write: line => void lines.push(JSON.parse(line)) }),
  })
  const port = await server.listen({ host, port: 0 })
  const agent = new Agent({ keepAlive: true, ca, servername: shopHost })
  const upstreams: Server[] = []
  const sessions: ClientHttp2Session[] = []
  const sockets: TLSSocket[] = []
  const setServices = (services: HttpService[]): void => {
    const route = { kind: 'http', host: shopHost, databaseId, label: 'shop-1', services }
    const metadata = { name: httpRouteName(shopHost) }
    hosts = buildHosts([
      { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { [routeKey]: JSON.stringify(route) } },
    ]).table
  }
  setServices(threeServices)

  return {
    ...{ server, host, port, registry, lines, addresses, admit, setServices },
    serve: async (target, handler) => {
      const upstream = createServer(handler)
      upstreams.push(upstream)
      await once(upstream.listen({ host, port: 0 }), 'listening')
      const address = upstream.address()
      const listenAddress = { host, port: typeof address === 'object' ? (address?.port ?? 0) : 0 }
      addresses.set(target, [...(addresses.get(target) ?? []), listenAddress])
      return upstream
    },
    send: (path, { body, close, ...options } = {}) =>
      new Promise((resolve, reject) => {
        const headers = { host: shopHost, ...options.headers }
        const outgoing = request({
          host,
          port,
          path,
          agent: close ? false : agent,
          ca,
          servername: shopHost,
          ...options,
          headers,
        })
        outgoing.on('error', reject)
        outgoing.on('response', answer => {
          const chunks: Buffer[] = []
          answer.on('data', chunk => chunks.push(chunk))
          answer.on('error', reject)
          answer.on('end', () =>
            resolve({
              status: answer.statusCode ?? 0,
              headers: answer.headers,
              trailers: answer.trailers,
              body: Buffer.concat(chunks).toString(),
            }),
          )
        })
        outgoing.end(body)
      }),
    http2: async (servername = shopHost) => {
      const session = connectHttp2(`https://${servername}`, {
        createConnection: () => connectTls({ host, port, ca, servername, ALPNProtocols: ['h2'] }),
      })
      session.on('error', () => {})
      sessions.push(session)
      await once(session, 'connect')
      return session
    },
    raw: async (servername = shopHost) => {
      const socket = connectTls({ host, port, ca, servername, ALPNProtocols: ['http/1.1'] })
      sockets.push(socket)
      await once(socket, 'secureConnect')
      socket.on('error', () => {})
      return socket
    },
    close: async () => {
      for (const session of sessions) session.destroy()
      for (const socket of sockets) socket.destroy()
      agent.destroy()
      await server.drain(0)
      for (const upstream of upstreams) {
        upstream.closeAllConnections()
        upstream.close()
      }
    },
  }
}
