/** Builds responses: sends JSON text unchanged, and sets the headers of writes and pages. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Kinds } from '../cluster/index.ts'
import type { Informer } from '../cluster/informer/index.ts'
import { branchPhase, isEnded, verificationOf } from '../crds/index.ts'
import type { ApiContext } from './context.ts'
import { isStable } from './databases/decide.ts'
import { disconnected } from './disconnect.ts'
import { preferredWait } from './headers.ts'
import { entityTag, isNotModified } from './preconditions.ts'

export const basePath = '/managed/v1'

export const sendJson = (reply: FastifyReply, text: string): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(text)

/** The response to a read of one object: its body and ETag, or 304 if the client has this version. */
export function sendRead(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string,
  tag = entityTag(text),
): FastifyReply {
  reply.header('ETag', tag)
  if (!isNotModified(request.headers, tag)) return sendJson(reply, text)
  reply.code(304)
  // For HEAD, Content-Length must be the length that GET would return (RFC 9110, section 8.6). Without the text, it
  // would be 0.
  return request.method === 'HEAD' ? sendJson(reply, text) : reply.send()
}

export const taskHeaders = (taskId: string | undefined): Record<string, string> =>
  taskId === undefined ? {} : { 'X-Task-Id': taskId, Location: `${basePath}/tasks/${taskId}` }

/**
 * Limits of concurrent long polls in one process, in total and per tenant, so that no tenant can use all of them. Above
 * the limit, the API answers without waiting.
 */
const highestPolls = 5_000
const highestPollsOfOne = 500
let polls = 0
const pollsOf = new Map<string, number>()

/** The number of running long polls. */
export const longPolls = (): number => polls

/**
 * Reserves a long poll for a tenant, by its namespace. Returns a function that releases it; undefined if none is free.
 */
function takePoll(namespace: string): (() => void) | undefined {
  const own = pollsOf.get(namespace) ?? 0
  if (polls >= highestPolls || own >= highestPollsOfOne) return undefined
  polls++
  pollsOf.set(namespace, own + 1)
  return () => {
    polls--
    const remaining = (pollsOf.get(namespace) ?? 1) - 1
    if (remaining > 0) pollsOf.set(namespace, remaining)
    else pollsOf.delete(namespace)
  }
}

type Waitable = 'ManagedDatabase' | 'Branch' | 'Backup' | 'Task'

/**
 * `Prefer: wait=N`: delays the response until the object is stable, N seconds have passed, the client has disconnected
 * or the API stops. Returns the object at that time; undefined if the object is deleted.
 */
async function waitUntil<K extends Waitable>(
  { stopping }: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  cache: Informer<K>,
  object: Kinds[K],
  isDone: (object: Kinds[K]) => boolean,
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
      candidate => candidate === undefined || isOther(candidate) || isDone(candidate),
      { timeoutMs: seconds * 1000, signal },
    )
    return found === undefined || isOther(found) ? undefined : found
  } finally {
    giveBack()
  }
}

/** If the request prefers to wait, waits until the database has no running operation. */
export const waitUntilStable = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  database: Kinds['ManagedDatabase'],
): Promise<Kinds['ManagedDatabase'] | undefined> =>
  waitUntil(context, request, reply, context.caches.ManagedDatabase, database, isStable)

/** If the request prefers to wait, waits until the database is deleted. */
export async function waitUntilDeleted(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  database: Kinds['ManagedDatabase'],
): Promise<void> {
  await waitUntil(context, request, reply, context.caches.ManagedDatabase, database, () => false)
}

const isCreated = (branch: Kinds['Branch']): boolean => !['creating', 'deleting'].includes(branchPhase(branch))

/** If the request prefers to wait, waits until the branch is neither being created nor being deleted. */
export const waitUntilBranchStable = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  branch: Kinds['Branch'],
): Promise<Kinds['Branch'] | undefined> => waitUntil(context, request, reply, context.caches.Branch, branch, isCreated)

/** If the request prefers to wait, waits until the task has ended. */
export const waitUntilEnded = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  task: Kinds['Task'],
): Promise<Kinds['Task'] | undefined> => waitUntil(context, request, reply, context.caches.Task, task, isEnded)

/** If the request prefers to wait, waits until a copy of the backup has been verified. */
export const waitUntilVerified = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  backup: Kinds['Backup'],
): Promise<Kinds['Backup'] | undefined> =>
  waitUntil(context, request, reply, context.caches.Backup, backup, found => verificationOf(found) !== 'pending')

const isTaken = ({ status }: Kinds['Backup']): boolean => status?.phase === 'completed' || status?.phase === 'failed'

/** If the request prefers to wait, waits until the backup has completed or failed. */
export const waitUntilTaken = (
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  backup: Kinds['Backup'],
): Promise<Kinds['Backup'] | undefined> => waitUntil(context, request, reply, context.caches.Backup, backup, isTaken)
