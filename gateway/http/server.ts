/**
 * The HTTPS listener. Clients use HTTP/1.1 or HTTP/2; the gateway uses HTTP/1.1 to the services. TLS starts once a
 * client has sent data. The requests of an HTTP/1.1 connection are served one after another, those of an HTTP/2
 * connection concurrently.
 */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import { constants, createSecureServer } from 'node:http2'
import { createServer, type Socket } from 'node:net'
import type { Logger } from 'pino'
import type { Certificate } from '../../server/certificate.ts'
import type { Resolve } from '../connections.ts'
import { serveCertificates } from './certificates.ts'
import { createHttpConnections, type HttpConnection } from './connections.ts'
import type { HttpDecision, HttpRequestFacts } from './decision.ts'
import { type ClientResponse, Exchange, type ExchangeContext } from './exchange.ts'
import { type HttpLimits, httpLimits } from './limits.ts'
import type { HttpMetrics } from './metrics.ts'
import { type HttpRefusal, malformedRequest, noUpgrade, refusalBody } from './refusal.ts'
import type { ClientSide } from './request-body.ts'
import { createUpstreamAgent } from './upstream.ts'

export type HttpsServer = {
  /** Resolves to the port. @throws Error if it cannot listen on the port */
  listen(address: { host: string; port: number }): Promise<number>
  /** @throws Error if a certificate is not PEM; then the previous certificates stay */
  setCertificates(certificates: readonly Certificate[]): void
  connections(): number
  /** The number of requests in progress. */
  requests(): number
  /** Accepts no more connections and requests. Waits `ms` for requests to end, then aborts them. */
  drain(ms: number): Promise<void>
}

type ServerOptions = {
  certificates: readonly Certificate[]
  admitting: () => boolean
  decide: (facts: HttpRequestFacts) => HttpDecision
  resolve: Resolve
  limits?: Partial<HttpLimits> | undefined
  metrics: HttpMetrics
  now: () => number
  logger: Logger
}

export function createHttpsServer(options: ServerOptions): HttpsServer {
  return new Server(options)
}

/** Limits of HTTP/2 clients. Cancelled streams are counted with their connection (CVE-2023-44487). */
const http2Limits = {
  maxSessionMemory: 4,
  maxSessionInvalidFrames: 100,
  maxSessionRejectedStreams: 50,
} as const

type Requests = { current: boolean; waiting: (() => void)[] }

class Server implements HttpsServer {
  readonly #options: ServerOptions
  readonly #limits: HttpLimits
  readonly #listener
  readonly #tls
  readonly #connections
  readonly #agent = createUpstreamAgent()
  readonly #exchanges = new Set<Exchange>()
  readonly #ofService = new Map<string, number>()
  readonly #queues = new WeakMap<object, Requests>()
  readonly #context: ExchangeContext
  readonly #timer: NodeJS.Timeout
  #certificates
  #idle: (() => void) | undefined

  constructor(options: ServerOptions) {
    this.#options = options
    this.#limits = { ...httpLimits, ...options.limits }
    this.#certificates = serveCertificates(options.certificates)
    this.#tls = this.#createTls()
    this.#connections = createHttpConnections({
      limits: this.#limits,
      now: options.now,
      serve: socket => void this.#tls.emit('connection', socket),
    })
    this.#listener = createServer(socket => this.#connections.accept(socket))
    this.#context = this.#createContext()
    this.#timer = setInterval(() => this.#sweep(), this.#limits.sweepMs)
  }

  listen({ host, port }: { host: string; port: number }): Promise<number> {
    const { logger } = this.#options
    return new Promise((resolve, reject) => {
      this.#listener.once('error', reject)
      this.#listener.listen({ host, port, backlog: 1024 }, () => {
        this.#listener.off('error', reject)
        this.#listener.on('error', error => logger.error({ err: error }, 'cannot accept a connection for HTTPS'))
        const address = this.#listener.address()
        resolve(typeof address === 'object' && address !== null ? address.port : port)
      })
    })
  }

  setCertificates(certificates: readonly Certificate[]): void {
    this.#certificates = serveCertificates(certificates)
    const [first] = certificates
    if (first !== undefined) this.#tls.setSecureContext({ ...first, minVersion: 'TLSv1.2' })
  }

  connections(): number {
    return this.#connections.count()
  }

  requests(): number {
    return this.#exchanges.size
  }

  async drain(ms: number): Promise<void> {
    this.#listener.close()
    this.#connections.drain()
    if (this.#exchanges.size > 0) {
      await new Promise<void>(resolve => {
        const deadline = setTimeout(resolve, ms)
        this.#idle = () => {
          clearTimeout(deadline)
          resolve()
        }
      })
    }
    this.#connections.closeAll()
    clearInterval(this.#timer)
    this.#agent.destroy()
  }

  #createTls() {
    const { headerBytes, streams, idleMs } = this.#limits
    const [first] = this.#options.certificates
    // Node accepts every option of its HTTP/1.1 server here (Node manual, http2.createSecureServer), but the types lack
    // some options.
    const http1Options = { keepAliveTimeout: idleMs, maxHeaderSize: headerBytes }
    const server = createSecureServer({
      ...first,
      minVersion: 'TLSv1.2',
      SNICallback: (name, done) => done(null, this.#certificates.contextFor(name)),
      allowHTTP1: true,
      http1Options,
      settings: { maxConcurrentStreams: streams, maxHeaderListSize: headerBytes, enablePush: false },
      ...http2Limits,
    })
    server.on('request', (request, response) => this.#receive(request, asClientResponse(response), false))
    server.on('checkContinue', (request, response) => this.#receive(request, asClientResponse(response), true))
    server.on('connect', (request: ClientSide, other: unknown) => refuseConnect(request, other))
    server.on('secureConnection', socket => {
      const connection = this.#connections.of(socket)
      // Node uses `false` if the client sent no server name.
      if (connection !== undefined) connection.serverName = socket.servername || undefined
    })
    server.on('session', session => {
      const { remoteAddress, remotePort } = session.socket
      this.#connections.of({ remoteAddress, remotePort })?.closeBy(() => session.close())
    })
    server.on('sessionError', () => {})
    server.on('tlsClientError', (_, socket) => socket.destroy())
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => this.#refuseUnread(error, socket))
    return server
  }

  #createContext(): ExchangeContext {
    const { admitting, decide, resolve, metrics, now, logger } = this.#options
    const { requests, requestsPerService } = this.#limits
    const counts = this.#ofService
    return {
      ...{ admitting, decide, resolve, metrics, now, logger, agent: this.#agent, limits: this.#limits },
      claim: service => {
        const count = counts.get(service) ?? 0
        if (count >= requestsPerService || this.#exchanges.size > requests) return false
        counts.set(service, count + 1)
        return true
      },
      release: service => {
        const remaining = (counts.get(service) ?? 1) - 1
        if (remaining > 0) counts.set(service, remaining)
        else counts.delete(service)
      },
    }
  }

  #sweep(): void {
    const at = this.#options.now()
    for (const exchange of this.#exchanges) exchange.check(at)
    this.#connections.sweep()
  }

  #receive(request: ClientSide, response: ClientResponse, expectsContinue: boolean): void {
    const socket = 'stream' in request ? request.stream.session?.socket : request.socket
    const connection = socket && this.#connections.of(socket)
    if (connection === undefined) {
      if ('stream' in request) request.stream.destroy()
      else request.socket.destroy()
      return
    }
    connection.begin()
    const start = (next: () => void) => this.#start({ request, response, expectsContinue, connection, next })
    if ('stream' in request) start(() => {})
    else this.#enqueue(request, start)
  }

  /** Runs the requests of a connection one after another, in the order in which they were sent. */
  #enqueue({ socket }: IncomingMessage, start: (next: () => void) => void): void {
    const queue = this.#queues.get(socket) ?? { current: false, waiting: [] }
    this.#queues.set(socket, queue)
    const next = (): void => {
      const waiting = socket.destroyed ? undefined : queue.waiting.shift()
      queue.current = waiting !== undefined
      waiting?.()
    }
    if (!queue.current) {
      queue.current = true
      start(next)
    } else if (queue.waiting.length < this.#limits.pipelined) queue.waiting.push(() => start(next))
    else socket.destroy()
  }

  #start(options: {
    request: ClientSide
    response: ClientResponse
    expectsContinue: boolean
    connection: HttpConnection
    next: () => void
  }): void {
    const { request, response, expectsContinue, connection, next } = options
    const exchange = new Exchange(
      this.#context,
      {
        request,
        response,
        expectsContinue,
        ...{ address: connection.address, sni: connection.serverName, close: closeOf(request) },
      },
      isAbandoned => {
        this.#exchanges.delete(exchange)
        connection.end(isAbandoned)
        if (this.#exchanges.size === 0) this.#idle?.()
        next()
      },
    )
    this.#exchanges.add(exchange)
    exchange.run()
  }

  /** Handles bytes that are not a request: answers if no other response is being sent, then closes. */
  #refuseUnread({ code = '' }: NodeJS.ErrnoException, socket: Socket): void {
    const isBusy = this.#queues.get(socket)?.current === true
    if (isBusy || !socket.writable || code === 'ECONNRESET') socket.destroy()
    else refuseAndClose(socket, unread[code] ?? malformedRequest('the request is malformed'))
  }
}

/** Node has separate types for the two versions. The parts used here are the same (Node manual, compatibility API). */
const asClientResponse = (response: unknown) => response as ClientResponse

const unread: Readonly<Record<string, HttpRefusal>> = {
  HPE_HEADER_OVERFLOW: { status: 431, message: 'the headers of the request are too large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, message: 'the request arrived too slowly' },
}

function refuseAndClose(socket: Socket, refusal: HttpRefusal): void {
  const body = refusalBody(refusal)
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

/** `other`: the socket for HTTP/1.1, the response for HTTP/2. */
function refuseConnect(request: ClientSide, other: unknown): void {
  if (!('stream' in request)) {
    refuseAndClose(request.socket, noUpgrade)
    return
  }
  const response = asClientResponse(other)
  response.on('error', () => {})
  response.writeHead(noUpgrade.status, { 'content-type': 'application/json' })
  response.end(refusalBody(noUpgrade))
}

const closeOf =
  (request: ClientSide) =>
  (isAnswered: boolean): void => {
    if ('stream' in request)
      request.stream.close(isAnswered ? constants.NGHTTP2_NO_ERROR : constants.NGHTTP2_INTERNAL_ERROR)
    // Node closes the socket once the response is written.
    else if (!isAnswered) request.socket.destroy()
  }
