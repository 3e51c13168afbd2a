/**
 * `POST /databases/{id}/restore`: replaces the current data with a backup or with a point in the archive. The API
 * stores the request in the database object, in the same write as its operation. The operator creates the object that
 * records the restore.
 */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import {
  annotations,
  desiredHash,
  desiredStateOf,
  type RestoreTarget,
  renderOperation,
  renderRequestedRestore,
  visiblePhase,
} from '../../crds/index.ts'
import { taskHeaders } from '../answers.ts'
import { readOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { badRequest, notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import { earlierAttempt, keyedWriteAnnotation } from '../idempotency/keyed-writes.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, operation } from '../operation.ts'
import { id, idParameter } from '../schemas/common.ts'
import { input } from '../schemas/components.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { guarded, recordTask, timeNow, type Writer, writerOf } from '../writer.ts'
import { databaseTextAfterWait } from './after-wait.ts'
import { branchMoment } from './branch-moment.ts'
import { atRest, busy, refuseWhileChangedSuspended } from './decide.ts'
import { readDatabase } from './find.ts'
import { backupsOf, decideMoment, refuseOtherThanOne, targetFields } from './moment.ts'
import { databaseShape } from './schema.ts'
import { annotated, type Written } from './write.ts'

const restoreInput = input(
  'CreateRestoreRequest',
  z
    .strictObject({
      ...targetFields,
      branch_id: id
        .optional()
        .describe(
          'The id of a branch that was created with a target: restores the data at that target. Later writes on the branch are not included.',
        ),
      discard_previous: z
        .boolean()
        .optional()
        .describe(
          '`true`: accepts the loss of the current data. The restore continues if they cannot be backed up first, and deletes their volume after success. `false` or omitted: the restore fails if they cannot be backed up, and keeps their volume: see `GET /databases/{id}/previous`.',
        ),
    })
    .meta({
      description:
        'The target: exactly one of `backup_id`, `target_time`, `target_lsn`, `target_name` and `branch_id`.',
      example: { backup_id: '0198c0de-0000-7000-8000-000000000002' },
    }),
)

/** @throws ApiError 409 while the database is busy */
function refuseBusy(database: Kinds['ManagedDatabase']): void {
  const phase = visiblePhase(database)
  if (!atRest.includes(phase)) throw busy(phase)
  refuseWhileChangedSuspended(database)
}

/** @throws ApiError 400 if the backup cannot be restored; 409 while the database is busy */
function decideRestore(database: Kinds['ManagedDatabase'], backup: Kinds['Backup'], databaseId: string): void {
  if (backup.spec.databaseId !== databaseId) throw badRequest('backup_id: the backup belongs to another database')
  if (backup.spec.sourceBranch !== undefined)
    throw badRequest('backup_id: the backup is of a branch: it cannot be restored into the database')
  refuseBusy(database)
  const status = backup.metadata.deletionTimestamp === undefined ? (backup.status?.phase ?? 'pending') : 'deleting'
  if (status !== 'completed')
    throw badRequest(`backup_id: the backup is ${status}: only a completed one can be restored`)
  if (backup.spec.kind === 'durable' && !database.spec.backup.durable)
    throw badRequest('backup_id: the backup is durable, and the durable tier of the database is off')
}

/** Returns the target of the Restore. @throws ApiError 400, 404, 409 */
async function targetOf(
  writer: Writer,
  database: Kinds['ManagedDatabase'],
  databaseId: string,
  input: z.output<typeof restoreInput>,
): Promise<RestoreTarget> {
  const {
    context,
    account: { namespace },
  } = writer
  if (input.branch_id !== undefined) {
    refuseBusy(database)
    return branchMoment(writer, { database, databaseId, branchId: input.branch_id })
  }
  if (input.backup_id === undefined) {
    refuseBusy(database)
    return decideMoment(database, backupsOf(context, namespace, databaseId), input)
  }
  const backup = await readOwned(context.cluster, 'Backup', namespace, input.backup_id)
  if (backup === undefined) throw notFound('backup')
  decideRestore(database, backup, databaseId)
  return { backupName: backup.metadata.name }
}

/** @throws ApiError 400, 404, 409 */
async function restoreDatabase(
  writer: Writer,
  databaseId: string,
  input: z.output<typeof restoreInput>,
  attempt: Attempt,
): Promise<Written> {
  refuseOtherThanOne(input, ['branch_id'])
  const { context, account } = writer
  const { namespace } = account
  const { taskId } = attempt
  const { discard_previous: isDiscarding, ...target } = input
  const stored = await guarded({ namespace, id: databaseId, what: 'database' }, async () => {
    const database = await readDatabase(context, namespace, databaseId)
    if (earlierAttempt(database, attempt) !== undefined) return database
    const target = await targetOf(writer, database, databaseId, input)
    const restore = renderRequestedRestore({
      name: `${database.metadata.name}-restore-${taskId.replaceAll('-', '').slice(-12)}`,
      ...target,
      ...(isDiscarding ? { discardPrevious: true } : {}),
    })
    const requested = annotated(database, { [annotations.restore]: restore })
    const operationText = renderOperation({
      taskId,
      name: 'restore-managed',
      hash: desiredHash(desiredStateOf(requested)),
    })
    const added = {
      [annotations.updatedAt]: timeNow(context),
      [annotations.operation]: operationText,
      ...(await keyedWriteAnnotation(context, database, attempt, 'restore-managed')),
    }
    return context.cluster.replace('ManagedDatabase', annotated(requested, added))
  })
  context.caches.ManagedDatabase.writeThrough(stored)
  const subject = { kind: 'database' as const, id: databaseId, name: stored.metadata.name }
  const request = { ...target, ...(isDiscarding ? { discard_previous: true } : {}) }
  await recordTask(writer, { taskId, name: 'restore-managed', subject, request })
  return { database: stored, taskId }
}

export function addRestore(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'restoreDatabase',
      tag: 'databases',
      summary: 'Restore a database to a backup or a point in time',
      description:
        "Replaces the current data with a completed backup of this database. With the durable tier, a time in the recovery window or a branch's target is also possible. Id, name, address and credentials are unchanged. The status is `restoring` from the response on. The current data are served until a second Postgres with the restored data has started. Then the operator switches to the restored data: sessions end, and connections are refused for some seconds. Before the switch, the operator creates a `prerestore` backup of the current data; after it, a `postrestore` backup. If the first backup fails, the restore fails, unless `discard_previous` is set. A restore that fails before the switch does not change the database. The previous volume is kept for a day. It is kept longer if no backup of it is completed, or if the restore fails after the switch. The database may be available, degraded, failed or suspended; a suspended database stays suspended. Returns 409 while another operation is running.",
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
    const afterWait = () => databaseTextAfterWait({ context, request, reply, account }, databaseId)
    return answerOnce(context, request, reply, { body: request.body, objectId: databaseId, work, afterWait })
  })
}
