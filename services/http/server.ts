/**
 * The HTTP server of a service. Reads requests within limits, writes responses, and detects disconnected clients. The
 * service decides the responses, including errors. The server decides framing, memory and scheduling.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Certificate } from '../../server/certificate.ts'
import { createServer, STATUS_CODES } from '../../server/node-http.ts'
import { trustedBlocks } from './address.ts'
import { Budget } from './budget.ts'
import { Connections, mostConnections } from './connections.ts'
import { closeDelayed, isClosing } from './delayed-close.ts'
import { type ResponseRules, type Shared, serve } from './exchange.ts'
import { isFraming } from './headers.ts'
import type { Handler, HttpResponse, UnreadRequest } from './message.ts'
import type { RequestFigures } from './request-figures.ts'
import { RequestQueue } from './request-queue.ts'
import { createTlsServer } from './tls.ts'

export type HttpService = {
  /** The value of the Server header. */
  readonly product: string
  readonly maximumBodyBytes: number
  readonly maximumHeaderBytes: number
  /**
   * The limit for all request and response bodies above 64 KiB together. Default: 256 MiB, or four times
   * `maximumBodyBytes` if that is larger.
   */
  readonly maximumBufferedBytes?: number | undefined
  /**
   * The maximum number of bytes that the server discards from an unread body, or after a connection's last response.
   * Default: 256 MiB.
   */
  readonly maximumDiscardedBytes?: number | undefined
  /**
   * At the limit, the server closes the connection that has been unused for the longest time. Default: 10,000, or less
   * if the file descriptor limit is lower.
   */
  readonly maximumConnections?: number | undefined
  /** The server disconnects a client that reads nothing of a stream for this long. Default: three minutes. */
  readonly stalledMs?: number | undefined
  /** Undefined: plain HTTP. */
  readonly tls?: Certificate | undefined
  /** Addresses and CIDR blocks of proxies whose X-Forwarded-For the server trusts. Default: none. */
  readonly trustedProxies?: readonly string[]
  /** Counts requests. Default: no counting. */
  readonly requests?: RequestFigures | undefined
  readonly rules: () => ResponseRules
  readonly handle: Handler
  /** The response if the handler rejects, or if the server itself refuses the request (HttpError). */
  readonly renderError: (error: unknown) => HttpResponse
  /** The response if the server could not parse a request. Default: only the status. */
  readonly renderUnread?: (why: UnreadRequest) => HttpResponse
}

/**
 * Whether a proxy could disagree with this server about the end of the request. This can happen if a client sends
 * chunks with HTTP/1.0 (RFC 9112, section 6.1).
 */
const isAmbiguous = ({ httpVersion, headers }: IncomingMessage): boolean =>
  httpVersion === '1.0' && headers['transfer-encoding'] !== undefined

/**
 * The limit of waiting bytes in all streams of a server. A stream with at most 64 KiB of waiting bytes does not count.
 */
const maximumBacklogBytes = 67_108_864
/** The server detects progress only when a socket buffer drains, which can take minutes with a slow client. */
const usualStalledMs = 180_000

const unreadOf: Record<string, UnreadRequest> = {
  HPE_HEADER_OVERFLOW: 'head too large',
  ERR_HTTP_REQUEST_TIMEOUT: 'too slow',
}
const unreadStatus: Record<UnreadRequest, number> = { malformed: 400, 'head too large': 431, 'too slow': 408 }
const bareRefusal = (why: UnreadRequest): HttpResponse => ({ status: unreadStatus[why], headers: [], body: '' })

/** The complete text of a response for which Node created no response object. */
function finalResponse({ status, headers, body = '' }: HttpResponse, product: string): string {
  const lines = headers.filter(([name, value]) => !isFraming(name, value)).map(([name, value]) => `${name}: ${value}`)
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, `Server: ${product}`, 'Connection: close']
  return `${head.join('\r\n')}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/** Creates the server. The server does not listen yet. */
export function makeServer(service: HttpService): Server {
  const { product, maximumBodyBytes, maximumBufferedBytes = Math.max(268_435_456, 4 * maximumBodyBytes) } = service
  // The discard limit is high, because most clients read the response only after they have sent the whole body.
  const { maximumDiscardedBytes = 268_435_456, renderUnread = bareRefusal } = service
  const queue = new RequestQueue()
  const options = { maxHeaderSize: service.maximumHeaderBytes, keepAliveTimeout: 75_000 }
  const receive = (request: IncomingMessage, response: ServerResponse) => {
    if (isAmbiguous(request)) response.shouldKeepAlive = false
    queue.add(request.socket, response, () => void serve(shared, request, response))
  }
  const listener =
    service.tls === undefined ? createServer(options, receive) : createTlsServer(service.tls, options, receive)
  const shared: Shared = {
    handle: service.handle,
    renderError: service.renderError,
    rules: service.rules,
    maximumBodyBytes,
    maximumBufferedBytes,
    maximumDiscardedBytes,
    budget: new Budget(maximumBufferedBytes),
    backlog: { budget: new Budget(maximumBacklogBytes), stalledMs: service.stalledMs ?? usualStalledMs },
    connections: new Connections(listener, mostConnections(service.maximumConnections)),
    trustedProxies: trustedBlocks(service.trustedProxies ?? []),
    serverHeader: ['Server', product],
    isListening: () => listener.listening,
    requests: service.requests,
  }
  listener.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const last = finalResponse(renderUnread(unreadOf[error.code ?? ''] ?? 'malformed'), product)
    if (!(socket instanceof Socket) || !socket.writable) {
      if (!(socket instanceof Socket && isClosing(socket))) socket.destroy()
      return
    }
    socket.write(last)
    closeDelayed(socket, maximumDiscardedBytes)
  })
  return listener
}
