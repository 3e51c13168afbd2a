/** HTTP around the service: reads requests within their limits, writes responses, and tells when a client is gone. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { errorAnswer, type HttpResponse } from '../rest/engine/answer.ts'
import type { BodySink, IncomingBody } from '../rest/engine/exchange.ts'
import { serviceName, version } from '../rest/engine/version.ts'
import { RestError } from '../rest/errors/rest-error.ts'
import type { Headers, RequestHead } from '../rest/parse/request.ts'
import { Budget, type Share, smallBodyBytes } from './budget.ts'
import { corsHeaders, preflight } from './cors.ts'
import { Turns } from './request-queue.ts'

export type HttpSettings = {
  readonly maximumBodyBytes: number
  readonly maximumHeaderBytes: number
  /** Of the bodies of all requests and answers together. */
  readonly maximumHeldBytes?: number | undefined
}

/** What may change while the server runs. */
export type ResponseRules = {
  readonly corsOrigins: readonly string[] | undefined
  readonly traceHeader: string | undefined
}

export type Handler = (head: RequestHead, body: IncomingBody, signal: AbortSignal) => Promise<HttpResponse>

const tooLarge = (limit: number) =>
  new RestError({
    status: 413,
    code: 'RST102',
    message: `The request body is larger than ${limit} bytes`,
    headers: [['Connection', 'close']],
  })

const noRoom = () =>
  new RestError({
    status: 503,
    code: '53000',
    message: 'The service holds too much data of other requests',
    headers: [
      ['Retry-After', '1'],
      ['Connection', 'close'],
    ],
  })

/** After so much of a body others have their turn; and after so long, where it comes in many small chunks. */
const turnBytes = 65_536
const turnMs = 2
/** Chunks of fewer bytes are put together before they are looked at: one may be of one byte. */
const smallChunkBytes = 1_024
const gatheredBytes = 16_384

/** Hands on chunks of a body, small ones together; but the first one as it is, since most bodies are one. */
class Gatherer {
  readonly #handOn: (chunk: Buffer) => void
  #gathered: Buffer | undefined
  #filled = 0
  #isFirst = true

  constructor(handOn: (chunk: Buffer) => void) {
    this.#handOn = handOn
  }

  push(chunk: Buffer): void {
    if (this.#isFirst || chunk.length >= smallChunkBytes) {
      this.#isFirst = false
      this.flush()
      this.#handOn(chunk)
      return
    }
    this.#gathered ??= Buffer.allocUnsafe(gatheredBytes)
    this.#filled += chunk.copy(this.#gathered, this.#filled)
    if (this.#filled > gatheredBytes - smallChunkBytes) this.flush()
  }

  flush(): void {
    const whole = this.#gathered?.subarray(0, this.#filled)
    this.#gathered = undefined
    this.#filled = 0
    if (whole !== undefined) this.#handOn(whole)
  }
}

type Reading = {
  readonly request: IncomingMessage
  readonly into: BodySink
  readonly limit: number
  readonly share: Share
  readonly gone: AbortSignal
}

/** Reads a body to its end; one that is too large, that there is no room for, or that its reader refuses, is refused as soon as that shows. */
function readBody({ request, into, limit, share, gone }: Reading): Promise<void> {
  if (Number(request.headers['content-length'] ?? 0) > limit) return Promise.reject(tooLarge(limit))
  return new Promise((resolve, reject) => {
    if (gone.aborted) return reject(gone.reason)
    const { socket } = request
    let isOver = false
    const end = (error?: unknown) => {
      isOver = true
      if (error === undefined) resolve()
      else reject(error)
    }
    const attempt = (step: () => void) => {
      try {
        if (!isOver) step()
      } catch (error) {
        end(error)
      }
    }
    let turn: { readonly began: number; readonly from: number } | undefined
    const giveWay = () => {
      // What has been read of the socket already comes all the same.
      socket.pause()
      setImmediate(() => {
        turn = undefined
        socket.resume()
      })
    }
    let length = 0
    const gatherer = new Gatherer(chunk => {
      into.push(chunk)
      if (!share.grow(into.held)) throw noRoom()
      if (turn === undefined || socket.isPaused()) return
      if (length - turn.from >= turnBytes || performance.now() - turn.began >= turnMs) giveWay()
    })
    request.on('data', (chunk: Buffer) =>
      attempt(() => {
        turn ??= { began: performance.now(), from: length }
        length += chunk.length
        if (length > limit) throw tooLarge(limit)
        gatherer.push(chunk)
      }),
    )
    request.on('end', () => {
      attempt(() => gatherer.flush())
      end()
    })
    // Whatever else ends a body early ends its connection as well.
    request.on('error', () => {})
    gone.addEventListener('abort', () => end(gone.reason))
  })
}

/** Undefined where the client does not say it. */
const bodyLength = ({ headers }: IncomingMessage): number | undefined =>
  headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : undefined

/**
 * What is left of a body that is answered without it, so that the next request of its connection can be read; with more than a body may have, the connection ends. Node by
 * itself would read on for as long as it comes.
 */
function discard(request: IncomingMessage, limit: number): void {
  if (bodyLength(request) === 0 || request.readableEnded || request.destroyed) return
  let left = limit
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) request.socket.destroy()
  })
  request.resume()
}

/** Each name once; Node has joined or dropped repeated ones, but for Set-Cookie, which no request has. */
const headersOf = ({ headers }: IncomingMessage): Headers =>
  'set-cookie' in headers ? { ...headers, 'set-cookie': headers['set-cookie']?.join(', ') } : (headers as Headers)

/** Where a message ends and what becomes of its connection is HTTP's to say; said by a function, it would have a proxy take bodies apart wrongly. */
const framing = new Set(['content-length', 'transfer-encoding', 'trailer', 'te', 'upgrade', 'keep-alive'])
const isFraming = (name: string, value: string): boolean => {
  const lower = name.toLowerCase()
  return framing.has(lower) || (lower === 'connection' && value !== 'close')
}

/** A target as proxies send it names the server as well (RFC 9112 section 3.2.2). */
const originForm = (target: string): string =>
  target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*\/?/i, '/')

/** Where HTTP/1.0 sends chunks, a proxy before us may see another end of the request than we do (RFC 9112 section 6.1). */
const isDoubtful = ({ httpVersion, headers }: IncomingMessage): boolean =>
  httpVersion === '1.0' && headers['transfer-encoding'] !== undefined

/** Who fetches an answer more slowly than 10 kB a second would hold it in memory for as long as they like. */
function boundSending(response: ServerResponse, bytes: number): void {
  const timer = setTimeout(() => response.destroy(), 60_000 + bytes / 10)
  response.on('close', () => clearTimeout(timer))
}

function send(
  response: ServerResponse,
  answer: HttpResponse,
  extra: readonly (readonly [string, string])[],
  isHead: boolean,
): void {
  const { status, statusText, body } = answer
  const list: string[] = []
  for (const [name, value] of answer.headers) if (!isFraming(name, value)) list.push(name, value)
  for (const [name, value] of extra) list.push(name, value)
  list.push('Server', `${serviceName}/${version}`)
  const isEmpty = status === 204 || status === 304
  const length = body === undefined ? 0 : Buffer.byteLength(body)
  if (!isEmpty && !isHead) list.push('Content-Length', String(length))
  if (length > smallBodyBytes) boundSending(response, length)
  if (statusText === undefined) response.writeHead(status, list)
  else response.writeHead(status, statusText, list)
  if (isEmpty || isHead || body === undefined) response.end()
  else response.end(body)
}

const refusals: Record<string, string> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

/** Makes the server; it does not listen yet. */
export function makeServer(settings: HttpSettings, rules: () => ResponseRules, handle: Handler): Server {
  const { maximumBodyBytes, maximumHeldBytes = Math.max(268_435_456, 4 * maximumBodyBytes) } = settings
  const budget = new Budget(maximumHeldBytes)
  const turns = new Turns()

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET' } = incoming
    const url = originForm(incoming.url ?? '/')
    const headers = headersOf(incoming)
    const { corsOrigins, traceHeader } = rules()
    const extra = corsHeaders(headers.origin, corsOrigins)
    const trace = traceHeader === undefined ? undefined : headers[traceHeader.toLowerCase()]
    if (traceHeader !== undefined && trace !== undefined) extra.push([traceHeader, trace])
    const isHead = method === 'HEAD'
    if (method === 'OPTIONS') {
      const asked = preflight(headers, corsOrigins)
      if (asked !== undefined) return send(response, { status: 200, headers: asked, body: '' }, [], false)
    }
    const gone = new AbortController()
    const share = budget.share()
    response.on('close', () => {
      share.end()
      if (!response.writableFinished) gone.abort(new Error('the client is gone'))
    })
    const question = url.indexOf('?')
    const head = {
      method,
      path: question === -1 ? url : url.slice(0, question),
      query: question === -1 ? '' : url.slice(question + 1),
      headers,
    }
    let held = 0
    const body: IncomingBody = {
      length: bodyLength(incoming),
      async read(into) {
        if (this.length === 0) return
        await readBody({ request: incoming, into, limit: maximumBodyBytes, share, gone: gone.signal })
        held = into.held
      },
    }
    try {
      const answer = await handle(head, body, gone.signal)
      if (response.destroyed) return
      discard(incoming, maximumBodyBytes)
      const { body: content = '' } = answer
      // A server that ends answers what it has been asked, and no more.
      if (!server.listening) response.shouldKeepAlive = false
      // What has been written has been written: only of a read it can be said that it may be asked for again.
      if (!share.grow(held + Buffer.byteLength(content)) && method === 'GET') throw noRoom()
      send(response, answer, extra, isHead)
    } catch (error) {
      if (response.destroyed || response.headersSent) return
      discard(incoming, maximumBodyBytes)
      const refusal =
        error instanceof RestError ? error : new RestError({ status: 500, code: 'RSTX00', message: 'Internal error' })
      send(response, errorAnswer(refusal, true, serviceName), extra, isHead)
    }
  }

  const server = createServer(
    { maxHeaderSize: settings.maximumHeaderBytes, keepAliveTimeout: 75_000 },
    (request, response) => {
      if (isDoubtful(request)) response.shouldKeepAlive = false
      turns.take(request.socket, response, () => void serve(request, response))
    },
  )
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const status = refusals[error.code ?? ''] ?? '400 Bad Request'
    // Whoever does not close their side would keep the socket; so it is not left to them.
    const last = `HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
    if (socket.writable) socket.end(last, () => socket.destroy())
    else socket.destroy()
  })
  return server
}
