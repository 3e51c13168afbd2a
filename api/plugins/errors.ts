/** Every refusal and every fault leaves through here, in one shape; faults of ours are logged, and say nothing. */

import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { STATUS_CODES } from '../../server/node-http.ts'
import type { App } from '../context.ts'
import { ApiError, toApiError } from '../errors.ts'

export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const refusal = toApiError(error)
  if (refusal.status >= 500) request.log.error({ err: refusal.cause ?? refusal }, refusal.message)
  reply.code(refusal.status).headers(refusal.headers).type('application/json; charset=utf-8')
  reply.send(JSON.stringify(refusal.body))
}

export function useErrors(app: App): void {
  app.setErrorHandler(sendError)
  const nothing = () => new ApiError(404, 'there is nothing at this path')
  app.setNotFoundHandler((request, reply) => sendError(nothing(), request, reply))
  // On request already, so that no body is read: here nobody has shown a token.
  app.addHook('onRequest', (request, _reply, done) => done(request.is404 ? nothing() : undefined))
}

/** For what is no HTTP request at all: the same shape, written by hand, and the connection closed. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const statuses: Record<string, number> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 }
  const status = statuses[error.code ?? ''] ?? 400
  const name = STATUS_CODES[status] ?? 'Bad Request'
  const body = JSON.stringify(new ApiError(status, name.toLowerCase()).body)
  const head = [
    `HTTP/1.1 ${status} ${name}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
