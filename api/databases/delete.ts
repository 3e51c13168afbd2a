/**
 * Requests the deletion of a database: the operation is marked first, and the object deleted only as it was then. `force` is written
 * once the object is being deleted, so that it holds for this deletion and for no later one.
 */
import { type Cluster, isClusterError, type Kinds } from '../../cluster/index.ts'
import { annotations, askedBy, desiredHash, readOperation, renderOperation } from '../../crds/index.ts'
import { countBlocking } from '../branches/slots.ts'
import { readOwned } from '../caches.ts'
import { notFound } from '../errors.ts'
import { guarded, recordTask, timeNow, type Writer } from '../writer.ts'
import { decideDeletion } from './decide.ts'
import type { DeleteDatabaseQuery } from './schema.ts'
import { annotated, type Terms } from './write.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** The task of a deletion that is under way, as far as the object tells. */
function deletionTask(database: ManagedDatabase): string | undefined {
  const operation = readOperation(database)
  return operation?.name === 'delete-managed' ? operation.taskId : undefined
}

/** The database with all that says it is to be deleted; itself where it says so already. `at`: when this was asked for. */
function markedForDeletion(
  database: ManagedDatabase,
  taskId: string,
  { keep_backups }: DeleteDatabaseQuery,
  at: string,
): ManagedDatabase {
  const { metadata, spec } = database
  const marks = {
    [annotations.operation]: renderOperation({ taskId, name: 'delete-managed', hash: desiredHash(askedBy(database)) }),
  }
  // What kubectl asked for stays so.
  const keepBackups = spec.deletion.keepBackups || keep_backups
  const isMarked = Object.entries(marks).every(([name, value]) => metadata.annotations?.[name] === value)
  // Force that somebody left there is not for this deletion.
  const { [annotations.force]: left, ...kept } = metadata.annotations ?? {}
  if (isMarked && left === undefined && keepBackups === spec.deletion.keepBackups) return database
  const asked = {
    ...database,
    metadata: { ...metadata, annotations: kept },
    spec: { ...spec, deletion: { ...spec.deletion, keepBackups } },
  }
  return annotated(asked, { ...marks, [annotations.updatedAt]: at })
}

/** Forces the deletion that is under way. @throws ClusterError `Conflict` */
async function forceDeletion(cluster: Cluster, database: ManagedDatabase): Promise<ManagedDatabase> {
  if (database.metadata.annotations?.[annotations.force] === 'true') return database
  try {
    return await cluster.replace('ManagedDatabase', annotated(database, { [annotations.force]: 'true' }))
  } catch (error) {
    // It had no branches, and is gone.
    if (isClusterError(error, 'NotFound')) return database
    throw error
  }
}

/** What a deletion found or left. `database`: as stored. `isOurs`: no other request asked for it. */
type Deleted = { database: ManagedDatabase | undefined; name: string; taskId: string | undefined; isOurs: boolean }

/**
 * Asks for deletion; asking again while it is under way changes nothing. Gives the task, if one follows it.
 * @throws ApiError 404, 409, 412
 */
export async function deleteDatabase(
  writer: Writer,
  id: string,
  query: DeleteDatabaseQuery,
  { attempt, requireCurrent }: Terms,
): Promise<string | undefined> {
  const { context, account } = writer
  const { cluster, caches } = context
  const { begun } = attempt
  const at = begun?.at ?? timeNow(context)
  /** Nothing but our own mark came to it since it was found to be the one that was meant. */
  const isAsWeLeftIt = (database: ManagedDatabase): boolean =>
    deletionTask(database) === attempt.taskId && database.metadata.annotations?.[annotations.updatedAt] === at
  const object = { namespace: account.namespace, id, what: 'database' as const }
  const deleted = await guarded(object, async (): Promise<Deleted> => {
    const current = await readOwned(cluster, 'ManagedDatabase', account.namespace, id)
    if (current === undefined && begun !== undefined)
      return { database: undefined, name: begun.name, taskId: begun.taskId, isOurs: true }
    if (current === undefined) throw notFound('database')
    const { name, namespace, uid } = current.metadata
    if (current.metadata.deletionTimestamp !== undefined) {
      const taskId = deletionTask(current)
      const database = query.force ? await forceDeletion(cluster, current) : current
      return { database, name, taskId, isOurs: taskId === attempt.taskId }
    }
    if (!isAsWeLeftIt(current)) await requireCurrent?.(current)
    decideDeletion(current, await countBlocking(writer, current), query.force)
    // A deletion that was marked before but never asked for keeps its task.
    const taskId = deletionTask(current) ?? attempt.taskId
    await attempt.begin({ name, taskId, at })
    // The operator answers a mark with a write: one that stands already is not made again, or the two would go on for ever.
    const asked = markedForDeletion(current, taskId, query, at)
    const marked = asked === current ? current : await cluster.replace('ManagedDatabase', asked)
    await cluster.delete(
      'ManagedDatabase',
      { name, namespace },
      { uid, resourceVersion: marked.metadata.resourceVersion },
    )
    // The cache may have heard of the mark by now, and takes in only what is newer.
    const left = await cluster.get('ManagedDatabase', { name, namespace })
    const gone = { ...marked, metadata: { ...marked.metadata, deletionTimestamp: timeNow(context) } }
    if (left === undefined || left.metadata.uid !== uid) return { database: gone, name, taskId, isOurs: true }
    const database = query.force ? await forceDeletion(cluster, left) : left
    return { database, name, taskId, isOurs: true }
  })
  if (deleted.database !== undefined) caches.ManagedDatabase.writeThrough(deleted.database)
  if (deleted.isOurs && deleted.taskId !== undefined) {
    const subject = { kind: 'database' as const, id, name: deleted.name }
    await recordTask(writer, { taskId: deleted.taskId, name: 'delete-managed', subject, request: query })
  }
  return deleted.taskId
}
