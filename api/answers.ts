/** How answers are put together: JSON text sent as it is, and the headers that go with writes and pages. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Kinds } from '../cluster/index.ts'
import type { ApiContext } from './context.ts'
import { isSettled } from './databases/decide.ts'
import { preferredWait } from './headers.ts'

export const basePath = '/managed/v1'

export const sendJson = (reply: FastifyReply, text: string): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(text)

export const taskHeaders = (taskId: string | undefined): Record<string, string> =>
  taskId === undefined ? {} : { 'X-Task-Id': taskId, Location: `${basePath}/tasks/${taskId}` }

/** Aborts when the client goes away before its answer. */
function disconnected(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  reply.raw.once('close', () => controller.abort())
  return controller.signal
}

/** Long polls under way in one process; beyond that many a request is answered at once. */
const highestPolls = 5_000
let polls = 0

/**
 * `Prefer: wait=N`: holds the answer until the database has settled, N seconds have passed, the client has gone or the
 * API stops. Gives the database as it is then: undefined where it is gone.
 */
export async function waitUntilSettled(
  { caches, stopping }: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  database: Kinds['ManagedDatabase'],
): Promise<Kinds['ManagedDatabase'] | undefined> {
  const seconds = preferredWait(request.headers.prefer)
  if (seconds === undefined || polls >= highestPolls) return database
  reply.header('Preference-Applied', `wait=${seconds}`)
  const { name, namespace, uid } = database.metadata
  const isOther = (object: Kinds['ManagedDatabase']) => object.metadata.uid !== uid
  const signal = AbortSignal.any([stopping, disconnected(reply)])
  polls++
  try {
    const { object } = await caches.ManagedDatabase.waitFor(
      { name, ...(namespace === undefined ? {} : { namespace }) },
      object => object === undefined || isOther(object) || isSettled(object),
      { timeoutMs: seconds * 1000, signal },
    )
    return object === undefined || isOther(object) ? undefined : object
  } finally {
    polls--
  }
}
