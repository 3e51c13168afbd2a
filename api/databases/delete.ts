/**
 * Requests the deletion of a database. First writes the annotation of the operation, then deletes the object with that
 * version as precondition. Writes `force` only after the object is being deleted, so that it applies to this deletion
 * and to no later deletion.
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

/** Returns the task of a running deletion, if the object shows one. */
function deletionTask(database: ManagedDatabase): string | undefined {
  const operation = readOperation(database)
  return operation?.name === 'delete-managed' ? operation.taskId : undefined
}

/**
 * Returns the database with all annotations of a deletion, or the same object if it has them already. `at`: the time of
 * the request.
 */
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
  // Keeps a request that a user made with kubectl.
  const keepBackups = spec.deletion.keepBackups || keep_backups
  const isAnnotated = Object.entries(added).every(([name, value]) => metadata.annotations?.[name] === value)
  // An older force annotation does not apply to this deletion.
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
    // The database had no branches, and is deleted already.
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

/** The result of a deletion. `database`: as stored. `isOwn`: whether this attempt requested the deletion. */
type Deleted = { database: ManagedDatabase | undefined; name: string; taskId: string | undefined; isOwn: boolean }

/**
 * Requests deletion. Repeating the request while the deletion runs changes nothing. Returns the task, if the deletion
 * has one.
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
  /** Whether only the API's own annotation was added since the version was checked. */
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
    // If an earlier request annotated the deletion but did not delete the object, its task is kept.
    const taskId = deletionTask(current) ?? attempt.taskId
    await attempt.begin({ name, taskId, at })
    // The operator answers an annotation with a write. If the API wrote an existing annotation again, both would loop
    // forever.
    const requested = annotatedForDeletion(current, taskId, query, at)
    const annotatedDatabase = requested === current ? current : await cluster.replace('ManagedDatabase', requested)
    await cluster.delete(
      'ManagedDatabase',
      { name, namespace },
      { uid, resourceVersion: annotatedDatabase.metadata.resourceVersion },
    )
    // Read the object again: the cache accepts only newer versions, and may already have the annotated one.
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
