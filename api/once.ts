/** A POST that is safe to repeat: with an Idempotency-Key it is done once, and answered as it was answered then. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { basePath, sendJson } from './answers.ts'
import type { ApiContext } from './context.ts'
import { idempotencyKey } from './headers.ts'
import type { Answer, Ids } from './idempotency.ts'

type Once = {
  context: ApiContext
  request: FastifyRequest
  namespace: string
  /** What was asked, as it was read: a key stands for this. */
  body: unknown
  /** Of what the request is about; absent where it makes something new. */
  objectId?: string
}

/** The path as clients' documents have it, whatever stands before and behind it. */
const pathOf = ({ url }: FastifyRequest): string => (url.split('?')[0] ?? '').slice(basePath.length)

/** @throws ApiError 400 for a key that cannot be one, or that stood for another request; and whatever `work` throws */
export function once({ context, request, namespace, body, objectId }: Once, work: (ids: Ids) => Promise<Answer>) {
  const key = idempotencyKey(request.headers['idempotency-key'])
  const fresh = (): Ids => ({ objectId: objectId ?? context.newId(), taskId: context.newId() })
  return context.idempotency.once({ namespace, key, method: 'POST', path: pathOf(request), body }, fresh, work)
}

export function sendAnswer(reply: FastifyReply, { status, headers, body }: Answer): FastifyReply {
  reply.code(status).headers(headers)
  return body === '' ? reply.send() : sendJson(reply, body)
}
