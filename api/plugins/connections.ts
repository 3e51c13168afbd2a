/**
 * What Node would answer by itself, or by hanging up: requests that cannot be read, are too long or too slow, or expect what
 * nobody does. They are told so in the shape of every other error, with an X-Request-Id, on their turn: never in the middle of an answer,
 * nor in the place of another request's. Then the connection is closed.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { STATUS_CODES } from '../../server/node-http.ts'
import { ApiError } from '../errors.ts'
import { type MethodsOf, refusalOf } from './methods.ts'
import { newRequestId } from './request-id.ts'

/** An error of Node's parser of requests, or of its clocks. */
type ClientError = Error & { code?: string; rawPacket?: unknown; bytesParsed?: number }

export type Connections = {
  /** For the event `clientError`. */
  answerClientError(error: ClientError, socket: Socket): void
  /** Sees the server's requests from now on; `methodsOf` tells which methods a path is served by. */
  watch(server: Server, methodsOf: MethodsOf): void
}

/** How long a client has to read the last answer, before which a reset could take it away. */
const lingerMs = 1_000

const statuses: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
}

const messages: Readonly<Record<number, string>> = {
  400: 'this is no HTTP request that can be read',
  408: 'the request took too long to arrive',
  413: 'the extensions of the body’s chunks are too long',
  431: 'the path and the headers of a request must be at most 16 KiB long',
}

/** Undefined: it is no error of a request, so nobody waits for an answer. */
function refusalFor({ code = '' }: ClientError): ApiError | undefined {
  if (!code.startsWith('HPE_') && code !== 'ERR_HTTP_REQUEST_TIMEOUT') return undefined
  const status = statuses[code] ?? 400
  return new ApiError(status, messages[status] ?? '')
}

const requestLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S+) HTTP\/1\.[01]\r\n/

/** What a request asks for by a method that Node does not know, where all of its first line is there. */
function unknownMethod({
  code,
  rawPacket,
  bytesParsed = 0,
}: ClientError): { method: string; path: string } | undefined {
  if (code !== 'HPE_INVALID_METHOD' || !Buffer.isBuffer(rawPacket)) return undefined
  const [, method = '', path = ''] = requestLine.exec(rawPacket.subarray(0, 16 * 1024).toString('latin1')) ?? []
  // Of several requests in one packet it is the first only where no more was read than its method.
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
  setTimeout(() => socket.destroy(), lingerMs).unref()
}

type Exchange = { request: IncomingMessage; response: ServerResponse }

export function createConnections(): Connections {
  /** Of each connection the requests that are not over: neither read to their end nor answered. */
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

  async function refuseInTurn(socket: Socket, refusal: ApiError): Promise<void> {
    const open = [...(exchanges.get(socket) ?? [])]
    const broken = open.find(({ request }) => !request.complete)
    const before = open.filter(exchange => exchange !== broken && !exchange.response.closed)
    await Promise.all(before.map(({ response }) => once(response, 'close')))
    // It was answered before its body was read: a second answer would be taken for another request's.
    if (broken?.response.headersSent) socket.destroySoon()
    else endWith(socket, refusal)
  }

  return {
    answerClientError(error, socket) {
      const refusal = refusalFor(error)
      if (refusal === undefined) return void socket.destroy()
      // What comes after what cannot be read cannot be read either.
      if (refused.has(socket)) return
      refused.add(socket)
      const asked = unknownMethod(error)
      const told = asked === undefined ? refusal : refusalOf(asked.method, asked.path, methodsOf)
      refuseInTurn(socket, told).catch(() => socket.destroy())
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
        // A server without TLS within TLS of its own hands out nothing else.
        const socket = stream as Socket
        endWith(socket, new ApiError(405, 'this is no proxy', { headers: { Allow: 'GET, HEAD, POST, PATCH, DELETE' } }))
      })
    },
  }
}
