/**
 * Answers by HTTPS, with the certificate of the Postgres beside it. Whoever asks for more than whether it lives shows a
 * client certificate of the installation's authority, whose name says what it may ask for. There is nothing to send, and
 * what is held at once is bounded.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { type Certificates, readCertificates } from './certificates.ts'
import { type AgentClient, agentClients } from './contract.ts'

type Answer = { status?: number; contentType: string; body: string }
export type Route = {
  /** Who may ask; absent: anybody. */
  for?: readonly AgentClient[]
  answer(query: URLSearchParams): Answer | Promise<Answer>
}
export type Routes = Readonly<Record<string, Route>>

export type AgentServer = {
  port: number
  /** Takes up a certificate that was replaced. */
  follow(): void
  stop(): Promise<void>
}

const mostConnections = 32
const defaultPatienceMs = 10_000
/** The longest that a timer takes, in ms. */
const never = 2 ** 31 - 1

/** Whom a verified certificate names; undefined for nobody that we know. */
function clientOf(socket: TLSSocket): AgentClient | undefined {
  if (!socket.authorized) return undefined
  const name: unknown = socket.getPeerCertificate()?.subject?.CN
  return (Object.keys(agentClients) as AgentClient[]).find(client => agentClients[client] === name)
}

const plain = (status: number, text: string): Answer => ({ status, contentType: 'text/plain', body: `${text}\n` })

async function answerTo(routes: Routes, request: IncomingMessage): Promise<Answer> {
  // Anybody may send one that makes no sense: nothing is said of it.
  const url = URL.parse(request.url ?? '/', 'https://agent')
  if (url === null) return plain(400, 'this is no path')
  const route = Object.hasOwn(routes, url.pathname) ? routes[url.pathname] : undefined
  if (route?.for !== undefined || route === undefined) {
    // Every listener of ours is one of TLS.
    const client = clientOf(request.socket as TLSSocket)
    if (client === undefined) return plain(401, 'a client certificate of this installation is needed')
    if (route?.for !== undefined && !route.for.includes(client)) return plain(403, 'this is not for this client')
  }
  if (route === undefined) return plain(404, 'there is nothing here')
  if (request.method !== 'GET') return plain(405, 'only GET')
  return route.answer(url.searchParams)
}

function send(response: ServerResponse, { status = 200, contentType, body }: Answer): void {
  const length = Buffer.byteLength(body)
  // Whoever asks comes twice a minute at most.
  response.writeHead(status, { 'content-type': contentType, 'content-length': length, connection: 'close' })
  response.end(body)
}

/** Strangers who say nothing, or little at a time, take up connections no longer than this; nor does who reads no answer. */
function endImpatiently(server: Server, patienceMs: number): void {
  const ends = new WeakMap<Socket, NodeJS.Timeout>()
  server.on('secureConnection', socket => {
    const end = setTimeout(() => socket.destroy(), patienceMs)
    ends.set(socket, end)
    socket.once('close', () => clearTimeout(end))
  })
  server.on('request', ({ socket }) => clearTimeout(ends.get(socket)))
  server.setTimeout(patienceMs)
}

const secureContext = ({ cert, key, ca }: Certificates) => ({ cert, key, ca, minVersion: 'TLSv1.2' as const })

/** Resolves once it listens. @throws where it cannot, or the certificate is none */
export async function startServer(options: {
  host: string
  port: number
  tls: string
  routes: Routes
  log: (line: string) => void
  /** How long whoever comes may take to say who he is, and then what he asks. */
  patienceMs?: number
}): Promise<AgentServer> {
  const { host, port, tls, routes, log, patienceMs = defaultPatienceMs } = options
  let current = readCertificates(tls)
  const server = createServer(
    {
      ...secureContext(current),
      requestCert: true,
      // Who has no certificate is told so, and may ask whether the agent lives.
      rejectUnauthorized: false,
      handshakeTimeout: patienceMs,
      // Each connection has its own end, below: a look at all of them wakes up each agent of a machine where there are none.
      connectionsCheckingInterval: never,
    },
    (request, response) => {
      request.resume()
      answerTo(routes, request)
        .catch((error: unknown) => {
          log(`cannot answer: ${error instanceof Error ? error.message : error}`)
          return plain(500, 'something went wrong')
        })
        .then(answer => send(response, answer))
        .catch(() => response.destroy())
    },
  )
  server.maxConnections = mostConnections
  /** Also those that have not said who they are, which the server does not count as its own yet. */
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  endImpatiently(server, patienceMs)
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  server.on('error', error => log(`the server: ${error.message}`))
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
        log(`the certificate: ${error instanceof Error ? error.message : error}`)
      }
    },
    stop: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
