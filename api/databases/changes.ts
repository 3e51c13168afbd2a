/** PATCH and DELETE of `/databases/{id}`: writes with optional version preconditions. */
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { taskHeaders, waitUntilDeleted } from '../answers.ts'
import { findOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { preconditionOf } from '../preconditions.ts'
import { idParameter } from '../schemas/common.ts'
import { type Account, requireCurrentPlan } from '../tenants.ts'
import { refuseBody } from '../validation.ts'
import { writerOf } from '../writer.ts'
import { databaseAfterWait } from './after-wait.ts'
import { deleteDatabase } from './delete.ts'
import { databaseShape, deleteDatabaseQuery, updateDatabaseInput } from './schema.ts'
import type { Singles } from './single.ts'
import { type RequireCurrent, updateDatabase } from './write.ts'

export function addChanges(app: App, context: ApiContext, singles: Singles): void {
  addUpdate(app, context, singles)
  addDelete(app, context, singles)
}

/** The version precondition of a request; undefined if it has none. @throws ApiError 400 */
function requirementOf(request: FastifyRequest, singles: Singles): RequireCurrent | undefined {
  const condition = preconditionOf(request.headers)
  const { tenant } = accountOf(request)
  return condition && (current => condition(() => singles.bodies(current, tenant)))
}

/** The current ETag of a read of the database; undefined if it cannot be computed. */
async function tagOf({ answer }: Singles, database: Kinds['ManagedDatabase'], { tenant }: Account) {
  try {
    return (await answer(database, tenant, 'application')).tag
  } catch {
    return undefined
  }
}

function addUpdate(app: App, context: ApiContext, singles: Singles): void {
  const schema = operation(
    {
      operationId: 'updateDatabase',
      tag: 'databases',
      summary: 'Change a database',
      description:
        "Changes the given fields. A new allowlist takes effect once every gateway has applied it. A changed service runs with its previous configuration until it serves with the new one. Until then, the status is `modifying`. If a service does not start, the status becomes `degraded`. Other changes take effect at once, unless the field's description says otherwise. Returns 409 while another operation is running.",
      success: {
        status: 200,
        description: 'The changed database.',
        shape: databaseShape,
        headers: [...asynchronous, 'ETag'],
      },
      errors: [400, 404, 409, 412],
      takes: ['Idempotency-Key', 'If-Match', 'Prefer'],
    },
    { params: idParameter, body: updateDatabaseInput, querystring: z.strictObject({}) },
  )
  app.patch('/databases/:id', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { account } = writer
    const { id } = request.params
    const requireCurrent = requirementOf(request, singles)
    requireCurrentPlan(account, context.now())
    /** Adds the current ETag, so that the next change can use it as a precondition. */
    const rendered = async (database: Kinds['ManagedDatabase']): Promise<string> => {
      const tag = await tagOf(singles, database, account)
      if (tag !== undefined) reply.header('ETag', tag)
      return context.databaseText(database, account.tenant)
    }
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { database, ...written } = await updateDatabase(writer, id, request.body, { attempt, requireCurrent })
      context.audit.done(request, { status: 200, taskId: written.taskId })
      return { status: 200, body: await rendered(database), headers: taskHeaders(written.taskId) }
    }
    const afterWait = async () => {
      const database = await databaseAfterWait({ context, request, reply, account }, id)
      return database && rendered(database)
    }
    return answerOnce(context, request, reply, { body: request.body, objectId: id, work, afterWait })
  })
}

function addDelete(app: App, context: ApiContext, singles: Singles): void {
  const schema = operation(
    {
      operationId: 'deleteDatabase',
      tag: 'databases',
      summary: 'Delete a database',
      description:
        'Also deletes its backups, unless `keep_backups=true` is given. With the durable tier, the database can be restored for some days (`POST /databases/{id}/undelete`), unless `purge=true` is given. Without the durable tier, or with `purge=true`, the data cannot be recovered. Repeating the request while the deletion is running changes nothing, except that `purge` and `force` then apply to it.',
      success: { status: 204, description: 'The deletion has begun.', headers: asynchronous },
      errors: [400, 404, 409, 412],
      takes: ['Idempotency-Key', 'If-Match', 'Prefer'],
    },
    { params: idParameter, querystring: deleteDatabaseQuery },
  )
  app.delete('/databases/:id', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { account } = writer
    const { id } = request.params
    refuseBody(request)
    const requireCurrent = requirementOf(request, singles)
    const work = async (attempt: Attempt): Promise<Answer> => {
      const taskId = await deleteDatabase(writer, id, request.query, { attempt, requireCurrent })
      context.audit.done(request, { status: 204, taskId })
      return { status: 204, body: '', headers: taskHeaders(taskId) }
    }
    const afterWait = async () => {
      const found = await findOwned(
        context.cluster,
        context.caches.ManagedDatabase,
        'ManagedDatabase',
        account.namespace,
        id,
      )
      if (found !== undefined) await waitUntilDeleted(context, request, reply, found)
      return undefined
    }
    return answerOnce(context, request, reply, { body: request.query, objectId: id, work, afterWait })
  })
}
