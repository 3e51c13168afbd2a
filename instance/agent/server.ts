/**
 * The agent's HTTPS server uses Postgres's server certificate. For all paths except the liveness check, a client needs
 * a certificate from the installation's authority. The name in the certificate defines the client's permissions.
 * Requests with a body are refused, and memory use is limited.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { type Certificates, readCertificates } from './certificates.ts'
import { type AgentClient, agentClients } from './contract.ts'

export type Answer = { status?: number; contentType: string; body: string }
export type Route = {
  /** Permitted clients. Absent: any client. */
  for?: readonly AgentClient[]
  /** Permitted methods. Absent: only GET. */
  methods?: readonly string[]
  answer(query: URLSearchParams, request: { method: string; rest: string }): Answer | Promise<Answer>
}
/**
 * Routes by path. A path that ends with a slash matches paths with one more segment. `rest` is the path's last segment.
 */
export type Routes = Readonly<Record<string, Route>>

export type AgentServer = {
  port: number
  /** Reads the certificate again and uses it if it was replaced. */
  follow(): void
  stop(): Promise<void>
}

const mostConnections = 32
const defaultTimeoutMs = 10_000
/** The maximum delay of a Node timer, in ms. In effect, it disables the check. */
const never = 2 ** 31 - 1

/** The client that a verified certificate names; undefined if it is unknown. */
function clientOf(socket: TLSSocket): AgentClient | undefined {
  if (!socket.authorized) return undefined
  const name: unknown = socket.getPeerCertificate()?.subject?.CN
  return (Object.keys(agentClients) as AgentClient[]).find(client => agentClients[client] === name)
}

const plain = (status: number, text: string): Answer => ({ status, contentType: 'text/plain', body: `${text}\n` })

async function answerTo(routes: Routes, request: IncomingMessage): Promise<Answer> {
  // Any client can send an invalid path, so it is not logged.
  const url = URL.parse(request.url ?? '/', 'https://agent')
  if (url === null) return plain(400, 'invalid path')
  const { route, rest } = routeOf(routes, url.pathname)
  if (route?.for !== undefined || route === undefined) {
    // All listeners of this server use TLS.
    const client = clientOf(request.socket as TLSSocket)
    if (client === undefined) return plain(401, 'this path requires a client certificate of this installation')
    if (route?.for !== undefined && !route.for.includes(client)) return plain(403, 'this client may not use this path')
  }
  if (route === undefined) return plain(404, 'unknown path')
  const { methods = ['GET'] } = route
  const { method = '', headers } = request
  if (!methods.includes(method)) return plain(405, `allowed methods: ${methods.join(', ')}`)
  if (Number(headers['content-length'] ?? 0) !== 0 || headers['transfer-encoding'] !== undefined)
    return plain(413, 'request bodies are not accepted')
  return route.answer(url.searchParams, { method, rest })
}

function routeOf(routes: Routes, path: string): { route: Route | undefined; rest: string } {
  const of = (key: string) => (Object.hasOwn(routes, key) ? routes[key] : undefined)
  const end = path.lastIndexOf('/') + 1
  const below = end < path.length ? of(path.slice(0, end)) : undefined
  const exact = path.endsWith('/') ? undefined : of(path)
  return { route: exact ?? below, rest: path.slice(end) }
}

function send(response: ServerResponse, { status = 200, contentType, body }: Answer): void {
  const length = Buffer.byteLength(body)
  // Closes the connection, because clients send requests rarely.
  response.writeHead(status, { 'content-type': contentType, 'content-length': length, connection: 'close' })
  response.end(body)
}

/** Closes the connection of a client that is silent or slow, or that does not read its response. */
function endAfterTimeout(server: Server, timeoutMs: number): void {
  const ends = new WeakMap<Socket, NodeJS.Timeout>()
  server.on('secureConnection', socket => {
    const end = setTimeout(() => socket.destroy(), timeoutMs)
    ends.set(socket, end)
    socket.once('close', () => clearTimeout(end))
  })
  server.on('request', ({ socket }) => clearTimeout(ends.get(socket)))
  server.setTimeout(timeoutMs)
}

const secureContext = ({ cert, key, ca }: Certificates) => ({ cert, key, ca, minVersion: 'TLSv1.2' as const })

/** Resolves once the server listens. @throws if it cannot listen, or if the certificate is invalid */
export async function startServer(options: {
  host: string
  port: number
  tls: string
  routes: Routes
  log: (line: string) => void
  /** How long a new client may take for the handshake, and then for its request. */
  timeoutMs?: number
}): Promise<AgentServer> {
  const { host, port, tls, routes, log, timeoutMs = defaultTimeoutMs } = options
  let current = readCertificates(tls)
  const server = createServer(
    {
      ...secureContext(current),
      requestCert: true,
      // A client without a certificate gets HTTP 401 instead of a TLS error, and may use the liveness check.
      rejectUnauthorized: false,
      handshakeTimeout: timeoutMs,
      // Each connection has its own timeout, below. Node's periodic check of all connections would wake up each agent
      // of a machine, even without connections.
      connectionsCheckingInterval: never,
    },
    (request, response) => {
      request.resume()
      answerTo(routes, request)
        .catch((error: unknown) => {
          log(`cannot answer: ${error instanceof Error ? error.message : error}`)
          return plain(500, 'internal error')
        })
        .then(answer => send(response, answer))
        .catch(() => response.destroy())
    },
  )
  server.maxConnections = mostConnections
  /** Also contains connections during the handshake, which the server does not count yet. */
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  endAfterTimeout(server, timeoutMs)
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  server.on('error', error => log(`HTTPS server error: ${error.message}`))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    follow: () => {
      try {
        const found = readCertificates(tls)
        if (found.cert === current.cert && found.key === current.key && found.ca === current.ca) return
        server.setSecureContext(secureContext(found))
        current = found
      } catch (error) {
        log(`cannot load the certificate; keeping the previous one: ${error instanceof Error ? error.message : error}`)
      }
    },
    stop: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
