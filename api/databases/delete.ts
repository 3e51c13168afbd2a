/** Asks for the deletion of a database: what is asked is marked first, and the object deleted only as it was then. */
import type { Kinds } from '../../cluster/index.ts'
import { annotations, askedBy, desiredHash, readOperation, renderOperation } from '../../crds/index.ts'
import { countBranches } from '../branches/slots.ts'
import { readOwned } from '../caches.ts'
import { notFound } from '../errors.ts'
import { updatedAtAnnotation } from '../render/updated-at.ts'
import { guarded, recordTask, timeNow, type Writer } from '../writer.ts'
import { decideDeletion } from './decide.ts'
import type { DeleteDatabaseQuery } from './schema.ts'
import { annotated, type Terms, type Written } from './write.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** The task of a deletion that is under way, as far as the object tells. */
function deletionTask(database: ManagedDatabase): string | undefined {
  const operation = readOperation(database)
  return operation?.name === 'delete-managed' ? operation.taskId : undefined
}

/** The database with all that says it is to be deleted; itself where it says so already. */
function markedForDeletion(
  { context }: Writer,
  database: ManagedDatabase,
  taskId: string,
  { force, keep_backups }: DeleteDatabaseQuery,
): ManagedDatabase {
  const { metadata, spec } = database
  const marks = {
    [annotations.operation]: renderOperation({ taskId, name: 'delete-managed', hash: desiredHash(askedBy(database)) }),
    ...(force ? { [annotations.force]: 'true' } : {}),
  }
  // What kubectl asked for stays so.
  const keepBackups = spec.deletion.keepBackups || keep_backups
  const isMarked = Object.entries(marks).every(([name, value]) => metadata.annotations?.[name] === value)
  if (isMarked && keepBackups === spec.deletion.keepBackups) return database
  const asked = { ...database, spec: { ...spec, deletion: { ...spec.deletion, keepBackups } } }
  return annotated(asked, { ...marks, [updatedAtAnnotation]: timeNow(context) })
}

/** Asks for deletion; asking again while it is under way changes nothing. @throws ApiError 404, 409, 412 */
export async function deleteDatabase(
  writer: Writer,
  id: string,
  query: DeleteDatabaseQuery,
  { taskId: fresh, requireCurrent }: Terms,
): Promise<Written> {
  const { context, account } = writer
  const { cluster, caches } = context
  const object = { namespace: account.namespace, id, what: 'database' as const }
  const written = await guarded(object, async (): Promise<Written & { asked: boolean }> => {
    const current = await readOwned(cluster, 'ManagedDatabase', account.namespace, id)
    if (current === undefined) throw notFound('database')
    if (current.metadata.deletionTimestamp !== undefined)
      return { database: current, taskId: deletionTask(current), asked: false }
    await requireCurrent?.(current)
    decideDeletion(current, await countBranches(writer, current), query.force)
    // A deletion that was marked before but never asked for keeps its task.
    const taskId = deletionTask(current) ?? fresh
    // The operator answers a mark with a write: one that stands already is not made again, or the two would go on for ever.
    const asked = markedForDeletion(writer, current, taskId, query)
    const marked = asked === current ? current : await cluster.replace('ManagedDatabase', asked)
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
