/**
 * One request and its response. The handler receives the head and a readable body. The server sends the handler's
 * response complete or as a stream. It reserves memory for the request body and the response until the client has read
 * the response.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BlockList } from 'node:net'
import { originForm } from '../../server/origin-form.ts'
import { clientAddress } from './address.ts'
import { bodyLength, discardBody, readBody } from './body.ts'
import { type Budget, type Reservation, smallBodyBytes } from './budget.ts'
import type { Connections } from './connections.ts'
import { type CorsRules, corsHeaders, preflight } from './cors.ts'
import { HttpError } from './errors.ts'
import { type HeaderList, isFraming } from './headers.ts'
import type { BodySink, Handler, Headers, HttpResponse, IncomingBody, RequestHead } from './message.ts'
import type { Counted, RequestFigures } from './request-figures.ts'
import { type Backlog, boundSending, gather, hidesItsEnd, writeStream } from './stream.ts'

/** Settings that may change while the server runs. */
export type ResponseRules = {
  /** Undefined: the handler adds CORS headers itself. */
  readonly cors: CorsRules | undefined
  /** The name of a request header that the server copies to the response. */
  readonly traceHeader: string | undefined
}

/** The state that all exchanges of a server share. */
export type Shared = {
  readonly handle: Handler
  readonly renderError: (error: unknown) => HttpResponse
  readonly rules: () => ResponseRules
  readonly maximumBodyBytes: number
  readonly maximumBufferedBytes: number
  readonly maximumDiscardedBytes: number
  readonly budget: Budget
  readonly backlog: Backlog
  readonly connections: Connections
  readonly trustedProxies: BlockList
  readonly serverHeader: readonly [string, string]
  readonly isListening: () => boolean
  /** Undefined: nothing is counted. */
  readonly requests: RequestFigures | undefined
}

/** Returns the request's headers, each name once. Node joins or drops repeated headers, except Set-Cookie. */
const headersOf = ({ headers }: IncomingMessage): Headers =>
  'set-cookie' in headers ? { ...headers, 'set-cookie': headers['set-cookie']?.join(', ') } : (headers as Headers)

function headerLines(answer: HttpResponse, extra: HeaderList): string[] {
  const list: string[] = []
  for (const [name, value] of answer.headers) if (!isFraming(name, value)) list.push(name, value)
  for (const [name, value] of extra) list.push(name, value)
  return list
}

/** Up to this size, copying a body is faster than a second write. */
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
  // For a string body, Node sends head and body with one write.
  else if (typeof body !== 'string' && length <= oneWriteBytes) response.end(body.toString('latin1'), 'latin1')
  else response.end(body)
}

/** The CORS and trace headers of a response, except the response to a preflight request. */
function commonHeaders(method: string, headers: Headers, { cors, traceHeader }: ResponseRules): HeaderList {
  const trace = traceHeader === undefined ? undefined : headers[traceHeader.toLowerCase()]
  return [
    ...(cors === undefined ? [] : corsHeaders({ method, origin: headers.origin }, cors)),
    ...(traceHeader === undefined || trace === undefined ? [] : [[traceHeader, trace] as const]),
  ]
}

const isEventStream = ({ headers }: HttpResponse): boolean =>
  headers.some(([name, value]) => name.toLowerCase() === 'content-type' && value.startsWith('text/event-stream'))

/** The status that is counted for a request whose client disconnected before the response. nginx uses this status. */
const clientClosedRequest = 499

export async function serve(shared: Shared, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = 'GET' } = incoming
  const headers = headersOf(incoming)
  const rules = shared.rules()
  const preflightHeaders = method === 'OPTIONS' && rules.cors !== undefined ? preflight(headers, rules.cors) : undefined
  if (preflightHeaders !== undefined)
    send(response, { status: 200, headers: preflightHeaders, body: '' }, [shared.serverHeader], false)
  else {
    const common = [...commonHeaders(method, headers, rules), shared.serverHeader]
    await new Exchange(shared, { incoming, response, headers, common }).run()
  }
}

type Parts = {
  readonly incoming: IncomingMessage
  readonly response: ServerResponse
  readonly headers: Headers
  /** Headers in addition to the response's own headers. */
  readonly common: HeaderList
}

class Exchange {
  readonly #shared: Shared
  readonly #incoming: IncomingMessage
  readonly #response: ServerResponse
  readonly #head: RequestHead
  readonly #common: HeaderList
  readonly #disconnected = new AbortController()
  readonly #reservation: Reservation
  readonly #counted: Counted | undefined
  /** How many bytes of the body the handler retains. */
  #bufferedBytes = 0

  constructor(shared: Shared, { incoming, response, headers, common }: Parts) {
    this.#shared = shared
    this.#common = common
    this.#incoming = incoming
    this.#response = response
    const { method = 'GET', socket } = incoming
    const url = originForm(incoming.url ?? '/')
    const question = url.indexOf('?')
    this.#head = {
      method,
      path: question === -1 ? url : url.slice(0, question),
      query: question === -1 ? '' : url.slice(question + 1),
      headers,
      address: clientAddress(socket.remoteAddress, headers['x-forwarded-for'], shared.trustedProxies),
    }
    this.#reservation = shared.budget.reserve()
    this.#counted = shared.requests?.begin(this.#head.path)
    response.on('close', () => {
      this.#counted?.ended(response.headersSent ? response.statusCode : clientClosedRequest)
      this.#reservation.release()
      shared.connections.release(socket)
      if (!response.writableFinished) this.#disconnected.abort(new Error('the client has disconnected'))
    })
  }

  async run(): Promise<void> {
    const { handle, renderError, connections, maximumDiscardedBytes } = this.#shared
    const response = this.#response
    const body = this.#body()
    if (body.length === 0) connections.use(this.#incoming.socket)
    try {
      const answer = await handle(this.#head, body, this.#disconnected.signal)
      if (response.destroyed) return
      discardBody(this.#incoming, maximumDiscardedBytes)
      await this.#answer(answer)
    } catch (error) {
      if (response.destroyed || response.headersSent) return
      discardBody(this.#incoming, maximumDiscardedBytes)
      this.#endConnection(error)
      send(response, renderError(error), this.#common, this.#head.method === 'HEAD')
    }
  }

  #body(): IncomingBody {
    const length = bodyLength(this.#incoming)
    return {
      length,
      read: into => (length === 0 ? Promise.resolve() : this.#read(into)),
      reserve: bytes => this.#reservation.grow(this.#bufferedBytes + bytes),
    }
  }

  async #read(into: BodySink): Promise<void> {
    const { maximumBodyBytes: maximumBytes, connections } = this.#shared
    const [request, reservation, disconnected] = [this.#incoming, this.#reservation, this.#disconnected.signal]
    try {
      await readBody({ request, into, maximumBytes, reservation, disconnected })
    } catch (error) {
      this.#endConnection(error)
      throw error
    }
    this.#bufferedBytes = into.bufferedBytes
    connections.use(request.socket)
  }

  /** After an HttpError, the server closes the connection, because the rest of the body may be unread. */
  #endConnection(error: unknown): void {
    if (error instanceof HttpError) this.#response.shouldKeepAlive = false
  }

  async #answer(answer: HttpResponse): Promise<void> {
    const response = this.#response
    const { method } = this.#head
    const { body = '', stream } = answer
    // While the server stops, it closes the connection after this response.
    if (!this.#shared.isListening()) response.shouldKeepAlive = false
    // Only a GET is refused here, because a client can repeat it. Another method's changes may already be committed, so
    // the server must send the response.
    if (!this.#reservation.grow(this.#bufferedBytes + Buffer.byteLength(body)) && method === 'GET')
      throw new HttpError({ kind: 'memory exhausted' })
    if (stream === undefined || method === 'HEAD') send(response, answer, this.#common, method === 'HEAD')
    else await this.#stream(answer, stream)
  }

  async #stream(answer: HttpResponse, stream: NonNullable<HttpResponse['stream']>): Promise<void> {
    const response = this.#response
    const bufferedBytes = this.#bufferedBytes
    // `Budget` accepts a single body above the limit. A stream above the limit is refused, because its length can be
    // unknown.
    const reserve = (bytes: number) => bytes <= this.#shared.maximumBufferedBytes && this.#reservation.grow(bytes)
    if (answer.streamLength === undefined && hidesItsEnd(response)) {
      const abort = () => this.#disconnected.abort(new Error('the memory limit for responses is reached'))
      const body = await gather(stream, { bufferedBytes, reserve, abort })
      send(response, { ...answer, body }, this.#common, false)
      return
    }
    const lines = headerLines(answer, this.#common)
    if (answer.streamLength !== undefined) lines.push('Content-Length', String(answer.streamLength))
    if (answer.statusText === undefined) response.writeHead(answer.status, lines)
    else response.writeHead(answer.status, answer.statusText, lines)
    if (isEventStream(answer)) this.#counted?.begun()
    await writeStream(response, stream, { bufferedBytes, reserve, backlog: this.#shared.backlog })
  }
}
