/**
 * Requests the deletion of a database: first the annotation of the operation is written, then the object is deleted
 * with that version as precondition. `force` is written once the object is being deleted, so that it applies to this
 * deletion and to no later one.
 */
import { type Cluster, isClusterError, type Kinds } from '../../cluster/index.ts'
import { annotations, desiredHash, desiredStateOf, readOperation, renderOperation } from '../../crds/index.ts'
import { countBlocking } from '../branches/slots.ts'
import { readOwned } from '../caches.ts'
import { badRequest, notFound } from '../errors.ts'
import { guarded, recordTask, timeNow, type Writer } from '../writer.ts'
import { decideDeletion } from './decide.ts'
import type { DeleteDatabaseQuery } from './schema.ts'
import { annotated, type Terms } from './write.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** The task of a running deletion, if the object shows one. */
function deletionTask(database: ManagedDatabase): string | undefined {
  const operation = readOperation(database)
  return operation?.name === 'delete-managed' ? operation.taskId : undefined
}

/** The database with all annotations of a deletion; itself if it has them already. `at`: the time of the request. */
function annotatedForDeletion(
  database: ManagedDatabase,
  taskId: string,
  { keep_backups, purge }: DeleteDatabaseQuery,
  at: string,
): ManagedDatabase {
  const { metadata, spec } = database
  const added = {
    [annotations.operation]: renderOperation({
      taskId,
      name: 'delete-managed',
      hash: desiredHash(desiredStateOf(database)),
    }),
  }
  // A request made by kubectl is kept.
  const keepBackups = spec.deletion.keepBackups || keep_backups
  const isAnnotated = Object.entries(added).every(([name, value]) => metadata.annotations?.[name] === value)
  // An older force annotation is not for this deletion.
  const { [annotations.force]: forced, ...remaining } = metadata.annotations ?? {}
  const isPurged = spec.deletion.purge === true || purge
  const isRequested = keepBackups === spec.deletion.keepBackups && isPurged === (spec.deletion.purge === true)
  if (isAnnotated && forced === undefined && isRequested) return database
  const requested = {
    ...database,
    metadata: { ...metadata, annotations: remaining },
    spec: { ...spec, deletion: { ...spec.deletion, keepBackups, ...(isPurged ? { purge: true } : {}) } },
  }
  return annotated(requested, { ...added, [annotations.updatedAt]: at })
}

/** Forces the running deletion. @throws ClusterError `Conflict` */
async function forceDeletion(cluster: Cluster, database: ManagedDatabase): Promise<ManagedDatabase> {
  if (database.metadata.annotations?.[annotations.force] === 'true') return database
  try {
    return await cluster.replace('ManagedDatabase', annotated(database, { [annotations.force]: 'true' }))
  } catch (error) {
    // It had no branches, and is deleted.
    if (isClusterError(error, 'NotFound')) return database
    throw error
  }
}

/** Makes the running deletion permanent. @throws ClusterError `Conflict` */
async function purgeDeletion(cluster: Cluster, database: ManagedDatabase): Promise<ManagedDatabase> {
  const { spec } = database
  if (spec.deletion.purge) return database
  return cluster.replace('ManagedDatabase', {
    ...database,
    spec: { ...spec, deletion: { ...spec.deletion, purge: true } },
  })
}

/** The result of a deletion. `database`: as stored. `isOwn`: this attempt requested it. */
type Deleted = { database: ManagedDatabase | undefined; name: string; taskId: string | undefined; isOwn: boolean }

/**
 * Requests deletion; repeating the request while it is running changes nothing. Returns the task, if one follows.
 * @throws ApiError 400, 404, 409, 412
 */
export async function deleteDatabase(
  writer: Writer,
  id: string,
  query: DeleteDatabaseQuery,
  { attempt, requireCurrent }: Terms,
): Promise<string | undefined> {
  if (query.purge && query.keep_backups) throw badRequest('purge: cannot be combined with keep_backups')
  const { context, account } = writer
  const { cluster, caches } = context
  const { begun } = attempt
  const at = begun?.at ?? timeNow(context)
  /** Only our own annotation was added since its version was checked. */
  const isUnchanged = (database: ManagedDatabase): boolean =>
    deletionTask(database) === attempt.taskId && database.metadata.annotations?.[annotations.updatedAt] === at
  const object = { namespace: account.namespace, id, what: 'database' as const }
  const deleted = await guarded(object, async (): Promise<Deleted> => {
    const current = await readOwned(cluster, 'ManagedDatabase', account.namespace, id)
    if (current === undefined && begun !== undefined)
      return { database: undefined, name: begun.name, taskId: begun.taskId, isOwn: true }
    if (current === undefined) throw notFound('database')
    const { name, namespace, uid } = current.metadata
    if (current.metadata.deletionTimestamp !== undefined) {
      const taskId = deletionTask(current)
      const purged = query.purge ? await purgeDeletion(cluster, current) : current
      const database = query.force ? await forceDeletion(cluster, purged) : purged
      return { database, name, taskId, isOwn: taskId === attempt.taskId }
    }
    if (!isUnchanged(current)) await requireCurrent?.(current)
    decideDeletion(current, await countBlocking(writer, current), query.force)
    // A deletion that was annotated before but never requested keeps its task.
    const taskId = deletionTask(current) ?? attempt.taskId
    await attempt.begin({ name, taskId, at })
    // The operator answers an annotation with a write. An existing annotation is not written again, or the two would
    // loop for ever.
    const requested = annotatedForDeletion(current, taskId, query, at)
    const annotatedDatabase = requested === current ? current : await cluster.replace('ManagedDatabase', requested)
    await cluster.delete(
      'ManagedDatabase',
      { name, namespace },
      { uid, resourceVersion: annotatedDatabase.metadata.resourceVersion },
    )
    // The cache may already have the annotated object, and accepts only newer versions.
    const found = await cluster.get('ManagedDatabase', { name, namespace })
    const deleting = {
      ...annotatedDatabase,
      metadata: { ...annotatedDatabase.metadata, deletionTimestamp: timeNow(context) },
    }
    if (found === undefined || found.metadata.uid !== uid) return { database: deleting, name, taskId, isOwn: true }
    const database = query.force ? await forceDeletion(cluster, found) : found
    return { database, name, taskId, isOwn: true }
  })
  if (deleted.database !== undefined) caches.ManagedDatabase.writeThrough(deleted.database)
  if (deleted.isOwn && deleted.taskId !== undefined) {
    const subject = { kind: 'database' as const, id, name: deleted.name }
    await recordTask(writer, { taskId: deleted.taskId, name: 'delete-managed', subject, request: query })
  }
  return deleted.taskId
}
