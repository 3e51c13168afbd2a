/** Writes backups. Each backup is one object that the operator reconciles. */
import { isClusterError, type Kinds } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  branchPhase,
  childNames,
  labels,
  managedByEspalier,
  renderOperation,
  teardownFinalizer,
  tenantHash,
} from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { byDatabase, idOf, readOwned } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import { readDatabase } from '../databases/find.ts'
import { conflict, notFound, retryAfter } from '../errors.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import { earlierAttempt, keyedWriteAnnotation } from '../idempotency/keyed-writes.ts'
import { requireBackupsInPlan } from '../tenants.ts'
import { guarded, recordTask, refuseSecondCreation, timeNow, type Writer } from '../writer.ts'
import { decideBackup, decideVerification } from './decide.ts'

type Backup = Kinds['Backup']
type CreateBackup = { kind: Backup['spec']['kind'] }

/**
 * The name has the database, the time, and a suffix for backups within one second. The same id results in the same
 * name, so that a retry creates no second backup.
 */
function nameOf(database: string, id: string): string {
  const time = new Date(timeOfId(id) ?? 0).toISOString().replaceAll(/[-:]/g, '').slice(0, 15).replace('T', '-')
  return `${database}-${time}-${id.slice(-4)}`
}

/** @throws ApiError 400, 404, 409 */
export async function createBackup(
  writer: Writer,
  databaseId: string,
  { kind }: CreateBackup,
  ids: Attempt,
): Promise<Backup> {
  const { context, account } = writer
  const { cluster, caches } = context
  const { namespace, tenantId } = account
  const finished = async (backup: Backup): Promise<Backup> => {
    caches.Backup.writeThrough(backup)
    const subject = { kind: 'backup' as const, id: ids.objectId, name: backup.metadata.name }
    await recordTask(writer, { taskId: ids.taskId, name: 'backup-managed', subject, request: { kind } })
    return backup
  }
  const earlier = ids.isRepeated ? await readOwned(cluster, 'Backup', namespace, ids.objectId) : undefined
  if (earlier !== undefined) return finished(earlier)
  await refuseSecondCreation(writer, ids)
  // Reads the cluster, not the cache: the API would accept a backup of a newly suspended database, and the backup would
  // then fail.
  const database = await readDatabase({ cluster }, namespace, databaseId)
  requireBackupsInPlan(account)
  const key = { namespace, name: nameOf(database.metadata.name, ids.objectId) }
  const region =
    caches.Region.get({ name: database.spec.region }) ?? (await cluster.get('Region', { name: database.spec.region }))
  decideBackup({ kind, database, region, existing: countBackups(context, namespace, databaseId) })
  const ownLabels = {
    [labels.id]: ids.objectId,
    [labels.tenant]: tenantHash(tenantId),
    [labels.managedBy]: managedByEspalier,
  }
  const operation = renderOperation({ taskId: ids.taskId, name: 'backup-managed', hash: '' })
  try {
    const backup = await cluster.create('Backup', {
      apiVersion,
      kind: 'Backup',
      metadata: {
        ...key,
        labels: ownLabels,
        annotations: { [annotations.operation]: operation },
        finalizers: [teardownFinalizer],
      },
      spec: { databaseName: database.metadata.name, databaseId, kind, purpose: 'user' },
    })
    await takeBackIfSuspended(writer, backup)
    return await finished(backup)
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
    const winner = await cluster.get('Backup', key)
    if (winner === undefined || idOf(winner) !== ids.objectId) throw error
    return finished(winner)
  }
}

/**
 * The operator stops Postgres only if no backup is waiting. So a suspension that was requested after the backup waits
 * for the backup. This function detects an earlier suspension, and deletes the backup.
 * @throws ApiError 409 after it has deleted the backup
 */
async function takeBackIfSuspended({ context, account }: Writer, { metadata, spec }: Backup): Promise<void> {
  const { cluster } = context
  const { name, uid } = metadata
  const { namespace } = account
  const database = await readOwned(cluster, 'ManagedDatabase', namespace, spec.databaseId)
  if (database?.spec.suspended !== true) return
  await cluster.delete('Backup', { namespace, name }, { uid })
  throw conflict('the database is being suspended: resume it, then take a backup')
}

const countBackups = ({ caches }: ApiContext, namespace: string, databaseId: string): number =>
  caches.Backup.list({ namespace }).filter(
    ({ spec, status }) => spec.databaseId === databaseId && spec.purpose === 'user' && status?.phase !== 'failed',
  ).length

/** Requests verification of a copy. @throws ApiError 404, 409 */
export async function verifyBackup({ context, account }: Writer, id: string, attempt: Attempt): Promise<Backup> {
  const { cluster, caches } = context
  const backup = await guarded({ namespace: account.namespace, id, what: 'backup' }, async () => {
    const current = await readOwned(cluster, 'Backup', account.namespace, id)
    if (current === undefined) throw notFound('backup')
    if (earlierAttempt(current, attempt) !== undefined) return current
    decideVerification(current)
    const { metadata } = current
    const added = {
      [annotations.verify]: timeNow(context),
      ...(await keyedWriteAnnotation(context, current, attempt, undefined)),
    }
    return cluster.replace('Backup', {
      ...current,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...added } },
    })
  })
  caches.Backup.writeThrough(backup)
  return backup
}

/** Returns the branch that is being created from a backup. */
function madeFrom({ caches }: ApiContext, backup: Backup): Kinds['Branch'] | undefined {
  if (backup.spec.purpose !== 'prebranch') return undefined
  return caches.Branch.byIndex(byDatabase, backup.spec.databaseId).find(
    branch => branchPhase(branch) === 'creating' && childNames.prebranch(idOf(branch) ?? '') === backup.metadata.name,
  )
}

/** Identifies the attempt of a deletion, and its preconditions. */
type Deletion = { attempt: Attempt; requireCurrent: ((current: Backup) => Promise<void>) | undefined }

/**
 * Requests deletion. Repeating the request changes nothing. @throws ApiError 404; 409 while a branch is being created
 * from the backup; 412
 */
export async function deleteBackup(
  { context, account }: Writer,
  id: string,
  { attempt, requireCurrent }: Deletion,
): Promise<void> {
  const { cluster } = context
  await guarded({ namespace: account.namespace, id, what: 'backup' }, async () => {
    const backup = await readOwned(cluster, 'Backup', account.namespace, id)
    if (backup === undefined && attempt.begun !== undefined) return
    if (backup === undefined) throw notFound('backup')
    if (backup.metadata.deletionTimestamp !== undefined) return
    await requireCurrent?.(backup)
    const branch = madeFrom(context, backup)
    if (branch !== undefined)
      throw conflict(
        `the branch ${branch.metadata.name} is being created from it: delete the backup after that`,
        retryAfter.busy,
      )
    const { namespace, name, uid, resourceVersion } = backup.metadata
    await attempt.begin({ name })
    // Without a version precondition, a concurrent write of the operator must not cause a retry.
    await cluster.delete(
      'Backup',
      { namespace, name },
      requireCurrent === undefined ? { uid } : { uid, resourceVersion },
    )
  })
}
