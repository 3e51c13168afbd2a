/**
 * `/databases/{id}/previous`: the volumes that served before restores. The API lists them, counts them in
 * `storage_used`, and deletes them on request.
 */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { annotations, labels, type PreviousVolume } from '../../crds/index.ts'
import { sendJson } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import { earlierAttempt, keyedWriteAnnotation } from '../idempotency/keyed-writes.ts'
import type { Answer } from '../idempotency/record.ts'
import { operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter, idText, pathInteger, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'
import { refuseBody } from '../validation.ts'
import { guarded, timeNow, type Writer, writerOf } from '../writer.ts'
import { decidePreviousDeletion } from './decide.ts'
import { findDatabase, readDatabase } from './find.ts'
import { annotated } from './write.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

const previousShape = output(
  'PreviousVolume',
  z
    .strictObject({
      incarnation: z.int().describe('The number of the volume.'),
      replaced_at: time.optional().describe('When a restore replaced it. Absent if unknown.'),
      backup_id: idText
        .optional()
        .describe('The id of the `prerestore` backup of this volume. Absent if there is none.'),
      storage_used: z
        .int()
        .optional()
        .meta({ format: 'int64' })
        .describe("Its part of the database's `storage_used`, in bytes."),
      kept_until: time.optional().describe('When it is deleted automatically. Absent: only on request.'),
      reason: z
        .string()
        .describe(
          'Why it is kept, in one word: `KeptForADay`, `NoBackup`, `RestoreFailed`, `RestoreUnderWay`, `RestoreUnknown`. `Deleting`: it is being deleted. More values may be added.',
        ),
      message: z.string().describe('Why it is kept, and when it is deleted.'),
    })
    .meta({
      description: 'A volume that served until a restore replaced it.',
      example: {
        incarnation: 1,
        replaced_at: '2026-01-31T12:00:00Z',
        backup_id: '0198c0de-0000-7000-8000-000000000002',
        storage_used: 8388608,
        kept_until: '2026-02-01T12:00:00Z',
        reason: 'KeptForADay',
        message: 'it is kept for a day after the restore',
      },
    }),
)

const parameters = idParameter.extend({ incarnation: pathInteger.describe('The number of the volume.') })

export function addPrevious(app: App, context: ApiContext): void {
  addList(app, context)
  addDelete(app, context)
}

function addList(app: App, { cluster, caches }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listPreviousVolumes',
      tag: 'databases',
      summary: 'List previous volumes',
      description:
        'A restore keeps the volume that it replaces. The volume is deleted one day after a successful restore, once its `prerestore` backup is completed. Without such a backup, or after a failed restore, it is kept until you delete it. Oldest first, at most 64.',
      success: { status: 200, description: 'The volumes.', shape: z.array(previousShape) },
      errors: [400, 404],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.get('/databases/:id/previous', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const database = await findDatabase({ cluster, caches }, namespace, request.params.id)
    const idOfBackup = (name: string): string | undefined =>
      caches.Backup.get({ namespace, name })?.metadata.labels?.[labels.id]
    const volumes = (database.status?.previous ?? []).map(volume => rendered(volume, idOfBackup))
    return sendJson(reply, JSON.stringify(volumes))
  })
}

function rendered(
  { incarnation, replacedAt, backup, bytes, keptUntil, reason = 'RestoreUnderWay', message = '' }: PreviousVolume,
  idOfBackup: (name: string) => string | undefined,
): z.output<typeof previousShape> {
  const backupId = backup === undefined ? undefined : idOfBackup(backup)
  return {
    incarnation,
    ...(replacedAt === undefined ? {} : { replaced_at: replacedAt }),
    ...(backupId === undefined ? {} : { backup_id: backupId }),
    ...(bytes === undefined ? {} : { storage_used: bytes }),
    ...(keptUntil === undefined ? {} : { kept_until: keptUntil }),
    reason,
    message,
  }
}

function addDelete(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'deletePreviousVolume',
      tag: 'databases',
      summary: 'Delete a previous volume',
      description:
        'Its data are lost, unless the `prerestore` backup contains them. It is listed until it is deleted. Returns 409 while a restore is running.',
      success: { status: 204, description: 'The deletion has begun.' },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key'],
    },
    { params: parameters, querystring: z.strictObject({}) },
  )
  app.delete('/databases/:id/previous/:incarnation', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id, incarnation } = request.params
    refuseBody(request)
    const work = async (attempt: Attempt): Promise<Answer> => {
      await agree(writer, id, incarnation, attempt)
      context.audit.done(request, { status: 204 })
      return { status: 204, body: '', headers: {} }
    }
    const afterWait = async () => undefined
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}

/** Annotates the database, so that the operator deletes this volume. @throws ApiError 404, 409 */
async function agree(writer: Writer, id: string, incarnation: number, attempt: Attempt): Promise<void> {
  const { context, account } = writer
  const { namespace } = account
  const stored = await guarded({ namespace, id, what: 'database' }, async () => {
    const database = await readDatabase(context, namespace, id)
    if (earlierAttempt(database, attempt) !== undefined) return database
    const volume = database.status?.previous?.find(previous => previous.incarnation === incarnation)
    if (volume === undefined) throw notFound('previous volume')
    decidePreviousDeletion(database)
    const agreed = agreedWith(database, volume)
    if (agreed === undefined) return database
    return context.cluster.replace(
      'ManagedDatabase',
      annotated(database, {
        [annotations.discardPrevious]: agreed,
        [annotations.updatedAt]: timeNow(context),
        ...(await keyedWriteAnnotation(context, database, attempt, undefined)),
      }),
    )
  })
  context.caches.ManagedDatabase.writeThrough(stored)
}

/**
 * Returns the annotation with this volume and without deleted volumes; undefined if the annotation contains the volume
 * already.
 */
function agreedWith({ metadata, status }: ManagedDatabase, { uid }: PreviousVolume): string | undefined {
  const present = new Set(status?.previous?.map(previous => previous.uid))
  const named = metadata.annotations?.[annotations.discardPrevious]?.split(',').map(text => text.trim()) ?? []
  if (named.includes(uid)) return undefined
  return [...named.filter(name => present.has(name)), uid].join(',')
}
