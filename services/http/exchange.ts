/**
 * One request of a connection and its answer: the handler gets the head and a body to read, and what it returns is sent whole or as a stream. What is held of both is reserved
 * until the answer has been fetched.
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
import { type Backlog, boundSending, gather, hidesItsEnd, writeStream } from './stream.ts'

/** What may change while the server runs. */
export type ResponseRules = {
  /** undefined: the handler answers pages of other origins itself. */
  readonly cors: CorsRules | undefined
  /** A header of requests that responses repeat. */
  readonly traceHeader: string | undefined
}

/** What the exchanges of one server share. */
export type Shared = {
  readonly handle: Handler
  readonly renderError: (error: unknown) => HttpResponse
  readonly rules: () => ResponseRules
  readonly maximumBodyBytes: number
  readonly maximumHeldBytes: number
  readonly maximumDiscardedBytes: number
  readonly budget: Budget
  readonly backlog: Backlog
  readonly connections: Connections
  readonly trustedProxies: BlockList
  readonly serverHeader: readonly [string, string]
  readonly isListening: () => boolean
}

/** Each name once; Node has joined or dropped repeated ones, but for Set-Cookie, which no request has. */
const headersOf = ({ headers }: IncomingMessage): Headers =>
  'set-cookie' in headers ? { ...headers, 'set-cookie': headers['set-cookie']?.join(', ') } : (headers as Headers)

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

/** Headers of every answer to a request, beside the answer's own. */
function commonHeaders(method: string, headers: Headers, { cors, traceHeader }: ResponseRules): HeaderList {
  const trace = traceHeader === undefined ? undefined : headers[traceHeader.toLowerCase()]
  return [
    ...(cors === undefined ? [] : corsHeaders({ method, origin: headers.origin }, cors)),
    ...(traceHeader === undefined || trace === undefined ? [] : [[traceHeader, trace] as const]),
  ]
}

/** Answers one request. */
export async function serve(shared: Shared, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = 'GET' } = incoming
  const headers = headersOf(incoming)
  const rules = shared.rules()
  const asked = method === 'OPTIONS' && rules.cors !== undefined ? preflight(headers, rules.cors) : undefined
  if (asked !== undefined) send(response, { status: 200, headers: asked, body: '' }, [shared.serverHeader], false)
  else {
    const common = [...commonHeaders(method, headers, rules), shared.serverHeader]
    await new Exchange(shared, { incoming, response, headers, common }).run()
  }
}

type Parts = {
  readonly incoming: IncomingMessage
  readonly response: ServerResponse
  readonly headers: Headers
  /** Headers of the answer beside its own. */
  readonly common: HeaderList
}

class Exchange {
  readonly #shared: Shared
  readonly #incoming: IncomingMessage
  readonly #response: ServerResponse
  readonly #head: RequestHead
  readonly #common: HeaderList
  readonly #gone = new AbortController()
  readonly #reservation: Reservation
  /** Bytes of the body that the handler holds. */
  #held = 0

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
    response.on('close', () => {
      this.#reservation.release()
      shared.connections.leave(socket)
      if (!response.writableFinished) this.#gone.abort(new Error('the client is gone'))
    })
  }

  async run(): Promise<void> {
    const { handle, renderError, connections, maximumDiscardedBytes } = this.#shared
    const response = this.#response
    const body = this.#body()
    if (body.length === 0) connections.use(this.#incoming.socket)
    try {
      const answer = await handle(this.#head, body, this.#gone.signal)
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
      leavesRoomFor: bytes => this.#reservation.grow(this.#held + bytes),
    }
  }

  async #read(into: BodySink): Promise<void> {
    const { maximumBodyBytes: maximumBytes, connections } = this.#shared
    const [request, reservation, gone] = [this.#incoming, this.#reservation, this.#gone.signal]
    try {
      await readBody({ request, into, maximumBytes, reservation, gone })
    } catch (error) {
      this.#endConnection(error)
      throw error
    }
    this.#held = into.held
    connections.use(request.socket)
  }

  /** After a request that the server itself refuses, only reading on would find the next one of the connection. */
  #endConnection(error: unknown): void {
    if (error instanceof HttpError) this.#response.shouldKeepAlive = false
  }

  async #answer(answer: HttpResponse): Promise<void> {
    const response = this.#response
    const { method } = this.#head
    const { body = '', stream } = answer
    // A server that stops answers the requests it has got, and no more.
    if (!this.#shared.isListening()) response.shouldKeepAlive = false
    // A write has been done: only a read can be refused now, since it can be sent again.
    if (!this.#reservation.grow(this.#held + Buffer.byteLength(body)) && method === 'GET')
      throw new HttpError({ kind: 'memory exhausted' })
    if (stream === undefined || method === 'HEAD') send(response, answer, this.#common, method === 'HEAD')
    else await this.#stream(answer, stream)
  }

  async #stream(answer: HttpResponse, stream: NonNullable<HttpResponse['stream']>): Promise<void> {
    const response = this.#response
    const held = this.#held
    // Nobody knows how long a stream will be: it must fit, even if it is alone.
    const hasRoom = (bytes: number) => bytes <= this.#shared.maximumHeldBytes && this.#reservation.grow(bytes)
    if (answer.streamLength === undefined && hidesItsEnd(response)) {
      const giveUp = () => this.#gone.abort(new Error('there is no room for its answer'))
      const body = await gather(stream, { held, hasRoom, giveUp })
      send(response, { ...answer, body }, this.#common, false)
      return
    }
    const lines = headerLines(answer, this.#common)
    if (answer.streamLength !== undefined) lines.push('Content-Length', String(answer.streamLength))
    if (answer.statusText === undefined) response.writeHead(answer.status, lines)
    else response.writeHead(answer.status, answer.statusText, lines)
    await writeStream(response, stream, { held, hasRoom, backlog: this.#shared.backlog })
  }
}
