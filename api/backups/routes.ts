/** `/backups` and `/databases/{id}/backup`: list and read restore points; taking one is not offered in this version. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { sendJson } from '../answers.ts'
import { findOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { badRequest, notFound } from '../errors.ts'
import { idempotencyKey } from '../headers.ts'
import { operation, paged } from '../operation.ts'
import { createdWithin, createSortedView, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { renderBackup } from '../render/others.ts'
import { idParameter } from '../schemas/common.ts'
import { requireBackupsInPlan, requireCurrentPlan } from '../tenants.ts'
import { backupShape, createBackupInput, listBackupsQuery } from './schema.ts'

type Backup = Kinds['Backup']

export function addBackups(app: App, context: ApiContext): void {
  addList(app, context)
  addRead(app, context)
  addCreate(app, context)
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
      success: { status: 200, description: 'The backup.', shape: backupShape },
      errors: [400, 404],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.get('/backups/:id', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const backup = await findOwned(cluster, caches.Backup, 'Backup', namespace, request.params.id)
    if (backup === undefined) throw notFound('backup')
    return sendJson(reply, JSON.stringify(renderBackup(backup)))
  })
}

function addCreate(app: App, { cluster, caches, now }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'createBackup',
      tag: 'backups',
      summary: 'Take a backup',
      description: 'Not available in this version: every request is refused.',
      success: { status: 202, description: 'The pending backup.', shape: backupShape },
      errors: [400, 404],
      takes: ['Idempotency-Key'],
    },
    { params: idParameter, body: createBackupInput, querystring: z.strictObject({}) },
  )
  app.post('/databases/:id/backup', { schema }, async request => {
    const account = accountOf(request)
    idempotencyKey(request.headers['idempotency-key'])
    const { id } = request.params
    const database = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', account.namespace, id)
    if (database === undefined) throw notFound('database')
    requireCurrentPlan(account, now())
    requireBackupsInPlan(account)
    throw badRequest('backups are not available in this version')
  })
}
