/**
 * Answers requests for which Node would send its own response or disconnect: unreadable, too long or too slow requests,
 * and requests with an unsupported Expect. They receive the usual error body with an X-Request-Id. The response is sent
 * in order: never in the middle of another response, or instead of another request's response. Then the connection is
 * closed.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { STATUS_CODES } from '../../server/node-http.ts'
import { ApiError } from '../errors.ts'
import { type MethodsOf, refusalOf } from './methods.ts'
import { newRequestId } from './request-id.ts'

/** An error of Node's HTTP parser or request timeouts. */
type ClientError = Error & { code?: string; rawPacket?: unknown; bytesParsed?: number }

export type Connections = {
  /** Handles the event `clientError`. */
  answerClientError(error: ClientError, socket: Socket): void
  /** Tracks the server's requests from now on; `methodsOf` returns the methods of a path. */
  watch(server: Server, methodsOf: MethodsOf): void
}

/** How long a client has to read the last response, before a reset that could discard it. */
const closeDelayMs = 1_000

const statuses: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
}

const messages: Readonly<Record<number, string>> = {
  400: 'the HTTP request cannot be parsed',
  408: 'the request took too long to arrive',
  413: 'the chunk extensions of the body are too long',
  431: 'the path and the headers of a request must be at most 16 KiB long',
}

/** Returns undefined if the error does not belong to a request, so no client waits for a response. */
function refusalFor({ code = '' }: ClientError): ApiError | undefined {
  if (!code.startsWith('HPE_') && code !== 'ERR_HTTP_REQUEST_TIMEOUT') return undefined
  const status = statuses[code] ?? 400
  return new ApiError(status, messages[status] ?? '')
}

const requestLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S+) HTTP\/1\.[01]\r\n/

/** Returns the target of a request with a method that Node does not know, if the request's first line is complete. */
function unknownMethod({
  code,
  rawPacket,
  bytesParsed = 0,
}: ClientError): { method: string; path: string } | undefined {
  if (code !== 'HPE_INVALID_METHOD' || !Buffer.isBuffer(rawPacket)) return undefined
  const [, method = '', path = ''] = requestLine.exec(rawPacket.subarray(0, 16 * 1024).toString('latin1')) ?? []
  // If a packet has several requests, this request is the first only if the parser has read only its method.
  return path !== '' && bytesParsed <= method.length ? { method, path } : undefined
}

function textOf({ status, body, headers }: ApiError): string {
  const text = JSON.stringify(body)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(text)}`,
    `Date: ${new Date().toUTCString()}`,
    `X-Request-Id: ${randomUUID()}`,
    'Connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${text}`
}

function endWith(socket: Socket, refusal: ApiError): void {
  if (!socket.writable) return void socket.destroy()
  socket.end(textOf(refusal))
  setTimeout(() => socket.destroy(), closeDelayMs).unref()
}

type Exchange = { request: IncomingMessage; response: ServerResponse }

export function createConnections(): Connections {
  /** The unfinished requests of each connection: requests that are not completely read or not answered. */
  const exchanges = new WeakMap<Socket, Set<Exchange>>()
  const refused = new WeakSet<Socket>()
  let methodsOf: MethodsOf = () => undefined

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const open = exchanges.get(request.socket) ?? new Set()
    const exchange = { request, response }
    exchanges.set(request.socket, open.add(exchange))
    response.once('close', () => {
      if (request.complete) open.delete(exchange)
    })
  }

  async function refuseQueued(socket: Socket, refusal: ApiError): Promise<void> {
    const open = [...(exchanges.get(socket) ?? [])]
    const broken = open.find(({ request }) => !request.complete)
    const before = open.filter(exchange => exchange !== broken && !exchange.response.closed)
    await Promise.all(before.map(({ response }) => once(response, 'close')))
    // The request was answered before its body was read. The client would match a second response to another request.
    if (broken?.response.headersSent) socket.destroySoon()
    else endWith(socket, refusal)
  }

  return {
    answerClientError(error, socket) {
      const refusal = refusalFor(error)
      if (refusal === undefined) return void socket.destroy()
      // After an unreadable request, later data cannot be read either.
      if (refused.has(socket)) return
      refused.add(socket)
      const requested = unknownMethod(error)
      const response = requested === undefined ? refusal : refusalOf(requested.method, requested.path, methodsOf)
      refuseQueued(socket, response).catch(() => socket.destroy())
    },
    watch(server, served) {
      methodsOf = served
      server.prependListener('request', begin)
      server.on('checkExpectation', (request, response) => {
        begin(request, response)
        const { status, body } = new ApiError(417, 'Expect: must be 100-continue')
        const text = JSON.stringify(body)
        response.writeHead(status, {
          'content-type': 'application/json; charset=utf-8',
          'content-length': Buffer.byteLength(text),
          'x-request-id': newRequestId(request),
          connection: 'close',
        })
        response.end(text)
      })
      server.on('connect', (_request, stream) => {
        // Node's TLS server emits only its own sockets.
        const socket = stream as Socket
        endWith(
          socket,
          new ApiError(405, 'this server is not a proxy', { headers: { Allow: 'GET, HEAD, POST, PATCH, DELETE' } }),
        )
      })
    },
  }
}
