/**
 * `POST /databases/{id}/restore`: the data of a backup in the place of the present ones. What is asked for stands in the
 * database itself, in the same write as its operation; the operator makes the object that records it.
 */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import {
  annotations,
  askedBy,
  desiredHash,
  renderAskedRestore,
  renderOperation,
  visiblePhase,
} from '../../crds/index.ts'
import { taskHeaders } from '../answers.ts'
import { readOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { badRequest, notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/claims.ts'
import { earlierTry, markOf } from '../idempotency/marks.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, operation } from '../operation.ts'
import { id, idParameter } from '../schemas/common.ts'
import { input } from '../schemas/components.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { guarded, recordTask, timeNow, type Writer, writerOf } from '../writer.ts'
import { atRest, busy, refuseWhileChangedSuspended } from './decide.ts'
import { databaseShape } from './schema.ts'
import { settledText } from './settled.ts'
import { annotated, type Written } from './write.ts'

const restoreInput = input(
  'CreateRestoreRequest',
  z
    .strictObject({
      backup_id: id.describe('The id of a completed backup of this database.'),
      discard_previous: z
        .boolean()
        .optional()
        .describe(
          '`true`: you agree to lose the present data. The restore goes on where they cannot be backed up before, and their volume is deleted once the restore has completed. Otherwise the restore fails without such a backup, and the volume is kept: see `GET /databases/{id}/previous`.',
        ),
    })
    .meta({ description: 'What to return to.', example: { backup_id: '0198c0de-0000-7000-8000-000000000002' } }),
)

/** @throws ApiError 400 where nothing can be restored from the backup, 409 while the database is busy */
function decideRestore(database: Kinds['ManagedDatabase'], backup: Kinds['Backup'], databaseId: string): void {
  if (backup.spec.databaseId !== databaseId) throw badRequest('backup_id: the backup is of another database')
  if (backup.spec.sourceBranch !== undefined)
    throw badRequest('backup_id: the backup is of a branch: its data cannot take the place of the database')
  const phase = visiblePhase(database)
  if (!atRest.includes(phase)) throw busy(phase)
  refuseWhileChangedSuspended(database)
  const status = backup.metadata.deletionTimestamp === undefined ? (backup.status?.phase ?? 'pending') : 'deleting'
  if (status !== 'completed')
    throw badRequest(`backup_id: the backup is ${status}: only a completed one can be restored`)
}

/** @throws ApiError 400, 404, 409 */
async function restoreDatabase(
  writer: Writer,
  databaseId: string,
  { backup_id: backupId, discard_previous: isDiscarding }: z.output<typeof restoreInput>,
  attempt: Attempt,
): Promise<Written> {
  const { context, account } = writer
  const { namespace } = account
  const { taskId } = attempt
  const stored = await guarded({ namespace, id: databaseId, what: 'database' }, async () => {
    const database = await readOwned(context.cluster, 'ManagedDatabase', namespace, databaseId)
    if (database === undefined) throw notFound('database')
    if (earlierTry(database, attempt) !== undefined) return database
    const backup = await readOwned(context.cluster, 'Backup', namespace, backupId)
    if (backup === undefined) throw notFound('backup')
    decideRestore(database, backup, databaseId)
    const restore = renderAskedRestore({
      name: `${database.metadata.name}-restore-${taskId.replaceAll('-', '').slice(-12)}`,
      backupName: backup.metadata.name,
      ...(isDiscarding ? { discardPrevious: true } : {}),
    })
    const asking = annotated(database, { [annotations.restore]: restore })
    const asked = renderOperation({ taskId, name: 'restore-managed', hash: desiredHash(askedBy(asking)) })
    const marks = {
      [annotations.updatedAt]: timeNow(context),
      [annotations.operation]: asked,
      ...(await markOf(context, database, attempt, 'restore-managed')),
    }
    return context.cluster.replace('ManagedDatabase', annotated(asking, marks))
  })
  context.caches.ManagedDatabase.writeThrough(stored)
  const subject = { kind: 'database' as const, id: databaseId, name: stored.metadata.name }
  const asked = { backup_id: backupId, ...(isDiscarding ? { discard_previous: true } : {}) }
  await recordTask(writer, { taskId, name: 'restore-managed', subject, request: asked })
  return { database: stored, taskId }
}

export function addRestore(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'restoreDatabase',
      tag: 'databases',
      summary: 'Restore a database from a backup',
      description:
        'Puts the data of a completed backup of this database in the place of the present ones. Id, name, address and credentials stay. The status is `restoring` from the answer on. The present data are served until the restored ones have been started beside them; then sessions end, and connections are refused for some seconds. A backup of the data as they were before, of the purpose `prerestore`, is in the list of backups before anything is moved, and one of the purpose `postrestore` is taken after. Where the former cannot be taken, the restore fails, unless `discard_previous` is set. A restore that fails before the exchange leaves the database as it was. The volume of before is kept for a day, and longer where no backup of it is completed or the restore fails after the exchange. The database may be available, degraded, failed or suspended; a suspended one stays suspended. Answers 409 while another operation is running.',
      success: { status: 202, description: 'The database.', shape: databaseShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, body: restoreInput, querystring: z.strictObject({}) },
  )
  app.post('/databases/:id/restore', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id: databaseId } = request.params
    requireCurrentPlan(writer.account, context.now())
    const { account } = writer
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { database, taskId } = await restoreDatabase(writer, databaseId, request.body, attempt)
      context.audit.done(request, { status: 202, taskId })
      const body = context.databaseText(database, account.tenant)
      return { status: 202, body, headers: taskHeaders(taskId) }
    }
    const settled = () => settledText({ context, request, reply, account }, databaseId)
    return answerOnce(context, request, reply, { body: request.body, objectId: databaseId, work, settled })
  })
}
