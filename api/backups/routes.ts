/** `/backups` and `/databases/{id}/backup`: create, list, read and delete backups. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { sendJson, sendRead, taskHeaders, waitUntilTaken, waitUntilVerified } from '../answers.ts'
import { findOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer, Ids } from '../idempotency/record.ts'
import { asynchronous, operation, paged } from '../operation.ts'
import { createdWithin, createSortedView, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { preconditionOf } from '../preconditions.ts'
import { renderBackup } from '../render/others.ts'
import { idParameter } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { refuseBody } from '../validation.ts'
import { writerOf } from '../writer.ts'
import { backupShape, createBackupInput, listBackupsQuery } from './schema.ts'
import { createBackup, deleteBackup, verifyBackup } from './write.ts'

type Backup = Kinds['Backup']

const rendered = (backup: Backup): string => JSON.stringify(renderBackup(backup))

export function addBackups(app: App, context: ApiContext): void {
  addList(app, context)
  addRead(app, context)
  addCreate(app, context)
  addVerify(app, context)
  addDelete(app, context)
}

function addList(app: App, { caches }: ApiContext): void {
  const view = createSortedView(caches.Backup)
  const schema = operation(
    {
      operationId: 'listBackups',
      tag: 'backups',
      summary: 'List backups',
      description: 'Newest first, unless `descending` is `false`.',
      success: { status: 200, description: 'One page of backups.', shape: z.array(backupShape), headers: paged },
      errors: [400],
    },
    { querystring: listBackupsQuery },
  )
  app.get('/backups', { schema }, async (request, reply) => {
    const { query } = request
    const { database_id: databaseId, kind } = query
    const conditions = [
      databaseId === undefined ? undefined : (backup: Backup) => backup.spec.databaseId === databaseId,
      kind === undefined ? undefined : (backup: Backup) => backup.spec.kind === kind,
      createdWithin(query),
    ]
    const { items, total } = pageOf(filtered(view(accountOf(request).namespace), conditions), query)
    reply.headers(pageHeaders(request.url, query, total))
    return sendJson(reply, JSON.stringify(items.map(renderBackup)))
  })
}

function addRead(app: App, { cluster, caches }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'getBackup',
      tag: 'backups',
      summary: 'Read a backup',
      success: { status: 200, description: 'The backup.', shape: backupShape, headers: ['ETag'] },
      errors: [400, 404],
      takes: ['If-None-Match'],
      conditional: true,
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.get('/backups/:id', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const backup = await findOwned(cluster, caches.Backup, 'Backup', namespace, request.params.id)
    if (backup === undefined) throw notFound('backup')
    return sendRead(request, reply, rendered(backup))
  })
}

function addCreate(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'createBackup',
      tag: 'backups',
      summary: 'Take a backup',
      description:
        'Creates the backup with the status `pending` and answers at once. Meanwhile Postgres keeps serving, and the database can be changed. Backups of one database run one after another. Returns 409 if the database is not running.',
      success: { status: 202, description: 'The pending backup.', shape: backupShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, body: createBackupInput, querystring: z.strictObject({}) },
  )
  app.post('/databases/:id/backup', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { account } = writer
    const { id } = request.params
    requireCurrentPlan(account, context.now())
    const { namespace } = account
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { taskId, objectId } = attempt
      const backup = await createBackup(writer, id, request.body, attempt)
      context.audit.done(request, { status: 202, taskId, subjectId: objectId })
      return { status: 202, body: rendered(backup), headers: taskHeaders(taskId) }
    }
    const afterWait = async ({ objectId }: Ids) => {
      const found = await findOwned(context.cluster, context.caches.Backup, 'Backup', namespace, objectId)
      const taken = found && (await waitUntilTaken(context, request, reply, found))
      return taken && rendered(taken)
    }
    return answerOnce(context, request, reply, { body: request.body, work, afterWait })
  })
}

function addVerify(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'verifyBackup',
      tag: 'backups',
      summary: 'Verify a backup',
      description:
        'Restores the backup into a temporary copy and checks it: Postgres recovers it, compares every table with its indexes, and checks the checksum of every page. A durable backup is restored from the archive. Scheduled hot backups, and one durable backup of each tenant a day, are verified automatically. Answers at once; `verification` in `metadata` is then `pending`. Returns 409 if the backup is not completed or is already being verified.',
      success: { status: 202, description: 'The backup.', shape: backupShape, headers: ['Preference-Applied'] },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.post('/backups/:id/verify', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    refuseBody(request)
    requireCurrentPlan(writer.account, context.now())
    const { namespace } = writer.account
    const { id } = request.params
    const work = async (attempt: Attempt): Promise<Answer> => {
      const backup = await verifyBackup(writer, id, attempt)
      context.audit.done(request, { status: 202 })
      return { status: 202, body: rendered(backup), headers: {} }
    }
    const afterWait = async () => {
      const found = await findOwned(context.cluster, context.caches.Backup, 'Backup', namespace, id)
      const checked = found && (await waitUntilVerified(context, request, reply, found))
      return checked && rendered(checked)
    }
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}

function addDelete(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'deleteBackup',
      tag: 'backups',
      summary: 'Delete a backup',
      description:
        'Also deletes its snapshot. A backup that is still running is cancelled. Returns 409 while a branch is being created from it.',
      success: { status: 204, description: 'The deletion has begun.' },
      errors: [400, 404, 409, 412],
      takes: ['Idempotency-Key', 'If-Match'],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.delete('/backups/:id', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id } = request.params
    refuseBody(request)
    const condition = preconditionOf(request.headers)
    const requireCurrent = condition && ((current: Backup) => condition(async () => [rendered(current)]))
    const work = async (attempt: Attempt): Promise<Answer> => {
      await deleteBackup(writer, id, { attempt, requireCurrent })
      context.audit.done(request, { status: 204 })
      return { status: 204, body: '', headers: {} }
    }
    const afterWait = async () => undefined
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}
