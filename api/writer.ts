/** Who writes: a request's context, account and log; and the record of what was asked for. */
import { setTimeout as pause } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { isClusterError } from '../cluster/index.ts'
import { backoffMs } from '../cluster/informer/index.ts'
import {
  apiVersion,
  childNames,
  labels,
  managedByEspalier,
  type OperationName,
  type Task,
  taskRequest,
  tenantHash,
} from '../crds/index.ts'
import type { ApiContext } from './context.ts'
import { conflict, retryAfter } from './errors.ts'
import { type Attempt, SpentKeyError } from './idempotency/claims.ts'
import { accountOf } from './plugins/tenant.ts'
import type { Account } from './tenants.ts'

export type Writer = { context: ApiContext; account: Account; log: FastifyBaseLogger }

export const writerOf = (context: ApiContext, request: FastifyRequest): Writer => ({
  context,
  account: accountOf(request),
  log: request.log,
})

/** What a write says of when it was made (RFC 3339). */
export const timeNow = ({ now }: ApiContext): string => new Date(now()).toISOString()

const attempts = 16
/**
 * Who came in between, as the operator, mostly writes once more; and on a busy cluster it takes a while until a cache has heard of that. All together some
 * four seconds.
 */
const backoff = { minimumMs: 20, maximumMs: 400 }
/** The longest that a write waits for those before it. */
const longestTurnMs = 10_000

/** Of each object that is being written in this process, the end of the last write that was begun. */
const turns = new Map<string, Promise<void>>()

/**
 * Writes of one object in this process go one after the other, so that they do not lose to each other. What else writes it, as another
 * replica, is told by the version of the object.
 */
async function inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
  const before = turns.get(key)
  const turn = Promise.withResolvers<void>()
  turns.set(key, turn.promise)
  const impatience = new AbortController()
  try {
    if (before !== undefined)
      await Promise.race([before, pause(longestTurnMs, undefined, { signal: impatience.signal }).catch(() => {})])
    impatience.abort()
    return await work()
  } finally {
    turn.resolve()
    if (turns.get(key) === turn.promise) turns.delete(key)
  }
}

/** An object that is written, and what it is called in errors. */
type Written = { namespace: string; id: string; what: 'database' | 'branch' | 'backup' }

/** Runs a read-decide-write until nobody came in between. @throws ApiError 409 where that does not come to pass */
export function guarded<T>({ namespace, id, what }: Written, attempt: () => Promise<T>): Promise<T> {
  return inTurn(`${namespace}/${id}`, async () => {
    for (let failures = 0; failures < attempts; failures++) {
      if (failures > 0) await pause(backoffMs(failures, backoff))
      try {
        return await attempt()
      } catch (error) {
        if (!isClusterError(error, 'Conflict')) throw error
      }
    }
    throw conflict(`the ${what} is being changed by somebody else: try again`, retryAfter.conflict)
  })
}

/**
 * To be called where an object is about to be made that an earlier try would have made. Its tasks outlive it.
 * @throws ApiError 409 where it was there, and is gone
 */
export async function refuseSecondMaking(
  { context, account }: Writer,
  { isRepeated, objectId }: Attempt,
): Promise<void> {
  if (!isRepeated) return
  const { namespace } = account
  const { items } = await context.cluster.list('Task', { namespace, labels: { [labels.subject]: objectId }, limit: 1 })
  if (items.length > 0) throw new SpentKeyError()
}

type TaskDraft = {
  taskId: string
  name: OperationName
  subject: Task['spec']['subject']
  request: Record<string, unknown>
}

/** Makes the record of an operation that is already under way; the operator makes it where this fails. */
export async function recordTask(
  { context, account, log }: Writer,
  { taskId, name, subject, request: asked }: TaskDraft,
): Promise<void> {
  const metadata = {
    name: childNames.task(taskId),
    namespace: account.namespace,
    labels: {
      [labels.id]: taskId,
      [labels.subject]: subject.id,
      [labels.tenant]: tenantHash(account.tenantId),
      [labels.managedBy]: managedByEspalier,
    },
  }
  const spec = { name, subject, request: taskRequest(asked) }
  try {
    const task = await context.cluster.create('Task', { apiVersion, kind: 'Task', metadata, spec })
    context.caches.Task.writeThrough(task)
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists'))
      log.warn({ err: error, taskId }, 'cannot write the task; the operator will make it')
  }
}
