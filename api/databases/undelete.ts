/**
 * `POST /databases/{id}/undelete`: restores a deleted database from the archive, with its id, name and passwords, and
 * with its port if the port is free.
 */
import { z } from 'zod'
import { isClusterError, type Kinds } from '../../cluster/index.ts'
import {
  annotatedOperation,
  childNames,
  type ManagedDatabaseSpec,
  recoveryOfBackup,
  recoveryTo,
  recoveryWindow,
} from '../../crds/index.ts'
import { taskHeaders } from '../answers.ts'
import { readOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { badRequest, conflict, notFound, retryAfter } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import { type Attempt, SpentKeyError } from '../idempotency/idempotency.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, operation } from '../operation.ts'
import { idParameter } from '../schemas/common.ts'
import { input } from '../schemas/components.ts'
import { requireBackupsInPlan, requireCurrentPlan } from '../tenants.ts'
import { guarded, recordTask, type Writer, writerOf } from '../writer.ts'
import { databaseTextAfterWait } from './after-wait.ts'
import { type Deleted, findDeleted } from './deleted.ts'
import { backupsOf, onlyTarget, targetFields } from './moment.ts'
import { databaseShape } from './schema.ts'
import { createNew, type Written } from './write.ts'

type DataSource = NonNullable<ManagedDatabaseSpec['dataSource']>

const undeleteInput = input(
  'UndeleteDatabaseRequest',
  z.strictObject({ ...targetFields }).meta({
    description: 'The target of the data: at most one of the fields. Without one, all archived data.',
    example: { target_time: '2026-01-31T12:00:00Z' },
  }),
)
type UndeleteInput = z.output<typeof undeleteInput>

/** @throws ApiError 400 if the target cannot be reached; 404; 409 if no target can be reached */
async function sourceOf(
  { context, account: { namespace } }: Writer,
  { deleted, spec }: Deleted,
  request: UndeleteInput,
): Promise<DataSource> {
  const { backup_id: backupId, target_time: time, target_lsn: lsn, target_name: pointName } = request
  const port = spec.dataSource?.undelete?.port
  const first = { incarnation: deleted.incarnation + 1, ...(port === undefined ? {} : { port }) }
  if (backupId !== undefined) {
    const backup = await readOwned(context.cluster, 'Backup', namespace, backupId)
    if (backup === undefined || backup.spec.databaseId !== deleted.id) throw notFound('backup')
    if (recoveryOfBackup(backup) === undefined) throw badRequest('backup_id: must be a completed durable backup')
    return { backupName: backup.metadata.name, undelete: first }
  }
  const window = recoveryWindow({ status: { archive: deleted.archive } }, backupsOf(context, namespace, deleted.id))
  const last = window.spans.at(-1)
  const base = last?.bases.at(-1)
  if (last === undefined || base === undefined)
    throw conflict('the durable backups of the database are deleted: it cannot be restored')
  const field = onlyTarget(request)
  if (field === undefined) return { backupName: base.backupName, undelete: { ...first, through: last.through } }
  const chosen = recoveryTo(window, { time, lsn, pointName })
  if ('refused' in chosen) throw badRequest(`${field}: ${chosen.refused}`)
  const { backupName, through } = chosen.record
  const moment = Object.fromEntries(Object.entries({ time, lsn, pointName, through }).filter(([, value]) => value))
  return { backupName, undelete: { ...first, ...moment } }
}

const refusalOf = ({ metadata }: Kinds['ManagedDatabase']) =>
  metadata.deletionTimestamp === undefined
    ? conflict('the database is not deleted')
    : conflict('the database is still being deleted: retry once the deletion has ended', retryAfter.busy)

/** @throws ApiError 400, 403, 404, 409 */
async function undeleteDatabase(
  writer: Writer,
  id: string,
  request: UndeleteInput,
  attempt: Attempt,
): Promise<Written> {
  onlyTarget(request)
  const { context, account } = writer
  const { cluster, caches } = context
  const { namespace, tenant } = account
  const { taskId } = attempt
  const database = await guarded({ namespace, id, what: 'database' }, async () => {
    const living = await readOwned(cluster, 'ManagedDatabase', namespace, id)
    if (living !== undefined && annotatedOperation(living)?.taskId === taskId) return living
    if (living !== undefined) throw refusalOf(living)
    const found = tenant && (await findDeleted(cluster, namespace, id))
    if (tenant === undefined || found === undefined) throw notFound('deleted database')
    if (attempt.isRepeated && (await cluster.get('Task', { namespace, name: childNames.task(taskId) })))
      throw new SpentKeyError()
    const { keptUntil, name } = found.deleted
    if (Date.parse(keptUntil) <= context.now())
      throw conflict(`the retention ended at ${keptUntil}: the database can no longer be restored`)
    const key = { namespace, name }
    const taken = () =>
      conflict(`name: another database of the account has the name ${name}: delete that database first`)
    if ((await cluster.get('ManagedDatabase', key)) !== undefined) throw taken()
    requireBackupsInPlan(account)
    const spec = { ...found.spec, dataSource: await sourceOf(writer, found, request) }
    try {
      return await createNew({ ...writer, account: { ...account, tenant } }, name, spec, { ...attempt, objectId: id })
    } catch (error) {
      if (isClusterError(error, 'AlreadyExists')) throw taken()
      throw error
    }
  })
  caches.ManagedDatabase.writeThrough(database)
  const subject = { kind: 'database' as const, id, name: database.metadata.name }
  await recordTask(writer, { taskId, name: 'create-managed', subject, request })
  return { database, taskId }
}

export function addUndelete(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'undeleteDatabase',
      tag: 'databases',
      summary: 'Restore a deleted database',
      description:
        'Creates the database again from its archive: with its id, name, settings, services and passwords. It keeps its port unless another database uses it. Without a target, it contains all data archived before the deletion. `GET /deleted-databases` lists the databases that can be restored, and until when. The status is `creating` until it serves. If the restore fails, delete the database. It can then be restored again. Returns 409 if the database is not deleted or is still being deleted, if another database has its name, or if the retention has ended.',
      success: { status: 201, description: 'The database.', shape: databaseShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, body: undeleteInput.optional(), querystring: z.strictObject({}) },
  )
  app.post('/databases/:id/undelete', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { account } = writer
    const { id } = request.params
    requireCurrentPlan(account, context.now())
    const body = request.body ?? {}
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { database, taskId } = await undeleteDatabase(writer, id, body, attempt)
      context.audit.done(request, { status: 201, taskId })
      return { status: 201, body: context.databaseText(database, account.tenant), headers: taskHeaders(taskId) }
    }
    const afterWait = () => databaseTextAfterWait({ context, request, reply, account }, id)
    return answerOnce(context, request, reply, { body, objectId: id, work, afterWait })
  })
}
