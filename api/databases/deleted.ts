/** `/deleted-databases`: deleted databases that can be restored, and their permanent deletion. */
import { z } from 'zod'
import type { Cluster } from '../../cluster/index.ts'
import {
  annotations,
  type DeletedDatabase,
  deletedDatabaseComponent,
  deletedDatabaseKey,
  isPurged,
  labels,
  type ManagedDatabaseSpec,
  readDeletedDatabase,
  recoveryWindow,
  specOfDeleted,
  systemNamespace,
  tenantHash,
} from '../../crds/index.ts'
import { sendJson } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer } from '../idempotency/record.ts'
import { operation, paged } from '../operation.ts'
import { pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter, idText, paging, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'
import { refuseBody } from '../validation.ts'
import { guarded, type Writer, writerOf } from '../writer.ts'
import { backupsOf } from './moment.ts'

type ConfigMap = NonNullable<Awaited<ReturnType<typeof readMap>>>

/** A deleted database that can be restored, until its retention ends. */
export type Deleted = { deleted: DeletedDatabase & { keptUntil: string }; spec: ManagedDatabaseSpec }

const readMap = (cluster: Cluster, id: string) => cluster.get('ConfigMap', deletedDatabaseKey(id))

/** Returns the tenant's own database; undefined if it belongs to another tenant, or is permanently deleted. */
function deletedOf(map: ConfigMap, namespace: string): Deleted | undefined {
  const deleted = readDeletedDatabase(map)
  const spec = specOfDeleted(map)
  if (deleted?.keptUntil === undefined || deleted.namespace !== namespace || isPurged(map)) return undefined
  return spec && { deleted: { ...deleted, keptUntil: deleted.keptUntil }, spec }
}

export async function findDeleted(cluster: Cluster, namespace: string, id: string): Promise<Deleted | undefined> {
  const map = await readMap(cluster, id)
  return map && deletedOf(map, namespace)
}

const deletedShape = output(
  'DeletedDatabase',
  z
    .strictObject({
      id: idText.describe('The id of the database, before its deletion and after its restore.'),
      name: z.string().describe('Its name.'),
      region: z.string().describe('The region of the database.'),
      size: z.string().describe('Its size.'),
      pg_version: z.string().describe('The major version of Postgres.'),
      deleted_at: time.describe('When its deletion was requested.'),
      kept_until: time.describe('Until when it can be restored. Then all its data are deleted.'),
      earliest_time: time.nullable().describe('The earliest time it can be restored to. `null`: none.'),
      latest_time: time.nullable().describe('The last moment that is known to be archived.'),
    })
    .meta({
      description: 'A deleted database that can be restored.',
      example: {
        id: '0198c0de-0000-7000-8000-000000000001',
        name: 'shop',
        region: 'local',
        size: 'small',
        pg_version: '18',
        deleted_at: '2026-01-31T12:00:00Z',
        kept_until: '2026-02-07T12:00:00Z',
        earliest_time: '2026-01-25T02:00:11.000Z',
        latest_time: '2026-01-31T11:59:58.000Z',
      },
    }),
)

function rendered(context: ApiContext, { deleted, spec }: Deleted): z.output<typeof deletedShape> {
  const { id, name, namespace, deletedAt, keptUntil, archive } = deleted
  const { spans } = recoveryWindow({ status: { archive } }, backupsOf(context, namespace, id))
  const iso = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString())
  return {
    ...{ id, name, region: spec.region, size: spec.size.name, pg_version: spec.pgVersion },
    ...{ deleted_at: deletedAt, kept_until: keptUntil },
    earliest_time: iso(spans[0]?.from),
    latest_time: iso(spans.at(-1)?.to),
  }
}

export function addDeleted(app: App, context: ApiContext): void {
  addList(app, context)
  addPurge(app, context)
}

function addList(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listDeletedDatabases',
      tag: 'databases',
      summary: 'List deleted databases that can be restored',
      description:
        'A deleted database with the durable tier and a durable backup can be restored as long as its WAL is retained, 7 days by default. Ordered by time of deletion.',
      success: {
        status: 200,
        description: 'One page of deleted databases.',
        shape: z.array(deletedShape),
        headers: paged,
      },
      errors: [400],
    },
    { querystring: z.strictObject(paging(1000, false)) },
  )
  app.get('/deleted-databases', { schema }, async (request, reply) => {
    const { namespace, tenantId } = accountOf(request)
    const { items } = await context.cluster.list('ConfigMap', {
      namespace: systemNamespace,
      labels: { [labels.component]: deletedDatabaseComponent, [labels.tenant]: tenantHash(tenantId) },
    })
    const ended = ({ deleted }: Deleted) => Date.parse(deleted.keptUntil) <= context.now()
    const sorted = items
      .map(map => deletedOf(map, namespace))
      .filter(each => each !== undefined)
      .filter(each => !ended(each))
      .toSorted(({ deleted: one }, { deleted: other }) => Date.parse(one.deletedAt) - Date.parse(other.deletedAt))
    const { items: page, total } = pageOf(sorted, request.query)
    const text = JSON.stringify(page.map(each => rendered(context, each)))
    return sendJson(reply.headers(pageHeaders(request.url, request.query, total)), text)
  })
}

function addPurge(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'purgeDeletedDatabase',
      tag: 'databases',
      summary: 'Permanently delete a deleted database',
      description:
        'The database can no longer be restored. Deletes its durable backups, passwords, archived WAL and base backups. Durable backups that were kept by `keep_backups` remain.',
      success: { status: 204, description: 'The deletion has begun.' },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key'],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.delete('/deleted-databases/:id', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id } = request.params
    refuseBody(request)
    const work = async (_: Attempt): Promise<Answer> => {
      await purge(writer, id)
      context.audit.done(request, { status: 204 })
      return { status: 204, body: '', headers: {} }
    }
    const afterWait = async () => undefined
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}

/** Annotates the record, so that the operator deletes the remaining objects. @throws ApiError 404, 409 */
async function purge({ context: { cluster }, account: { namespace } }: Writer, id: string): Promise<void> {
  await guarded({ namespace, id, what: 'database' }, async () => {
    const map = await readMap(cluster, id)
    if (map === undefined || readDeletedDatabase(map)?.namespace !== namespace) throw notFound('deleted database')
    if (isPurged(map)) return
    const added = { ...map.metadata.annotations, [annotations.purge]: 'true' }
    await cluster.replace('ConfigMap', { ...map, metadata: { ...map.metadata, annotations: added } })
  })
}
