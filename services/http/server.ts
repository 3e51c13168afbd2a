/**
 * HTTP around a service: reads requests within their limits, writes responses, and tells when a client is gone. What a request is answered with, errors included, is the
 * service's; where messages end, how much of them is held and whose turn it is are not.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Certificate } from '../../server/certificate.ts'
import { createServer, STATUS_CODES } from '../../server/node-http.ts'
import { originForm } from '../../server/origin-form.ts'
import { clientAddress, trustedBlocks } from './address.ts'
import { bodyLength, discardBody, readBody } from './body.ts'
import { Budget, smallBodyBytes } from './budget.ts'
import { Connections, mostConnections } from './connections.ts'
import { type CorsRules, corsHeaders, preflight } from './cors.ts'
import { HttpError } from './errors.ts'
import { type HeaderList, isFraming } from './headers.ts'
import { closeLingering, isLingering } from './linger.ts'
import type { Handler, Headers, HttpResponse, IncomingBody, UnreadRequest } from './message.ts'
import { RequestQueue } from './request-queue.ts'
import { boundSending, gather, hidesItsEnd, writeStream } from './stream.ts'
import { createTlsServer } from './tls.ts'

/** What may change while the server runs. */
type ResponseRules = {
  /** undefined: the handler answers pages of other origins itself. */
  readonly cors: CorsRules | undefined
  /** A header of requests that responses repeat. */
  readonly traceHeader: string | undefined
}

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

/** Each name once; Node has joined or dropped repeated ones, but for Set-Cookie, which no request has. */
const headersOf = ({ headers }: IncomingMessage): Headers =>
  'set-cookie' in headers ? { ...headers, 'set-cookie': headers['set-cookie']?.join(', ') } : (headers as Headers)

/** Where HTTP/1.0 sends chunks, a proxy before us may see another end of the request than we do (RFC 9112 section 6.1). */
const isDoubtful = ({ httpVersion, headers }: IncomingMessage): boolean =>
  httpVersion === '1.0' && headers['transfer-encoding'] !== undefined

function headerLines(answer: HttpResponse, extra: HeaderList): string[] {
  const list: string[] = []
  for (const [name, value] of answer.headers) if (!isFraming(name, value)) list.push(name, value)
  for (const [name, value] of extra) list.push(name, value)
  return list
}

/** Of a body that is not much, a copy is quicker than a second piece to write. */
const oneWriteBytes = 8_192

function send(response: ServerResponse, answer: HttpResponse, extra: HeaderList, isHead: boolean): void {
  const { status, statusText, body } = answer
  const list = headerLines(answer, extra)
  const isEmpty = status === 204 || status === 304
  const length = body === undefined ? 0 : Buffer.byteLength(body)
  if (!isEmpty && !isHead) list.push('Content-Length', String(length))
  if (length > smallBodyBytes) boundSending(response, length)
  if (statusText === undefined) response.writeHead(status, list)
  else response.writeHead(status, statusText, list)
  if (isEmpty || isHead || body === undefined) response.end()
  // Head and body in one text are one write: Node sends bytes behind a head of their own.
  else if (typeof body !== 'string' && length <= oneWriteBytes) response.end(body.toString('latin1'), 'latin1')
  else response.end(body)
}

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
  const { maximumDiscardedBytes = 268_435_456 } = service
  const budget = new Budget(maximumHeldBytes)
  const backlog = { budget: new Budget(maximumBacklogBytes), stalledMs: service.stalledMs ?? usualStalledMs }
  const queue = new RequestQueue()
  const serverHeader: [string, string] = ['Server', product]
  const trusted = trustedBlocks(service.trustedProxies ?? [])

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET' } = incoming
    const url = originForm(incoming.url ?? '/')
    const headers = headersOf(incoming)
    const { cors, traceHeader } = service.rules()
    const extra = cors === undefined ? [] : corsHeaders({ method, origin: headers.origin }, cors)
    const trace = traceHeader === undefined ? undefined : headers[traceHeader.toLowerCase()]
    if (traceHeader !== undefined && trace !== undefined) extra.push([traceHeader, trace])
    extra.push(serverHeader)
    const isHead = method === 'HEAD'
    if (method === 'OPTIONS' && cors !== undefined) {
      const asked = preflight(headers, cors)
      if (asked !== undefined) return send(response, { status: 200, headers: asked, body: '' }, [serverHeader], false)
    }
    const gone = new AbortController()
    const reservation = budget.reserve()
    const { socket } = incoming
    response.on('close', () => {
      reservation.release()
      connections.leave(socket)
      if (!response.writableFinished) gone.abort(new Error('the client is gone'))
    })
    const question = url.indexOf('?')
    const head = {
      method,
      path: question === -1 ? url : url.slice(0, question),
      query: question === -1 ? '' : url.slice(question + 1),
      headers,
      address: clientAddress(incoming.socket.remoteAddress, headers['x-forwarded-for'], trusted),
    }
    /** After what the server itself refuses, the next request of the connection could only be found by reading on. */
    const endConnection = (error: unknown) => {
      if (error instanceof HttpError) response.shouldKeepAlive = false
    }
    let held = 0
    /** Of what comes bit by bit, nobody knows how much it will be: it has to fit, also where it is alone. */
    const hasRoom = (bytes: number) => bytes <= maximumHeldBytes && reservation.grow(bytes)
    const body: IncomingBody = {
      length: bodyLength(incoming),
      async read(into) {
        if (this.length === 0) return
        const reading = { request: incoming, into, maximumBytes: maximumBodyBytes, reservation, gone: gone.signal }
        await readBody(reading).catch((error: unknown) => {
          endConnection(error)
          throw error
        })
        held = into.held
        connections.use(socket)
      },
      leavesRoomFor: bytes => reservation.grow(held + bytes),
    }
    if (body.length === 0) connections.use(socket)
    try {
      const answer = await service.handle(head, body, gone.signal)
      if (response.destroyed) return
      discardBody(incoming, maximumDiscardedBytes)
      const { body: content = '', stream } = answer
      // A server that ends answers what it has been asked, and no more.
      if (!listener.listening) response.shouldKeepAlive = false
      // What has been written has been written: only of a read it can be said that it may be asked for again.
      if (!reservation.grow(held + Buffer.byteLength(content)) && method === 'GET') {
        throw new HttpError({ kind: 'memory exhausted' })
      }
      if (stream === undefined || isHead) send(response, answer, extra, isHead)
      else if (answer.streamLength === undefined && hidesItsEnd(response)) {
        const giveUp = () => gone.abort(new Error('there is no room for its answer'))
        const whole = await gather(stream, { held, hasRoom, giveUp })
        send(response, { ...answer, body: whole }, extra, false)
      } else {
        const lines = headerLines(answer, extra)
        if (answer.streamLength !== undefined) lines.push('Content-Length', String(answer.streamLength))
        if (answer.statusText === undefined) response.writeHead(answer.status, lines)
        else response.writeHead(answer.status, answer.statusText, lines)
        await writeStream(response, stream, { held, hasRoom, backlog })
      }
    } catch (error) {
      if (response.destroyed || response.headersSent) return
      discardBody(incoming, maximumDiscardedBytes)
      endConnection(error)
      send(response, service.renderError(error), extra, isHead)
    }
  }

  const options = { maxHeaderSize: service.maximumHeaderBytes, keepAliveTimeout: 75_000 }
  const receive = (request: IncomingMessage, response: ServerResponse) => {
    if (isDoubtful(request)) response.shouldKeepAlive = false
    queue.add(request.socket, response, () => void serve(request, response))
  }
  const listener =
    service.tls === undefined ? createServer(options, receive) : createTlsServer(service.tls, options, receive)
  const connections = new Connections(listener, mostConnections(service.maximumConnections))
  listener.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const { renderUnread = bareRefusal } = service
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
