/** A write that is safe to repeat: with an Idempotency-Key it is done once, and answered as it was answered then. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { basePath, sendJson } from '../answers.ts'
import type { ApiContext } from '../context.ts'
import { badRequest, conflict } from '../errors.ts'
import { idempotencyKey, preferredWait } from '../headers.ts'
import { accountOf } from '../plugins/tenant.ts'
import type { Attempt } from './claims.ts'
import type { Answer, Ids } from './record.ts'

type Write = {
  /** What was asked, as it was read: a key stands for this. */
  body: unknown
  /** Of what the request is about; absent where it makes something new. */
  objectId?: string
  /** Does it. What it answers is kept for whoever asks again, so there are no passwords and no tokens in it. */
  work: (attempt: Attempt) => Promise<Answer>
  /** Waits as the request prefers to. The body as it is then; undefined: there is none, or the object is gone. */
  settled: (ids: Ids) => Promise<string | undefined>
}

/** The path as clients' documents have it, whatever stands before and behind it. */
const pathOf = ({ url }: FastifyRequest): string => (url.split('?')[0] ?? '').slice(basePath.length)

/**
 * Does a write once, and answers it. Who prefers to wait waits, and is told what is now, also where the write was done before.
 * @throws ApiError 400 for a key that cannot be one, or that stood for another request; and whatever `work` throws
 */
export async function answerOnce(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { body, objectId, work, settled }: Write,
): Promise<FastifyReply> {
  const { headers, method } = request
  const { namespace } = accountOf(request)
  // What is made or done anew has no version to compare: to ignore it would be to write unconditionally.
  if (method === 'POST' && headers['if-match'] !== undefined)
    throw badRequest('If-Match: is taken by PATCH and DELETE only')
  const key = idempotencyKey(headers['idempotency-key'])
  const fresh = (): Ids => ({ objectId: objectId ?? context.newId(), taskId: context.newId() })
  const what = { namespace, key, method, path: pathOf(request), body }
  const { answer, ids } = await context.idempotency.once(what, fresh, work)
  if (objectId === undefined) request.subjectId = ids.objectId
  const isAskedNow = answer.isWithoutBody || preferredWait(headers.prefer) !== undefined
  const now = isAskedNow ? await settled(ids) : undefined
  if (answer.isWithoutBody && now === undefined)
    throw conflict('Idempotency-Key: the answer was too long to be kept, and what it was about is gone')
  reply.code(answer.status).headers(answer.headers)
  const text = answer.body === '' && !answer.isWithoutBody ? '' : (now ?? answer.body)
  return text === '' ? reply.send() : sendJson(reply, text)
}
