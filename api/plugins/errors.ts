/** Sends every error response, in one format. Logs internal errors, and sends them without details. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { toApiError } from '../errors.ts'

export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const refusal = toApiError(error)
  if (refusal.status >= 500) request.log.error({ err: refusal.cause ?? refusal }, refusal.message)
  // A path that cannot be decoded causes an error before any hook runs.
  reply.header('x-request-id', request.id)
  reply.code(refusal.status).headers(refusal.headers).type('application/json; charset=utf-8')
  reply.send(JSON.stringify(refusal.body))
}

export function useErrors(app: App): void {
  app.setErrorHandler(sendError)
}
