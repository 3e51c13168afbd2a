/**
 * HTTP around a service: reads requests within their limits, writes responses, and tells when a client is gone. What a request is answered with, errors included, is the
 * service's; where messages end, how much of them is held and whose turn it is are not.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Certificate } from '../../server/certificate.ts'
import { createServer, STATUS_CODES } from '../../server/node-http.ts'
import { trustedBlocks } from './address.ts'
import { Budget } from './budget.ts'
import { Connections, mostConnections } from './connections.ts'
import { type ResponseRules, type Shared, serve } from './exchange.ts'
import { isFraming } from './headers.ts'
import { closeLingering, isLingering } from './linger.ts'
import type { Handler, HttpResponse, UnreadRequest } from './message.ts'
import { RequestQueue } from './request-queue.ts'
import { createTlsServer } from './tls.ts'

export type HttpService = {
  /** As the header Server has it. */
  readonly product: string
  readonly maximumBodyBytes: number
  readonly maximumHeaderBytes: number
  /** Of the bodies of all requests and answers together; 256 MiB or four bodies where it is not given. */
  readonly maximumHeldBytes?: number | undefined
  /** Of a body that is answered without it, and of what comes after the last answer of a connection; 256 MiB where it is not given. */
  readonly maximumDiscardedBytes?: number | undefined
  /** Those that are not in use make room; 10,000 where it is not given, or what the system allows. */
  readonly maximumConnections?: number | undefined
  /** A client that fetches nothing of a stream for so long is hung up on; three minutes where it is not given. */
  readonly stalledMs?: number | undefined
  /** undefined: plain HTTP. */
  readonly tls?: Certificate | undefined
  /** Addresses and CIDR blocks of proxies whose X-Forwarded-For is believed; nobody's where it is not given. */
  readonly trustedProxies?: readonly string[]
  readonly rules: () => ResponseRules
  readonly handle: Handler
  /** What is answered where the handler rejects, or the server itself refuses (HttpError). */
  readonly renderError: (error: unknown) => HttpResponse
  /** What is answered where there is no request to handle; a status alone where it is not given. */
  readonly renderUnread?: (why: UnreadRequest) => HttpResponse
}

/** Where HTTP/1.0 sends chunks, a proxy before us may see another end of the request than we do (RFC 9112 section 6.1). */
const isDoubtful = ({ httpVersion, headers }: IncomingMessage): boolean =>
  httpVersion === '1.0' && headers['transfer-encoding'] !== undefined

/** Of what waits in all streams of a server, beside what each may have that is small. */
const maximumBacklogBytes = 67_108_864
/** A client that reads little is seen to fetch only as the system's own buffers run empty. */
const usualStalledMs = 180_000

const unreadOf: Record<string, UnreadRequest> = {
  HPE_HEADER_OVERFLOW: 'head too large',
  ERR_HTTP_REQUEST_TIMEOUT: 'too slow',
}
const unreadStatus: Record<UnreadRequest, number> = { malformed: 400, 'head too large': 431, 'too slow': 408 }
const bareRefusal = (why: UnreadRequest): HttpResponse => ({ status: unreadStatus[why], headers: [], body: '' })

/** Where Node has made no response to write to. */
function lastWords({ status, headers, body = '' }: HttpResponse, product: string): string {
  const lines = headers.filter(([name, value]) => !isFraming(name, value)).map(([name, value]) => `${name}: ${value}`)
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, `Server: ${product}`, 'Connection: close']
  return `${head.join('\r\n')}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/** Makes the server; it does not listen yet. */
export function makeServer(service: HttpService): Server {
  const { product, maximumBodyBytes, maximumHeldBytes = Math.max(268_435_456, 4 * maximumBodyBytes) } = service
  // Most clients read nothing before they have sent all.
  const { maximumDiscardedBytes = 268_435_456, renderUnread = bareRefusal } = service
  const queue = new RequestQueue()
  const options = { maxHeaderSize: service.maximumHeaderBytes, keepAliveTimeout: 75_000 }
  const receive = (request: IncomingMessage, response: ServerResponse) => {
    if (isDoubtful(request)) response.shouldKeepAlive = false
    queue.add(request.socket, response, () => void serve(shared, request, response))
  }
  const listener =
    service.tls === undefined ? createServer(options, receive) : createTlsServer(service.tls, options, receive)
  const shared: Shared = {
    handle: service.handle,
    renderError: service.renderError,
    rules: service.rules,
    maximumBodyBytes,
    maximumHeldBytes,
    maximumDiscardedBytes,
    budget: new Budget(maximumHeldBytes),
    backlog: { budget: new Budget(maximumBacklogBytes), stalledMs: service.stalledMs ?? usualStalledMs },
    connections: new Connections(listener, mostConnections(service.maximumConnections)),
    trustedProxies: trustedBlocks(service.trustedProxies ?? []),
    serverHeader: ['Server', product],
    isListening: () => listener.listening,
  }
  listener.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const last = lastWords(renderUnread(unreadOf[error.code ?? ''] ?? 'malformed'), product)
    if (!(socket instanceof Socket) || !socket.writable) {
      if (!(socket instanceof Socket && isLingering(socket))) socket.destroy()
      return
    }
    socket.write(last)
    closeLingering(socket, maximumDiscardedBytes)
  })
  return listener
}
