/** Asks for the deletion of a database: what is asked is marked first, and the object deleted only as it was then. */
import type { Kinds } from '../../cluster/index.ts'
import { annotations, askedBy, desiredHash, readOperation, renderOperation } from '../../crds/index.ts'
import { countBranches } from '../branches/slots.ts'
import { readOwned } from '../caches.ts'
import { notFound } from '../errors.ts'
import { updatedAtAnnotation } from '../render/updated-at.ts'
import { guarded, recordTask, type Writer } from '../writer.ts'
import { decideDeletion } from './decide.ts'
import type { DeleteDatabaseQuery } from './schema.ts'
import { annotated, timeNow, type Written } from './write.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** The task of a deletion that is under way, as far as the object tells. */
function deletionTask(database: ManagedDatabase): string | undefined {
  const operation = readOperation(database)
  return operation?.name === 'delete-managed' ? operation.taskId : undefined
}

/** Whether nothing but the deletion itself is missing. */
const isMarked = (database: ManagedDatabase, { force, keep_backups: keepBackups }: DeleteDatabaseQuery): boolean =>
  deletionTask(database) !== undefined &&
  readOperation(database)?.hash === desiredHash(askedBy(database)) &&
  (!force || database.metadata.annotations?.[annotations.force] === 'true') &&
  (!keepBackups || database.spec.deletion.keepBackups)

function markedForDeletion(
  { context }: Writer,
  database: ManagedDatabase,
  taskId: string,
  { force, keep_backups: keepBackups }: DeleteDatabaseQuery,
): ManagedDatabase {
  const hash = desiredHash(askedBy(database))
  const asked = annotated(database, {
    [updatedAtAnnotation]: timeNow(context),
    [annotations.operation]: renderOperation({ taskId, name: 'delete-managed', hash }),
    ...(force ? { [annotations.force]: 'true' } : {}),
  })
  const { deletion } = asked.spec
  // What kubectl asked for stays so.
  return {
    ...asked,
    spec: { ...asked.spec, deletion: { ...deletion, keepBackups: deletion.keepBackups || keepBackups } },
  }
}

/** Asks for deletion; asking again while it is under way changes nothing. @throws ApiError 404, 409 */
export async function deleteDatabase(writer: Writer, id: string, query: DeleteDatabaseQuery): Promise<Written> {
  const { context, account } = writer
  const { cluster, caches } = context
  const written = await guarded(async (): Promise<Written & { asked: boolean }> => {
    const current = await readOwned(cluster, 'ManagedDatabase', account.namespace, id)
    if (current === undefined) throw notFound('database')
    const decision = decideDeletion(current, await countBranches(writer, current), query.force)
    if (decision === 'underway') return { database: current, taskId: deletionTask(current), asked: false }
    // A deletion that was marked before but never asked for keeps its task.
    const taskId = deletionTask(current) ?? context.newId()
    // The operator answers a mark with a write: one that stands already is not made again, or the two would go on for ever.
    const marked = isMarked(current, query)
      ? current
      : await cluster.replace('ManagedDatabase', markedForDeletion(writer, current, taskId, query))
    const { name, namespace, uid, resourceVersion } = marked.metadata
    await cluster.delete('ManagedDatabase', { name, namespace }, { uid, resourceVersion })
    // The cache may have heard of the mark by now, and takes in only what is newer.
    const left = await cluster.get('ManagedDatabase', { name, namespace })
    const gone = { ...marked, metadata: { ...marked.metadata, deletionTimestamp: timeNow(context) } }
    return { database: left !== undefined && left.metadata.uid === uid ? left : gone, taskId, asked: true }
  })
  caches.ManagedDatabase.writeThrough(written.database)
  if (written.asked && written.taskId !== undefined) {
    const subject = { kind: 'database' as const, id, name: written.database.metadata.name }
    await recordTask(writer, { taskId: written.taskId, name: 'delete-managed', subject, request: query })
  }
  return written
}
