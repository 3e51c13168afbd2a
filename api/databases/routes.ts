/** `/databases`: create, list, read and resize managed databases, and their other operations. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { systemClock } from '../../cluster/informer/index.ts'
import { sendJson, sendRead, taskHeaders, waitUntilStable } from '../answers.ts'
import { cachedOwned, findOwned, isBeingDeleted, mayBeOutdated } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { idempotencyKey } from '../headers.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer, Ids } from '../idempotency/record.ts'
import { asynchronous, operation, paged } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter, userTypeQuery } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { writerOf } from '../writer.ts'
import { addActions } from './actions.ts'
import { databaseTextAfterWait } from './after-wait.ts'
import { addChanges } from './changes.ts'
import { addDeleted } from './deleted.ts'
import { createPageAnswers } from './page.ts'
import { addPrevious } from './previous.ts'
import { addRecoveryWindow } from './recovery-window.ts'
import { addRestore } from './restore.ts'
import { addRotation } from './rotate.ts'
import { createDatabaseInput, databaseShape, listDatabasesQuery, resizeDatabaseInput } from './schema.ts'
import { createSingleAnswers, type SingleAnswer, type Singles } from './single.ts'
import { addUndelete } from './undelete.ts'
import { createDatabase, requireOffer, resizeDatabase } from './write.ts'

export function addDatabases(app: App, context: ApiContext): void {
  addCreate(app, context)
  addList(app, context)
  const singles = createSingleAnswers(context)
  addRead(app, context, singles)
  addResize(app, context)
  addChanges(app, context, singles)
  addActions(app, context)
  addRotation(app, context)
  addRestore(app, context)
  addRecoveryWindow(app, context)
  addPrevious(app, context)
  addDeleted(app, context)
  addUndelete(app, context)
}

function addCreate(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'createDatabase',
      tag: 'databases',
      summary: 'Create a database',
      description:
        "Answers once the database is recorded, with the status `creating`. With `source_backup_id`, the database starts with the backup's data and new passwords. Only a single read returns the password.",
      success: { status: 200, description: 'The new database.', shape: databaseShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { body: createDatabaseInput, querystring: z.strictObject({}) },
  )
  app.post('/databases', { schema }, async (request, reply) => {
    const asking = writerOf(context, request)
    // A refused request creates no account.
    idempotencyKey(request.headers['idempotency-key'])
    requireCurrentPlan(asking.account, context.now())
    if (asking.account.tenant === undefined) {
      await requireOffer(context, request.body)
      if (request.body.source_backup_id !== undefined) throw notFound('backup')
    }
    const tenant = await context.tenants.ensure(asking.account, context.stopping)
    const writer = { ...asking, account: { ...asking.account, tenant } }
    const { account } = writer
    const work = async (ids: Attempt): Promise<Answer> => {
      const { database, taskId } = await createDatabase(writer, request.body, ids)
      context.audit.done(request, { status: 200, taskId, subjectId: ids.objectId })
      return { status: 200, body: context.databaseText(database, tenant), headers: taskHeaders(taskId) }
    }
    const afterWait = ({ objectId }: Ids) => databaseTextAfterWait({ context, request, reply, account }, objectId)
    return answerOnce(context, request, reply, { body: request.body, work, afterWait })
  })
}

function addList(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listDatabases',
      tag: 'databases',
      summary: 'List databases',
      description: 'Oldest first, unless `descending` is set. `connection` is omitted.',
      success: { status: 200, description: 'One page of databases.', shape: z.array(databaseShape), headers: paged },
      errors: [400],
    },
    { querystring: listDatabasesQuery },
  )
  const answerPage = createPageAnswers(context)
  app.get('/databases', { schema }, (request, reply) => {
    const { headers, text } = answerPage(accountOf(request), request.query, request.url)
    sendJson(reply.headers(headers), text)
  })
}

function addRead(app: App, context: ApiContext, singles: Singles): void {
  const schema = operation(
    {
      operationId: 'getDatabase',
      tag: 'databases',
      summary: 'Read a database',
      description:
        "`connection` is present once the database has an address and the role of `user_type` has a password. Only this operation returns the services' tokens and keys.",
      success: {
        status: 200,
        description: 'The database.',
        shape: databaseShape,
        headers: ['ETag', 'Preference-Applied'],
      },
      errors: [400, 404],
      takes: ['If-None-Match', 'Prefer'],
      conditional: true,
    },
    { params: idParameter, querystring: userTypeQuery },
  )
  const { cluster, caches } = context

  function send(
    request: FastifyRequest,
    reply: FastifyReply,
    { text, containsSecret, tag }: SingleAnswer,
  ): FastifyReply {
    // Responses with a password or a key must not be cached.
    if (containsSecret) reply.header('cache-control', 'no-store')
    return sendRead(request, reply, text, tag)
  }

  app.get('/databases/:id', { schema }, (request, reply) => {
    const { namespace, tenant } = accountOf(request)
    const { id } = request.params
    const userType = request.query.user_type
    const cached = cachedOwned(caches.ManagedDatabase, namespace, id)
    if (cached === undefined || isBeingDeleted(cached) || request.headers.prefer !== undefined) return slowly()
    if (mayBeOutdated(caches.ManagedDatabase.state, systemClock.now())) return slowly()
    const answer = singles.answer(cached, tenant, userType)
    if (answer instanceof Promise) return answer.then(made => send(request, reply, made))
    // Synchronous, without a promise, because this is the most frequent request.
    send(request, reply, answer)

    async function slowly(): Promise<FastifyReply> {
      const found = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', namespace, id)
      const database = found && (await waitUntilStable(context, request, reply, found))
      if (database === undefined) throw notFound('database')
      return send(request, reply, await singles.answer(database, tenant, userType))
    }
  })
}

function addResize(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'resizeDatabase',
      tag: 'databases',
      summary: 'Resize a database',
      description:
        'The volume grows first. Then Postgres restarts, which takes some seconds. If the volume cannot grow, the task fails with the reason, and the database keeps its size. You can then request any size, including that one again. Storage never shrinks. Returns 409 while another operation is running.',
      success: { status: 204, description: 'The resize has begun.', headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, body: resizeDatabaseInput, querystring: z.strictObject({}) },
  )
  app.post('/databases/:id/size', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id } = request.params
    requireCurrentPlan(writer.account, context.now())
    const { account } = writer
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { taskId } = await resizeDatabase(writer, id, request.body, attempt)
      context.audit.done(request, { status: 204, taskId })
      return { status: 204, body: '', headers: taskHeaders(taskId) }
    }
    const afterWait = () => databaseTextAfterWait({ context, request, reply, account }, id)
    return answerOnce(context, request, reply, { body: request.body, objectId: id, work, afterWait })
  })
}
