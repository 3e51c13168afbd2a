/** How answers are put together: JSON text sent as it is, and the headers that go with writes and pages. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Kinds } from '../cluster/index.ts'
import type { Informer } from '../cluster/informer/index.ts'
import { branchPhase, isEnded, verificationOf } from '../crds/index.ts'
import type { ApiContext } from './context.ts'
import { isSettled } from './databases/decide.ts'
import { preferredWait } from './headers.ts'
import { entityTag, isNotModified } from './preconditions.ts'

export const basePath = '/managed/v1'

export const sendJson = (reply: FastifyReply, text: string): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(text)

/** The answer to a read of one object: its body with its tag, or 304 where the client has just that. */
export function sendRead(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string,
  tag = entityTag(text),
): FastifyReply {
  reply.header('ETag', tag)
  if (!isNotModified(request.headers, tag)) return sendJson(reply, text)
  reply.code(304)
  // The length that is told with HEAD is that of the body with 200 (RFC 9110, section 8.6), which is not sent: without the text it would be 0.
  return request.method === 'HEAD' ? sendJson(reply, text) : reply.send()
}

export const taskHeaders = (taskId: string | undefined): Record<string, string> =>
  taskId === undefined ? {} : { 'X-Task-Id': taskId, Location: `${basePath}/tasks/${taskId}` }

/** Aborts when the client goes away before its answer. */
function disconnected(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  reply.raw.once('close', () => controller.abort())
  return controller.signal
}

/**
 * Long polls under way in one process, of all tenants and of one, so that none takes the others' share; beyond that many
 * a request is answered at once.
 */
const highestPolls = 5_000
const highestPollsOfOne = 500
let polls = 0
const pollsOf = new Map<string, number>()

/** Long polls under way now. */
export const longPolls = (): number => polls

/** Takes one of a tenant's long polls, by its namespace; gives the function that returns it, or undefined: none is left. */
function takePoll(namespace: string): (() => void) | undefined {
  const own = pollsOf.get(namespace) ?? 0
  if (polls >= highestPolls || own >= highestPollsOfOne) return undefined
  polls++
  pollsOf.set(namespace, own + 1)
  return () => {
    polls--
    const left = (pollsOf.get(namespace) ?? 1) - 1
    if (left > 0) pollsOf.set(namespace, left)
    else pollsOf.delete(namespace)
  }
}

type Waitable = 'ManagedDatabase' | 'Branch' | 'Backup' | 'Task'

/**
 * `Prefer: wait=N`: holds the answer until the object has settled, N seconds have passed, the client has gone or the
 * API stops. Gives the object as it is then: undefined where it is gone.
 */
async function waitUntil<K extends Waitable>(
  { stopping }: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  cache: Informer<K>,
  object: Kinds[K],
  settled: (object: Kinds[K]) => boolean,
): Promise<Kinds[K] | undefined> {
  const seconds = preferredWait(request.headers.prefer)
  const { name, namespace, uid } = object.metadata
  const giveBack = seconds === undefined ? undefined : takePoll(namespace ?? '')
  if (seconds === undefined || giveBack === undefined) return object
  reply.header('Preference-Applied', `wait=${seconds}`)
  const isOther = (found: Kinds[K]) => found.metadata.uid !== uid
  const signal = AbortSignal.any([stopping, disconnected(reply)])
  try {
    const { object: found } = await cache.waitFor(
      { name, ...(namespace === undefined ? {} : { namespace }) },
      candidate => candidate === undefined || isOther(candidate) || settled(candidate),
      { timeoutMs: seconds * 1000, signal },
    )
    return found === undefined || isOther(found) ? undefined : found
  } finally {
    giveBack()
  }
}

/** Waits, where the request prefers to, until the database is in no operation. */
export const waitUntilSettled = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  database: Kinds['ManagedDatabase'],
): Promise<Kinds['ManagedDatabase'] | undefined> =>
  waitUntil(context, request, reply, context.caches.ManagedDatabase, database, isSettled)

/** Waits, where the request prefers to, until the database is gone. */
export async function waitUntilGone(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  database: Kinds['ManagedDatabase'],
): Promise<void> {
  await waitUntil(context, request, reply, context.caches.ManagedDatabase, database, () => false)
}

const isMade = (branch: Kinds['Branch']): boolean => !['creating', 'deleting'].includes(branchPhase(branch))

/** Waits, where the request prefers to, until the branch is neither being made nor being deleted. */
export const waitUntilMade = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  branch: Kinds['Branch'],
): Promise<Kinds['Branch'] | undefined> => waitUntil(context, request, reply, context.caches.Branch, branch, isMade)

/** Waits, where the request prefers to, until the task has ended. */
export const waitUntilEnded = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  task: Kinds['Task'],
): Promise<Kinds['Task'] | undefined> => waitUntil(context, request, reply, context.caches.Task, task, isEnded)

/** Waits, where the request prefers to, until a copy of the backup has been checked. */
export const waitUntilVerified = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  backup: Kinds['Backup'],
): Promise<Kinds['Backup'] | undefined> =>
  waitUntil(context, request, reply, context.caches.Backup, backup, found => verificationOf(found) !== 'pending')

const isTaken = ({ status }: Kinds['Backup']): boolean => status?.phase === 'completed' || status?.phase === 'failed'

/** Waits, where the request prefers to, until the backup has been taken, or has failed. */
export const waitUntilTaken = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  backup: Kinds['Backup'],
): Promise<Kinds['Backup'] | undefined> => waitUntil(context, request, reply, context.caches.Backup, backup, isTaken)
