/** The writer of a request: its context, account, log and task. */
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
import { type Attempt, SpentKeyError } from './idempotency/idempotency.ts'
import { accountOf } from './plugins/tenant.ts'
import type { Account } from './tenants.ts'

export type Writer = { context: ApiContext; account: Account; log: FastifyBaseLogger }

export const writerOf = (context: ApiContext, request: FastifyRequest): Writer => ({
  context,
  account: accountOf(request),
  log: request.log,
})

/** The time of a write, as RFC 3339. */
export const timeNow = ({ now }: ApiContext): string => new Date(now()).toISOString()

const attempts = 16
/**
 * The pauses between attempts, about four seconds in total. A conflicting writer, usually the operator, may write
 * again, and on a busy cluster a cache needs time to receive the write.
 */
const backoff = { minimumMs: 20, maximumMs: 400 }
/** The maximum time that a write waits for earlier writes. */
const longestWaitMs = 10_000

/** For each object that this process is writing: the end of the last write that has started. */
const lastWrites = new Map<string, Promise<void>>()

/**
 * Runs the writes of one object in this process one after another, so that they do not conflict with each other. The
 * object's version detects conflicts with other writers, such as another replica.
 */
async function afterEarlierWrites<T>(key: string, work: () => Promise<T>): Promise<T> {
  const before = lastWrites.get(key)
  const done = Promise.withResolvers<void>()
  lastWrites.set(key, done.promise)
  const timeout = new AbortController()
  try {
    if (before !== undefined)
      await Promise.race([before, pause(longestWaitMs, undefined, { signal: timeout.signal }).catch(() => {})])
    timeout.abort()
    return await work()
  } finally {
    done.resolve()
    if (lastWrites.get(key) === done.promise) lastWrites.delete(key)
  }
}

/** The object to write, and its name in errors. */
type Written = { namespace: string; id: string; what: 'database' | 'branch' | 'backup' }

/** Repeats a read, decision and write until there is no conflict. @throws ApiError 409 if conflicts continue */
export function guarded<T>({ namespace, id, what }: Written, attempt: () => Promise<T>): Promise<T> {
  return afterEarlierWrites(`${namespace}/${id}`, async () => {
    for (let failures = 0; failures < attempts; failures++) {
      if (failures > 0) await pause(backoffMs(failures, backoff))
      try {
        return await attempt()
      } catch (error) {
        if (!isClusterError(error, 'Conflict')) throw error
      }
    }
    throw conflict(`another client is changing the ${what}: retry`, retryAfter.conflict)
  })
}

/**
 * Must be called before creating an object that an earlier attempt may have created. The object's tasks remain after
 * its deletion.
 * @throws ApiError 409 if the object existed and is deleted
 */
export async function refuseSecondCreation(
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

/** Creates the record of an operation that is already running. If this fails, the operator creates the record. */
export async function recordTask(
  { context, account, log }: Writer,
  { taskId, name, subject, request: input }: TaskDraft,
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
  const spec = { name, subject, request: taskRequest(input) }
  try {
    const task = await context.cluster.create('Task', { apiVersion, kind: 'Task', metadata, spec })
    context.caches.Task.writeThrough(task)
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists'))
      log.warn({ err: error, taskId }, 'cannot write the task; the operator will create it')
  }
}
