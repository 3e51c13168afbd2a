/**
 * Makes a write safe to repeat. With an Idempotency-Key, a write is executed once, and repeated requests receive the
 * first response.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { basePath, sendJson } from '../answers.ts'
import type { ApiContext } from '../context.ts'
import { badRequest, conflict } from '../errors.ts'
import { idempotencyKey, preferredWait } from '../headers.ts'
import { accountOf } from '../plugins/tenant.ts'
import type { Attempt } from './idempotency.ts'
import type { Answer, Ids } from './record.ts'

type Write = {
  /** The parsed request, which a key identifies. */
  body: unknown
  /** The target object; absent if the request creates a new one. */
  objectId?: string
  /**
   * Executes the write. The response is stored for repeated requests, so it must contain no passwords and no tokens.
   */
  work: (attempt: Attempt) => Promise<Answer>
  /**
   * Waits as the request prefers. Returns the body after the wait. undefined: there is no body, or the object is
   * deleted.
   */
  afterWait: (ids: Ids) => Promise<string | undefined>
}

/** The path as in the clients' documentation, without prefix and suffix. */
const pathOf = ({ url }: FastifyRequest): string => (url.split('?')[0] ?? '').slice(basePath.length)

/**
 * Executes a write once, and answers it. A request that prefers to wait receives the state after the wait, even if an
 * earlier request executed the write.
 * @throws ApiError 400 for an invalid key, or a key of another request; errors of `work`
 */
export async function answerOnce(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { body, objectId, work, afterWait }: Write,
): Promise<FastifyReply> {
  const { headers, method } = request
  const { namespace } = accountOf(request)
  // A write that creates an object or starts an action has no version to compare. Ignoring the header would make the
  // write unconditional.
  if (method === 'POST' && headers['if-match'] !== undefined)
    throw badRequest('If-Match: only PATCH and DELETE accept it')
  const key = idempotencyKey(headers['idempotency-key'])
  const fresh = (): Ids => ({ objectId: objectId ?? context.newId(), taskId: context.newId() })
  const what = { namespace, key, method, path: pathOf(request), body }
  const { answer, ids } = await context.idempotency.once(what, fresh, work)
  if (objectId === undefined) request.subjectId = ids.objectId
  const needsPresentState = answer.isWithoutBody || preferredWait(headers.prefer) !== undefined
  const now = needsPresentState ? await afterWait(ids) : undefined
  if (answer.isWithoutBody && now === undefined)
    throw conflict('Idempotency-Key: the response was too long to be stored, and its object is deleted')
  reply.code(answer.status).headers(answer.headers)
  const text = answer.body === '' && !answer.isWithoutBody ? '' : (now ?? answer.body)
  return text === '' ? reply.send() : sendJson(reply, text)
}
