/** `/databases`: create, list, read, change and delete managed databases. */
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { isRecord } from '../../values/record.ts'
import { sendJson, taskHeaders, waitUntilGone, waitUntilSettled } from '../answers.ts'
import { cachedOwned, readOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { idempotencyKey } from '../headers.ts'
import type { Answer, Ids } from '../idempotency.ts'
import { once, sendAnswer } from '../once.ts'
import { asynchronous, operation, paged } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter, userTypeQuery } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { writerOf } from '../writer.ts'
import { addActions } from './actions.ts'
import { refuseServices } from './decide.ts'
import { deleteDatabase } from './delete.ts'
import { createPageAnswers } from './page.ts'
import { addRestore } from './restore.ts'
import { addRotation } from './rotate.ts'
import {
  createDatabaseInput,
  databaseShape,
  deleteDatabaseQuery,
  listDatabasesQuery,
  resizeDatabaseInput,
  updateDatabaseInput,
} from './schema.ts'
import { createSingleAnswers, type SingleAnswer } from './single.ts'
import { createDatabase, requireOffer, resizeDatabase, updateDatabase } from './write.ts'

export function addDatabases(app: App, context: ApiContext): void {
  addCreate(app, context)
  addList(app, context)
  addRead(app, context)
  addUpdate(app, context)
  addResize(app, context)
  addDelete(app, context)
  addActions(app, context)
  addRotation(app, context)
  addRestore(app, context)
}

function addCreate(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'createDatabase',
      tag: 'databases',
      summary: 'Create a database',
      description:
        'Answers as soon as the database is recorded, with the status `creating`. With `source_backup_id` it begins with the data of a backup and passwords of its own. The password is returned only by a single read.',
      success: { status: 200, description: 'The new database.', shape: databaseShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { body: createDatabaseInput, querystring: z.strictObject({}) },
  )
  app.post('/databases', { schema }, async (request, reply) => {
    const asking = writerOf(context, request)
    // What is refused makes no account.
    idempotencyKey(request.headers['idempotency-key'])
    requireCurrentPlan(asking.account, context.now())
    refuseServices(request.body.services)
    if (asking.account.tenant === undefined) {
      await requireOffer(context, request.body)
      if (request.body.source_backup_id !== undefined) throw notFound('backup')
    }
    const tenant = await context.tenants.ensure(asking.account, context.stopping)
    const writer = { ...asking, account: { ...asking.account, tenant } }
    const work = async (ids: Ids): Promise<Answer> => {
      const { database, ...written } = await createDatabase(writer, request.body, ids)
      context.audit.done(request, { status: 200, taskId: written.taskId, subjectId: ids.objectId })
      const settled = (await waitUntilSettled(context, request, reply, database)) ?? database
      return { status: 200, body: context.databaseText(settled, tenant), headers: taskHeaders(written.taskId) }
    }
    const answer = await once({ context, request, namespace: writer.account.namespace, body: request.body }, work)
    const made: unknown = JSON.parse(answer.body)
    if (isRecord(made) && 'id' in made) request.subjectId = String(made.id)
    return sendAnswer(reply, answer)
  })
}

function addList(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listDatabases',
      tag: 'databases',
      summary: 'List databases',
      description: 'Oldest first, unless `descending` is set. `connection` is left out.',
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

function addRead(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'getDatabase',
      tag: 'databases',
      summary: 'Read a database',
      description:
        '`connection` is present once the database has an address and the role of `user_type` has a password.',
      success: { status: 200, description: 'The database.', shape: databaseShape, headers: ['Preference-Applied'] },
      errors: [400, 404],
      takes: ['Prefer'],
    },
    { params: idParameter, querystring: userTypeQuery },
  )
  const { cluster, caches } = context
  const answerSingle = createSingleAnswers(context)

  function send(reply: FastifyReply, { text, holdsPassword }: SingleAnswer): FastifyReply {
    // What holds a password is nobody's to keep.
    if (holdsPassword) reply.header('cache-control', 'no-store')
    return sendJson(reply, text)
  }

  app.get('/databases/:id', { schema }, (request, reply) => {
    const { namespace, tenant } = accountOf(request)
    const { id } = request.params
    const userType = request.query.user_type
    const cached = cachedOwned(caches.ManagedDatabase, namespace, id)
    if (cached === undefined || request.headers.prefer !== undefined) return slowly()
    const answer = answerSingle(cached, tenant, userType)
    if (answer instanceof Promise) return answer.then(made => send(reply, made))
    // At once, without a promise: this is the request that clients send most.
    send(reply, answer)

    async function slowly(): Promise<FastifyReply> {
      const found = cached ?? (await readOwned(cluster, 'ManagedDatabase', namespace, id))
      const database = found && (await waitUntilSettled(context, request, reply, found))
      if (database === undefined) throw notFound('database')
      return send(reply, await answerSingle(database, tenant, userType))
    }
  })
}

function addUpdate(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'updateDatabase',
      tag: 'databases',
      summary: 'Change a database',
      description:
        'Changes the fields that are given. A new allowlist takes effect once every gateway has it; until then the status is `modifying`. All else takes effect at once. Answers 409 while another operation is running.',
      success: { status: 200, description: 'The changed database.', shape: databaseShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Prefer'],
    },
    { params: idParameter, body: updateDatabaseInput, querystring: z.strictObject({}) },
  )
  app.patch('/databases/:id', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    requireCurrentPlan(writer.account, context.now())
    const { database, ...written } = await updateDatabase(writer, request.params.id, request.body)
    context.audit.done(request, { status: 200, taskId: written.taskId })
    reply.headers(taskHeaders(written.taskId))
    const settled = (await waitUntilSettled(context, request, reply, database)) ?? database
    return sendJson(reply, context.databaseText(settled, writer.account.tenant))
  })
}

function addResize(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'resizeDatabase',
      tag: 'databases',
      summary: 'Give a database another size',
      description:
        'The volume grows first. Then Postgres restarts, which takes some seconds. If the volume cannot grow, the task fails with the reason, and the database keeps the size it has. You can then ask for any size, also for that one again. Storage never shrinks. Answers 409 while another operation is running.',
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
    const work = async (ids: Ids): Promise<Answer> => {
      const { database, ...written } = await resizeDatabase(writer, id, request.body, ids.taskId)
      context.audit.done(request, { status: 204, taskId: written.taskId })
      await waitUntilSettled(context, request, reply, database)
      return { status: 204, body: '', headers: taskHeaders(written.taskId) }
    }
    return sendAnswer(
      reply,
      await once({ context, request, namespace: writer.account.namespace, body: request.body, objectId: id }, work),
    )
  })
}

function addDelete(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'deleteDatabase',
      tag: 'databases',
      summary: 'Delete a database',
      description:
        'The data cannot be recovered, and its backups go too unless `keep_backups=true` is given. Asking again while the deletion is running changes nothing.',
      success: { status: 204, description: 'The deletion has begun.', headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Prefer'],
    },
    { params: idParameter, querystring: deleteDatabaseQuery },
  )
  app.delete('/databases/:id', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { database, ...written } = await deleteDatabase(writer, request.params.id, request.query)
    context.audit.done(request, { status: 204, taskId: written.taskId })
    reply.headers(taskHeaders(written.taskId))
    await waitUntilGone(context, request, reply, database)
    return reply.code(204).send()
  })
}
